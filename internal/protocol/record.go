package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// RecordType names what a record reports.
type RecordType string

// The record types, in the words of the worker protocol.
const (
	RunStarted  RecordType = "run_started"
	Event       RecordType = "event"
	Metrics     RecordType = "metrics"
	Artifact    RecordType = "artifact"
	Warning     RecordType = "warning"
	RunFacts    RecordType = "run_facts"
	RunFinished RecordType = "run_finished"
)

// MaxRecordBytes bounds one marshalled record. A child that reports more is
// cut by the payload cap long before; a longer line is damage, not data.
const MaxRecordBytes = 8 << 20

// ErrBadRecord is wrapped by every decoding error of this package.
var ErrBadRecord = errors.New("bad record")

// Record is one numbered report of one run. Only the fields of its type are
// set. Seq starts at 1 for each (run, attempt) and has no gaps at the shim.
type Record struct {
	Seq  uint64     `json:"seq"`
	Type RecordType `json:"type"`
	// TS is when the shim took the report, UTC, milliseconds.
	TS time.Time `json:"ts"`

	// Event: the event's type and its capped payload.
	Event   string          `json:"event,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`

	// Metrics: at most MaxPoints points, as run.Point marshals them.
	Points json.RawMessage `json:"points,omitempty"`

	// Artifact and Warning: Meta is the artifact's own, or the warning's detail.
	Kind   string          `json:"kind,omitempty"`
	Path   string          `json:"path,omitempty"`
	Meta   json.RawMessage `json:"meta,omitempty"`
	NodeID string          `json:"node_id,omitempty"`

	// RunFacts: a JSON object merged into the row's execution_facts.
	Facts json.RawMessage `json:"facts,omitempty"`

	Started  *Started  `json:"started,omitempty"`
	Finished *Finished `json:"finished,omitempty"`

	// Raw is the record's own bytes, set by DecodeRecord and EncodeRecord.
	Raw json.RawMessage `json:"-"`
}

// MaxPoints is the most metric points that one Metrics record carries.
const MaxPoints = 64

// Started is the body of a run_started record.
type Started struct {
	// PID is the child's pid as the host sees it.
	PID            int               `json:"pid"`
	VisibleDevices []string          `json:"visible_devices"`
	DeviceAliases  map[string]string `json:"device_aliases"`
	MemoryLimit    json.RawMessage   `json:"memory_limit"`
	Isolation      string            `json:"isolation"`
}

// CodeProcessStuck is the code of a run of which a process is still there long
// after SIGKILL.
const CodeProcessStuck = "process_stuck"

// PeakMemory is the most memory that the run held on one device.
type PeakMemory struct {
	MiB   int64 `json:"mib"`
	Exact bool  `json:"exact"`
}

// Exit is how the child process ended; exactly one field is set.
type Exit struct {
	Code   *int `json:"code"`
	Signal *int `json:"signal"`
}

// Finished is the body of a run_finished record and of a shim's exit.json.
type Finished struct {
	// Status is succeeded, failed, cancelled or interrupted.
	Status    string `json:"status"`
	Error     string `json:"error,omitempty"`
	ErrorType string `json:"error_type,omitempty"`
	EndClass  string `json:"end_class,omitempty"`
	// Code is the stable code of Error, where it has one.
	Code       string                `json:"code,omitempty"`
	PeakMemory map[string]PeakMemory `json:"peak_memory,omitempty"`
	Exit       Exit                  `json:"exit"`
	// OutputTail is the last 4 KiB of console output, given on a crash.
	OutputTail string `json:"output_tail,omitempty"`
	// Killed lists processes that outlived the child and were killed.
	Killed []KilledProcess `json:"killed,omitempty"`
	// Dropped counts what a full disk or the spool's cap cost, by record type.
	Dropped map[string]int64 `json:"dropped,omitempty"`
	// ActiveMS is how long the child ran, by the monotonic clock.
	ActiveMS int64 `json:"active_ms"`
}

// KilledProcess is a process that was still there when its run had ended.
type KilledProcess struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// EncodeRecord marshals r and sets r.Raw.
func EncodeRecord(r *Record) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode %s record %d: %w", r.Type, r.Seq, err)
	}
	if len(b) > MaxRecordBytes {
		return nil, fmt.Errorf("%w: %s record %d has %d bytes, the limit is %d", ErrBadRecord, r.Type, r.Seq, len(b), MaxRecordBytes)
	}
	r.Raw = b
	return b, nil
}
