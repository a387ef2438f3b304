package api

import (
	"encoding/json"
	"time"

	"cdui/internal/run"
)

// SubmitRequest is the body of POST /api/runs. Graph is required unless
// options.script or options.command stands for it.
type SubmitRequest struct {
	Graph   json.RawMessage `json:"graph,omitempty"`
	Options json.RawMessage `json:"options,omitempty"`
	Name    *string         `json:"name,omitempty"`
	// RerunOf records the lineage of a copy.
	RerunOf string `json:"rerun_of,omitempty"`
	// Cwd is the submitter's working directory, where a graph's relative paths
	// are looked for first.
	Cwd string `json:"cwd,omitempty"`
	// Git is the state of the submitter's checkout, when it has one.
	Git *GitState `json:"git,omitempty"`
	// Code is the folder that a script or a command needs, when it comes along.
	Code *CodeRef `json:"code,omitempty"`

	// SweepID and SweepVariant say which variant of which sweep the run is; the
	// control plane alone sets them.
	SweepID      string `json:"-"`
	SweepVariant *int   `json:"-"`
}

// GitState is the commit that a run was submitted from.
type GitState struct {
	Commit string `json:"commit"`
	Dirty  *bool  `json:"dirty"`
}

// SubmitReply is the reply to a submit. Existing is true when the options' key
// named a run that was there already.
type SubmitReply struct {
	RunID    string      `json:"run_id"`
	Status   run.Status  `json:"status"`
	QueueKey string      `json:"queue_key"`
	Name     string      `json:"name"`
	Existing bool        `json:"existing"`
	Position *int        `json:"queue_position"`
	Reason   *run.Reason `json:"queue_reason_detail,omitempty"`
}

// BulkRequest submits up to MaxBulk runs, all or none.
type BulkRequest struct {
	Runs []SubmitRequest `json:"runs"`
}

// MaxBulk is the most runs in one bulk request.
const MaxBulk = 1000

// BulkReply answers a bulk request, in its order.
type BulkReply struct {
	Runs []SubmitReply `json:"runs"`
}

// Run is a row as it is read.
type Run struct {
	run.Row
	QueuePosition     *int           `json:"queue_position"`
	QueueReason       string         `json:"queue_reason"`
	QueueReasonCode   string         `json:"queue_reason_code"`
	QueueReasonParams map[string]any `json:"queue_reason_params"`
	Active            bool           `json:"active"`
	// FinalMetrics maps each series to its last finite value.
	FinalMetrics map[string]json.RawMessage `json:"final_metrics"`
	// Progress is the last progress payload of a running run, if any.
	Progress json.RawMessage `json:"progress"`
	// PID is the child's pid on its machine while it runs.
	PID *int `json:"pid"`
	// StoppingDeadline is when a cancelled child will be killed.
	StoppingDeadline *time.Time `json:"stopping_deadline"`
	// LastCursor is given on reads of one row.
	LastCursor *int64 `json:"last_cursor,omitempty"`
}

// RunList is a page of runs, newest first.
type RunList struct {
	Runs   []Run `json:"runs"`
	Total  int   `json:"total"`
	Limit  int   `json:"limit"`
	Offset int   `json:"offset"`
}

// Event is one entry of a run's log.
type Event struct {
	Cursor  int64           `json:"cursor"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
	TS      time.Time       `json:"ts"`
}

// Events is a page of a run's log, strictly after the asked cursor.
type Events struct {
	RunID  string     `json:"run_id"`
	Status run.Status `json:"status"`
	Active bool       `json:"active"`
	Events []Event    `json:"events"`
	Cursor int64      `json:"cursor"`
}

// Metric is one stored metric value.
type Metric struct {
	NodeID    string          `json:"node_id"`
	Name      string          `json:"name"`
	Step      json.RawMessage `json:"step"`
	Value     json.RawMessage `json:"value"`
	Nonfinite string          `json:"nonfinite,omitempty"`
	TS        time.Time       `json:"ts"`
}

// Metrics is all metrics of a run, ordered by name, then step.
type Metrics struct {
	RunID   string   `json:"run_id"`
	Names   []string `json:"names"`
	Metrics []Metric `json:"metrics"`
}

// Artifact is a file that a run produced.
type Artifact struct {
	ID        int64           `json:"id"`
	Kind      string          `json:"kind"`
	Path      string          `json:"path"`
	Meta      json.RawMessage `json:"meta"`
	NodeID    string          `json:"node_id"`
	Backend   string          `json:"backend"`
	CreatedAt time.Time       `json:"created_at"`
}

// Artifacts lists a run's artifacts, oldest first.
type Artifacts struct {
	RunID     string     `json:"run_id"`
	Artifacts []Artifact `json:"artifacts"`
}

// Fingerprint is what a run was executed with.
type Fingerprint struct {
	RunID  string `json:"run_id"`
	Digest string `json:"digest"`
	// Source says who told: worker, when it connected; worker-run or run, the
	// run's own child, on a worker or on the control plane's machine.
	Source string `json:"source"`
	// Document is null when only the digest is known.
	Document json.RawMessage `json:"document"`
}

// Provenance is what a run's nodes were made of, by name.
type Provenance struct {
	RunID string `json:"run_id"`
	// Sources are {name, kind, file, sha256, source}.
	Sources []json.RawMessage `json:"sources"`
}

// CancelRequest is the optional body of a cancel.
type CancelRequest struct {
	// GraceS overrides how long the child may take; Force kills it at once.
	GraceS *float64 `json:"grace_s,omitempty"`
	Force  bool     `json:"force,omitempty"`
}

// CancelReply tells what a cancel did. Cancelled is false for a run that had
// already ended. GraceS is how long the child has.
type CancelReply struct {
	RunID     string     `json:"run_id"`
	Status    run.Status `json:"status"`
	Cancelled bool       `json:"cancelled"`
	GraceS    float64    `json:"grace_s"`
}

// RunState is the reply of hold and release.
type RunState struct {
	RunID  string     `json:"run_id"`
	Status run.Status `json:"status"`
	Held   bool       `json:"held"`
}

// RerunRequest changes parts of a copy. Args replaces a script's or command's
// arguments; Options overrides single option keys.
type RerunRequest struct {
	Args    []string                   `json:"args"`
	Options map[string]json.RawMessage `json:"options,omitempty"`
	Name    *string                    `json:"name,omitempty"`
}

// LogMark is one entry of a console log's time index.
type LogMark struct {
	Offset int64     `json:"offset"`
	TS     time.Time `json:"ts"`
}

// LogIndex maps offsets of a console log to times, ascending.
type LogIndex struct {
	RunID string    `json:"run_id"`
	Size  int64     `json:"size"`
	Marks []LogMark `json:"marks"`
}
