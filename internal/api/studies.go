package api

import (
	"encoding/json"
	"time"

	"cdui/internal/run"
	"cdui/internal/study"
)

// Paths of studies.
const (
	PathStudies     = "/api/studies"
	PathStudy       = "/api/studies/{id}"
	PathStudyCancel = "/api/studies/{id}/cancel"
	PathStudyResume = "/api/studies/{id}/resume"
)

// StudyRequest is the body of POST /api/studies. What is repeated is
// BaseGraph, options.script or options.command, or the best variant of a sweep.
type StudyRequest struct {
	BaseGraph   json.RawMessage `json:"base_graph,omitempty"`
	SweepID     string          `json:"sweep_id,omitempty"`
	Options     json.RawMessage `json:"options,omitempty"`
	Name        *string         `json:"name,omitempty"`
	Key         string          `json:"key,omitempty"`
	Repetitions int             `json:"repetitions"`
	// Seed is what the repetitions' seeds count up from, 0 by default.
	Seed *int64 `json:"seed,omitempty"`
	// Confidence is that of the intervals, 0.95 by default.
	Confidence *float64 `json:"confidence,omitempty"`
	// MaxAttempts is how many attempts of one repetition may get lost, 3 by
	// default.
	MaxAttempts *int `json:"max_attempts,omitempty"`
	// MaxRunSeconds is for each run, MaxActiveSeconds for the sum of the times
	// that they execute; 0 is no limit.
	MaxRunSeconds    float64   `json:"max_run_seconds,omitempty"`
	MaxActiveSeconds float64   `json:"max_active_seconds,omitempty"`
	Cwd              string    `json:"cwd,omitempty"`
	Git              *GitState `json:"git,omitempty"`
	Code             *CodeRef  `json:"code,omitempty"`
}

// StudyState is how a study stands.
type StudyState string

// The states of a study.
const (
	StudyRunning    StudyState = "running"
	StudyCancelling StudyState = "cancelling"
	StudyFinished   StudyState = "finished"
)

// StudySummary is a study as lists have it.
type StudySummary struct {
	StudyID string     `json:"study_id"`
	Name    string     `json:"name"`
	User    string     `json:"user"`
	State   StudyState `json:"state"`
	// Stopped is why it was stopped: cancelled or max_active_seconds; empty
	// where it wasn't.
	Stopped study.Stop `json:"stopped"`
	study.Spec
	// SweepID and SweepVariant say where the base came from.
	SweepID      string `json:"sweep_id"`
	SweepVariant *int   `json:"sweep_variant"`
	// Counts has the number of repetitions with each outcome.
	Counts        map[study.Outcome]int `json:"counts"`
	ActiveSeconds float64               `json:"active_seconds"`
	Metrics       []study.Summary       `json:"metrics"`
	CreatedAt     time.Time             `json:"created_at"`
	FinishedAt    *time.Time            `json:"finished_at"`
}

// Study is a study with its repetitions.
type Study struct {
	StudySummary
	List []StudyRepetition `json:"repetition_list"`
}

// StudyRepetition is one repetition with its attempts, the first one first.
type StudyRepetition struct {
	Index    int                 `json:"index"`
	Seed     int64               `json:"seed"`
	Outcome  study.Outcome       `json:"outcome"`
	Attempts []StudyAttempt      `json:"attempts"`
	Metrics  map[string]run.Last `json:"metrics"`
}

// StudyAttempt is one run of a repetition. WorkerID, Devices and QueueKey are
// there while it is.
type StudyAttempt struct {
	Attempt    int          `json:"attempt"`
	RunID      string       `json:"run_id"`
	RunExists  bool         `json:"run_exists"`
	Status     run.Status   `json:"status"`
	EndClass   run.EndClass `json:"end_class"`
	Error      string       `json:"error"`
	Stopped    study.Stop   `json:"stopped"`
	Lost       bool         `json:"lost"`
	Void       bool         `json:"void"`
	StartedAt  *time.Time   `json:"started_at"`
	FinishedAt *time.Time   `json:"finished_at"`
	WorkerID   string       `json:"worker_id"`
	Devices    []string     `json:"devices"`
	QueueKey   string       `json:"queue_key"`
}

// StudyList is a page of studies, newest first.
type StudyList struct {
	Studies []StudySummary `json:"studies"`
	Total   int            `json:"total"`
	Limit   int            `json:"limit"`
	Offset  int            `json:"offset"`
}

// StudyReply is the reply to POST /api/studies.
type StudyReply struct {
	Study
	Existing bool `json:"existing"`
}

// StudyResumeRequest may raise the budgets of a study that is resumed.
type StudyResumeRequest struct {
	MaxRunSeconds    *float64 `json:"max_run_seconds,omitempty"`
	MaxActiveSeconds *float64 `json:"max_active_seconds,omitempty"`
}
