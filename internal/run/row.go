package run

import (
	"encoding/json"
	"time"
)

// Row is a run as the store keeps it. Written by server/runs alone.
type Row struct {
	ID string `json:"id"`
	// Seq orders runs by submission; it is the store's row id.
	Seq        int64      `json:"-"`
	Name       string     `json:"name"`
	Options    Options    `json:"options"`
	Status     Status     `json:"status"`
	Error      string     `json:"error"`
	EndClass   EndClass   `json:"end_class"`
	QueueKey   string     `json:"queue_key"`
	CreatedAt  time.Time  `json:"created_at"`
	StartedAt  *time.Time `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at"`
	// Attempt counts placements; 0 before the first.
	Attempt int `json:"attempt"`
	// User is who submitted it, empty on a control plane without users.
	User string `json:"user"`

	GitCommit  string          `json:"git_commit"`
	GitDirty   *bool           `json:"git_dirty"`
	PluginPins json.RawMessage `json:"plugin_pins"`

	SweepID      string `json:"sweep_id"`
	SweepVariant *int   `json:"sweep_variant"`
	RerunOf      string `json:"rerun_of"`
	// RetryOf is the run that this one repeats because it ended badly.
	RetryOf string `json:"retry_of"`

	// Facts is the execution_facts document, a JSON object or null.
	Facts             json.RawMessage `json:"execution_facts"`
	WorkerID          string          `json:"worker_id"`
	Devices           []string        `json:"devices"`
	FingerprintDigest string          `json:"fingerprint_digest"`

	// CancelRequestedAt is set once somebody asked for the run to stop.
	CancelRequestedAt *time.Time `json:"cancel_requested_at"`

	// Graph is the stored snapshot; reads of rows leave it out.
	Graph json.RawMessage `json:"-"`
	// Likeness is what runs of one kind have in common. Reads leave it out.
	Likeness string `json:"-"`
	// RecordedSeq is the last spool record of this attempt in the store.
	RecordedSeq uint64 `json:"-"`
}
