// Package childproto is the line protocol between a shim and the processes of
// its run: JSON objects, one a line, up on fd 3 and down on fd 4 for a Python
// child, both ways on the report socket for any other process of the run.
//
// testdata holds lines that the Go tests and pytest both read; they pin the
// bytes. The package has no I/O.
package childproto

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The types of lines that a child sends up.
const (
	UpHello       = "hello"
	UpEvent       = "event"
	UpMetrics     = "metrics"
	UpArtifact    = "artifact"
	UpWarning     = "warning"
	UpFacts       = "facts"
	UpMemoryLimit = "memory_limit"
	UpFinished    = "finished"
	// UpReady comes from a child that was started ahead and waits for its run,
	// UpImported at the end of a run that imported what is worth doing so.
	UpReady    = "ready"
	UpImported = "imported"
)

// The types of lines that a shim sends down.
const (
	DownAssign      = "assign"
	DownCancel      = "cancel"
	DownCredentials = "credentials"
)

// MaxLineBytes bounds one line in either direction, its newline not counted.
// A longer line up is skipped whole and counted in a warning.
const MaxLineBytes = 8 << 20

// ErrBadLine is wrapped by the errors of DecodeUp.
var ErrBadLine = errors.New("bad line from child")

// Up is one line from a child. Only the fields of its type are set; payloads
// are uncapped here, the shim cuts them.
type Up struct {
	Type string `json:"type"`

	// hello: the sender looks at the cancel flag (it has imported cdui).
	WatchesCancel bool `json:"watches_cancel,omitempty"`

	// event: Event is the event type of the log (node_status, ...).
	Event   string          `json:"event,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`

	// metrics: a list of points {name, value, step, node_id?, nonfinite?}.
	Points []Point `json:"points,omitempty"`

	// artifact, warning
	Kind   string          `json:"kind,omitempty"`
	Path   string          `json:"path,omitempty"`
	Meta   json.RawMessage `json:"meta,omitempty"`
	NodeID string          `json:"node_id,omitempty"`

	// facts, memory_limit
	Facts       json.RawMessage `json:"facts,omitempty"`
	MemoryLimit json.RawMessage `json:"memory_limit,omitempty"`

	// finished: how the child itself saw its end. The shim trusts the exit
	// status for success and takes the words from here.
	Status     string          `json:"status,omitempty"`
	Error      string          `json:"error,omitempty"`
	ErrorType  string          `json:"error_type,omitempty"`
	EndClass   string          `json:"end_class,omitempty"`
	PeakMemory json.RawMessage `json:"peak_memory,omitempty"`

	// ready, imported: top-level modules. Paths are where the interpreter looks
	// for modules, with their times of change in nanoseconds.
	Modules []string         `json:"modules,omitempty"`
	Paths   map[string]int64 `json:"paths,omitempty"`
}

// Point is one metric value. Value is a JSON number exactly as the child wrote
// it (integers beyond 2^53 survive), or null with Nonfinite one of nan, inf,
// -inf.
type Point struct {
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
	Step      json.RawMessage `json:"step"`
	NodeID    string          `json:"node_id,omitempty"`
	Nonfinite string          `json:"nonfinite,omitempty"`
}

// Down is one line to a child.
type Down struct {
	Type  string          `json:"type"`
	RunID string          `json:"run_id,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// Argv, Dir and Env are what the child of a spare is to be as if it had been
	// started with them.
	Argv []string `json:"argv,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	Env  []string `json:"env,omitempty"`
	// GraceMS is how long the child has from the cancel on.
	GraceMS int64 `json:"grace_ms,omitempty"`
}

// DecodeUp reads one line from a child, without its newline. Unknown fields
// are ignored; callers skip types that they don't know.
func DecodeUp(line []byte) (Up, error) {
	var u Up
	if len(line) > MaxLineBytes {
		return u, fmt.Errorf("%w: %d bytes, the limit is %d", ErrBadLine, len(line), MaxLineBytes)
	}
	if err := json.Unmarshal(line, &u); err != nil {
		return Up{}, fmt.Errorf("%w: %w", ErrBadLine, err)
	}
	if u.Type == "" {
		return Up{}, fmt.Errorf("%w: no type", ErrBadLine)
	}
	return u, nil
}

// After lays a finished line over the one that the child sent before, if any:
// why it failed is told at once, what it took only when all of it is over.
func (u Up) After(before *Up) *Up {
	if before == nil || u.Error != "" || u.Status != "" {
		return &u
	}
	both := *before
	both.PeakMemory = u.PeakMemory
	return &both
}

// EncodeDown marshals d with its newline.
func EncodeDown(d Down) ([]byte, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode %s line: %w", d.Type, err)
	}
	return append(b, '\n'), nil
}
