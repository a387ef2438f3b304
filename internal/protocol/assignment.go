package protocol

import "encoding/json"

// Kind says what a run's child is.
type Kind string

// The kinds of child. A Command is started by the shim itself and needs no
// Python; the other two run under the embedded runtime.
const (
	KindCommand Kind = "command"
	KindScript  Kind = "script"
	KindGraph   Kind = "graph"
)

// Assignment is everything a shim needs to execute one attempt of one run. It
// travels over the shim's socket only: Env holds secrets and is never written
// to disk.
type Assignment struct {
	RunID   string `json:"run_id"`
	Attempt int    `json:"attempt"`
	Kind    Kind   `json:"kind"`
	// NodeID is the node that a script or command run reports under.
	NodeID string `json:"node_id,omitempty"`

	// Argv starts the child; Argv[0] is looked up in Env's PATH when it holds
	// no slash. Dir is its working directory. Env is its whole environment,
	// KEY=VALUE, device visibility included; the shim adds only the names that
	// belong to the run's own sockets and pipes (CDUI_RUN_ID, CDUI_REPORT,
	// CDUI_CHILD_FDS).
	Argv []string `json:"argv"`
	Dir  string   `json:"dir"`
	Env  []string `json:"env"`

	// Input is handed to the child on its control pipe in the assign line:
	// the graph with its options, or a script's params.
	Input json.RawMessage `json:"input,omitempty"`

	VisibleDevices []string          `json:"visible_devices,omitempty"`
	DeviceAliases  map[string]string `json:"device_aliases,omitempty"`

	// MemoryBudgets are MiB by device, as the run sees them. The shim waits
	// with run_started until the child of a graph has limited itself to them.
	MemoryBudgets map[string]int64 `json:"memory_budgets,omitempty"`

	// GraceMS is how long a cancelled child may take; MaxRunMS ends the run
	// with end class timeout, 0 is no limit. PayloadCap cuts event payloads,
	// 0 or less is no cap.
	GraceMS    int64 `json:"grace_ms"`
	MaxRunMS   int64 `json:"max_run_ms,omitempty"`
	PayloadCap int   `json:"payload_cap"`
}
