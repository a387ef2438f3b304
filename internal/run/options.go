package run

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// Options is a run's options, normalised: the stored document holds every key.
type Options struct {
	Device            string   `json:"device"`
	Seed              *int64   `json:"seed"`
	Deterministic     bool     `json:"deterministic"`
	RecordOutputs     bool     `json:"record_outputs"`
	Verbose           bool     `json:"verbose"`
	WeightsPersistent bool     `json:"weights_persistent"`
	BackwardMode      bool     `json:"backward_mode"`
	AutoBackward      bool     `json:"auto_backward"`
	Lane              string   `json:"lane"`
	GraphID           string   `json:"graph_id"`
	ErrorMode         string   `json:"error_mode"`
	MaxRetries        int      `json:"max_retries"`
	Target            *Target  `json:"target"`
	Provenance        bool     `json:"provenance"`
	Key               string   `json:"key"`
	Tags              []string `json:"tags"`
	Note              string   `json:"note"`
	After             []After  `json:"after"`
	// Priority puts a run before those of a lower one with the same queue key.
	Priority int `json:"priority"`
	// Retry repeats the run when it ends badly; nil never does.
	Retry *Retry `json:"retry"`
	// MaxRunSeconds ends the run with end class timeout; 0 is no limit.
	MaxRunSeconds float64 `json:"max_run_seconds"`
	// Hold keeps the run queued until it is released.
	Hold    bool         `json:"hold"`
	Script  *ScriptSpec  `json:"script"`
	Command *CommandSpec `json:"command"`
}

// Target asks for a place of execution.
type Target struct {
	// Worker is local, any or a worker's name; empty means local.
	Worker  string   `json:"worker,omitempty"`
	Devices []string `json:"devices,omitempty"`
	// Pool is one-shot for a worker that is started for one run.
	Pool string `json:"pool,omitempty"`
	// MemoryGiB limits the run's allocator on each of its devices, so that a
	// shared card has room for others. MemorySource is user, or estimate for
	// what earlier runs of the same kind took.
	MemoryGiB    float64 `json:"memory_gib,omitempty"`
	MemorySource string  `json:"memory_source,omitempty"`
	// Raised: the estimate is above one that was too small. It is written by the
	// control plane.
	Raised bool `json:"raised,omitempty"`
	// Wait false refuses a run that could not start now; nil is true.
	Wait *bool `json:"wait,omitempty"`
}

// The sources of a memory budget.
const (
	MemoryUser     = "user"
	MemoryEstimate = "estimate"
)

// PoolOneShot is the pool of workers that are started for one run each.
const PoolOneShot = "one-shot"

// BudgetMiB is the memory budget in MiB, 0 without one.
func (t *Target) BudgetMiB() int64 {
	if t == nil {
		return 0
	}
	return int64(math.Ceil(t.MemoryGiB * 1024))
}

// Waits tells whether the run may wait for its place.
func (t *Target) Waits() bool { return t == nil || t.Wait == nil || *t.Wait }

// Local tells whether the run belongs on the control plane's own machine.
func (t *Target) Local() bool { return t == nil || t.Worker == "" || t.Worker == "local" }

// ScriptSpec is a Python script run as Python would run it.
type ScriptSpec struct {
	// Path is absolute. Cwd is the working directory, absolute.
	Path string            `json:"path"`
	Args []string          `json:"args"`
	Env  map[string]string `json:"env,omitempty"`
	Cwd  string            `json:"cwd"`
	// Interpreter is the Python to start; empty is the control plane's own choice.
	Interpreter string `json:"interpreter,omitempty"`
	// Venv is an environment's folder: its bin comes first in PATH.
	Venv string `json:"venv,omitempty"`
	// Params is what cdui.params() returns, a JSON object.
	Params json.RawMessage `json:"params,omitempty"`
}

// CommandSpec is any program, started by the shim itself.
type CommandSpec struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env,omitempty"`
	Cwd  string            `json:"cwd"`
	Venv string            `json:"venv,omitempty"`
}

// AfterCondition says how the other run must have ended.
type AfterCondition string

// The conditions of --after.
const (
	AfterOK     AfterCondition = "ok"
	AfterAny    AfterCondition = "any"
	AfterFailed AfterCondition = "failed"
)

