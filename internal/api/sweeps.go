package api

import (
	"encoding/json"
	"time"

	"cdui/internal/run"
	"cdui/internal/sweep"
)

// Paths of sweeps.
const (
	PathSweeps      = "/api/sweeps"
	PathSweep       = "/api/sweeps/{id}"
	PathSweepCancel = "/api/sweeps/{id}/cancel"
	PathSweepRerun  = "/api/sweeps/{id}/rerun"
)

// SweepRequest is the body of POST /api/sweeps. BaseGraph is required unless
// options.script or options.command stands for it.
type SweepRequest struct {
	BaseGraph json.RawMessage `json:"base_graph,omitempty"`
	SweepSpec sweep.Spec      `json:"sweep_spec"`
	Objective sweep.Objective `json:"objective"`
	Options   json.RawMessage `json:"options,omitempty"`
	Name      *string         `json:"name,omitempty"`
	// SeedVariants gives variant i the seed of the sweep plus i.
	SeedVariants bool `json:"seed_variants,omitempty"`
	// Key: the same one again gives the first sweep.
	Key string `json:"key,omitempty"`
	// Cwd, Git and Code are those of a submit.
	Cwd  string    `json:"cwd,omitempty"`
	Git  *GitState `json:"git,omitempty"`
	Code *CodeRef  `json:"code,omitempty"`
}

// SweepValue is the value of one param.
type SweepValue struct {
	sweep.Address
	Value json.RawMessage `json:"value"`
}

// SweepReply is the reply to POST /api/sweeps. Existing is true when the key
// named a sweep that was there already.
type SweepReply struct {
	SweepID           string          `json:"sweep_id"`
	Name              string          `json:"name"`
	Existing          bool            `json:"existing"`
	State             sweep.State     `json:"state"`
	Method            string          `json:"method"`
	Seed              *int64          `json:"seed"`
	SeedVariants      bool            `json:"seed_variants"`
	Objective         sweep.Objective `json:"objective"`
	TotalCombinations int             `json:"total_combinations"`
	Params            []sweep.Domain  `json:"params"`
	Variants          []SweepChild    `json:"variants"`
}

// SweepChild is a variant as it was queued, in the order of the indices.
type SweepChild struct {
	Index       int          `json:"index"`
	DomainIndex int          `json:"domain_index"`
	RunID       string       `json:"run_id"`
	Status      run.Status   `json:"status"`
	Seed        *int64       `json:"seed"`
	Params      []SweepValue `json:"params"`
}

// SweepSummary is a sweep as lists have it.
type SweepSummary struct {
	SweepID   string          `json:"sweep_id"`
	Name      string          `json:"name"`
	User      string          `json:"user"`
	State     sweep.State     `json:"state"`
	Method    string          `json:"method"`
	Objective sweep.Objective `json:"objective"`
	// Counts has the number of variants in each status, missing ones too.
	Counts map[run.Status]int `json:"counts"`
	Best   *SweepBest         `json:"best"`
	// ObjectiveWarning says why nothing is best, null where something is or
	// still may be.
	ObjectiveWarning *string    `json:"objective_warning"`
	Error            *string    `json:"error"`
	CreatedAt        time.Time  `json:"created_at"`
	FinishedAt       *time.Time `json:"finished_at"`
}

// SweepBest is the variant of rank 1.
type SweepBest struct {
	Index     int             `json:"index"`
	RunID     string          `json:"run_id"`
	Objective json.RawMessage `json:"objective"`
	// ObjectiveNonfinite names one that JSON can't hold.
	ObjectiveNonfinite string `json:"objective_nonfinite,omitempty"`
}

// Sweep is a sweep with its variants by rank, those without one last.
type Sweep struct {
	SweepSummary
	Seed              *int64         `json:"seed"`
	SeedVariants      bool           `json:"seed_variants"`
	TotalCombinations int            `json:"total_combinations"`
	Params            []sweep.Domain `json:"params"`
	Variants          []SweepVariant `json:"variants"`
}

// SweepVariant is one variant. WorkerID, Devices, QueueKey and FinalMetrics
// are there while its run is.
type SweepVariant struct {
	Rank        *int         `json:"rank"`
	Index       int          `json:"index"`
	DomainIndex int          `json:"domain_index"`
	RunID       string       `json:"run_id"`
	RunExists   bool         `json:"run_exists"`
	Status      run.Status   `json:"status"`
	Seed        *int64       `json:"seed"`
	Params      []SweepValue `json:"params"`
	// Objective is null where there is none and where it is no number that JSON
	// has; ObjectiveNonfinite names that.
	Objective          json.RawMessage            `json:"objective"`
	ObjectiveNonfinite string                     `json:"objective_nonfinite,omitempty"`
	Error              string                     `json:"error,omitempty"`
	FinalMetrics       map[string]json.RawMessage `json:"final_metrics"`
	WorkerID           string                     `json:"worker_id"`
	Devices            []string                   `json:"devices"`
	QueueKey           string                     `json:"queue_key"`
}

// SweepList is a page of sweeps, newest first.
type SweepList struct {
	Sweeps []SweepSummary `json:"sweeps"`
	Total  int            `json:"total"`
	Limit  int            `json:"limit"`
	Offset int            `json:"offset"`
}

// SweepCancelReply tells what a cancel did to each variant, in the order of the
// indices.
type SweepCancelReply struct {
	SweepID         string               `json:"sweep_id"`
	State           sweep.State          `json:"state"`
	Cancelled       int                  `json:"cancelled"`
	AlreadyFinished int                  `json:"already_finished"`
	Variants        []SweepVariantCancel `json:"variants"`
}

// SweepVariantCancel is one variant of such a reply.
type SweepVariantCancel struct {
	Index     int        `json:"index"`
	RunID     string     `json:"run_id"`
	Status    run.Status `json:"status"`
	Cancelled bool       `json:"cancelled"`
}

// SweepRerunReply lists the variants that were queued again.
type SweepRerunReply struct {
	SweepID  string       `json:"sweep_id"`
	State    sweep.State  `json:"state"`
	Variants []SweepChild `json:"variants"`
}