// Met tells whether a run that ended in status s fulfils c.
func (c AfterCondition) Met(s Status) bool {
	switch c {
	case AfterAny:
		return s.Terminal()
	case AfterFailed:
		return s.Terminal() && s != Succeeded
	default:
		return s == Succeeded
	}
}

// After makes a run wait for another one.
type After struct {
	Run       string         `json:"run"`
	Condition AfterCondition `json:"condition"`
}

// The limits of D.1 and of the added keys.
const (
	MaxNameChars  = 64
	MaxLaneChars  = 64
	MaxGraphID    = 128
	MaxKeyChars   = 128
	MaxTags       = 32
	MaxTagChars   = 64
	MaxNoteChars  = 1000
	MaxRetriesTop = 10
	MaxPriority   = 1000
	MaxSeed       = int64(math.MaxUint32)
)

// OptionKeys lists the supported option keys, sorted.
func OptionKeys() []string {
	keys := []string{
		"device", "seed", "deterministic", "record_outputs", "verbose", "weights_persistent",
		"backward_mode", "auto_backward", "lane", "graph_id", "error_mode", "max_retries", "target",
		"provenance", "key", "tags", "note", "after", "max_run_seconds", "hold", "priority", "retry", "script", "command",
	}
	sort.Strings(keys)
	return keys
}

// OptionError is a fault in a submitted option. Its text names the option.
type OptionError struct {
	Option string
	Text   string
}

func (e *OptionError) Error() string { return fmt.Sprintf("option %q: %s", e.Option, e.Text) }

func optionErr(option, format string, args ...any) error {
	return &OptionError{Option: option, Text: fmt.Sprintf(format, args...)}
}

// ParseOptions reads and normalises submitted options; null or nothing means
// all defaults. Its errors are *OptionError.
func ParseOptions(raw json.RawMessage) (Options, error) {
	o := Options{Lane: "queued", ErrorMode: "fail_fast", Tags: []string{}, After: []After{}}
	if len(raw) == 0 || string(raw) == "null" {
		return o, nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return o, optionErr("options", "must be an object")
	}
	known := OptionKeys()
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		if !slices.Contains(known, k) {
			return o, optionErr(k, "unknown; supported: %s", strings.Join(known, ", "))
		}
	}
	p := optionReader{m: m}
	o.Device = p.device()
	o.Seed = p.seed()
	for name, dst := range map[string]*bool{
		"deterministic": &o.Deterministic, "record_outputs": &o.RecordOutputs, "verbose": &o.Verbose,
		"weights_persistent": &o.WeightsPersistent, "backward_mode": &o.BackwardMode,
		"auto_backward": &o.AutoBackward, "provenance": &o.Provenance, "hold": &o.Hold,
	} {
		*dst = p.boolean(name)
	}
	o.Lane = p.text("lane", o.Lane, MaxLaneChars, true)
	o.GraphID = p.text("graph_id", "", MaxGraphID, false)
	o.Key = p.text("key", "", MaxKeyChars, false)
	o.Note = p.text("note", "", MaxNoteChars, false)
	o.ErrorMode = p.oneOf("error_mode", o.ErrorMode, "fail_fast", "continue", "retry")
	o.MaxRetries = p.integer("max_retries", 0, 0, MaxRetriesTop)
	o.Priority = p.integer("priority", 0, -MaxPriority, MaxPriority)
	o.Tags = p.tags()
	o.After = p.after()
	o.MaxRunSeconds = p.seconds("max_run_seconds")
	o.Target = p.target()
	o.Retry = p.retry()
	o.Script, o.Command = p.script(), p.command()
	if p.err != nil {
		return o, p.err
	}
	if o.Script != nil && o.Command != nil {
		return o, optionErr("script", "can't be given together with command")
	}
	return o, nil
}

// ParseDevice trims and lower-cases s and checks it against the grammar
// cpu | auto | cuda | cuda:N | mps | mps:N.
func ParseDevice(s string) (string, error) {
	d := strings.ToLower(strings.TrimSpace(s))
	if d != "auto" && d != "cuda" && d != "mps" && !concreteDevice(d) {
		return "", fmt.Errorf("%q is no device; use cpu, auto, cuda, cuda:N, mps or mps:N", s)
	}
	return d, nil
}
