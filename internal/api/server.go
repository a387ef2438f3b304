package api

import (
	"time"

	"cdui/internal/device"
	"cdui/internal/run"
)

// Health is the reply of GET /api/health.
type Health struct {
	Status  string `json:"status"`
	Version string `json:"version"`
	BootID  string `json:"boot_id"`
	// NodesLoaded and PresetsLoaded count the catalogue.
	NodesLoaded   int `json:"nodes_loaded"`
	PresetsLoaded int `json:"presets_loaded"`
	// Problems lists what is wrong at present, such as a full disk.
	Problems []Problem `json:"problems"`
}

// Problem is something that a person should mend.
type Problem struct {
	Code   string         `json:"code"`
	Text   string         `json:"text"`
	Params map[string]any `json:"params,omitempty"`
}

// ServerInfo is server.json, which local clients find the control plane by.
type ServerInfo struct {
	PID       int    `json:"pid"`
	Address   string `json:"address"`
	BootID    string `json:"boot_id"`
	MachineID string `json:"machine_id"`
	Version   string `json:"version"`
	// Pin is the key of a certificate that no authority vouches for.
	Pin string `json:"pin,omitempty"`
}

// Device is one device as the control plane sees it, with its slots.
type Device struct {
	device.Device
	Slots Slots    `json:"slots"`
	Runs  []string `json:"runs"`
	// Cordon says why the device takes no runs, null when it does.
	Cordon *Problem `json:"cordon"`
}

// Slots is how many runs a device takes and holds.
type Slots struct {
	Cap  int `json:"cap"`
	Used int `json:"used"`
}

// ServerStatus is the reply of GET /api/status.
type ServerStatus struct {
	Server    ServerInfo `json:"server"`
	DataDir   string     `json:"data_dir"`
	UptimeS   float64    `json:"uptime_s"`
	Isolation string     `json:"isolation"`
	Running   int        `json:"running"`
	Waiting   int        `json:"waiting"`
	Devices   []Device   `json:"devices"`
	Problems  []Problem  `json:"problems"`
	// Spares are children that were started ahead of their runs.
	Spares []Spare `json:"spares"`
}

// Spare is a child with torch imported that waits for one run.
type Spare struct {
	Device string    `json:"device"`
	Kind   string    `json:"kind"`
	Ready  bool      `json:"ready"`
	Since  time.Time `json:"since"`
}

// Queue is every queue key with its order, the reply of GET /api/queue.
type Queue struct {
	Keys []QueueKey `json:"keys"`
}

// QueueKey is one FIFO.
type QueueKey struct {
	Key     string       `json:"key"`
	Cap     int          `json:"cap"`
	Running []QueueEntry `json:"running"`
	Waiting []QueueEntry `json:"waiting"`
	// Held is why nothing of the key starts, null when it does.
	Held *run.Reason `json:"held"`
}

// QueueHoldRequest names a queue key to hold or release.
type QueueHoldRequest struct {
	Key  string `json:"key"`
	Note string `json:"note,omitempty"`
}

// QueueHold tells whether a queue key is held.
type QueueHold struct {
	Key  string `json:"key"`
	Note string `json:"note"`
	Held bool   `json:"held"`
}

// QueueEntry is one run in a FIFO. Reason and what would free it are set for
// waiting ones.
type QueueEntry struct {
	RunID    string      `json:"run_id"`
	Name     string      `json:"name"`
	Status   run.Status  `json:"status"`
	Position int         `json:"position,omitempty"`
	Reason   *run.Reason `json:"reason,omitempty"`
}

// ShutdownRequest asks the control plane to stop.
type ShutdownRequest struct {
	CancelRuns bool `json:"cancel_runs"`
}

// ShutdownReply says how many trainings go on without the control plane.
type ShutdownReply struct {
	Left int `json:"left"`
}

// DBCheck is the reply of GET /api/db/check.
type DBCheck struct {
	OK       bool     `json:"ok"`
	Findings []string `json:"findings"`
	Runs     int64    `json:"runs"`
	Events   int64    `json:"events"`
	Bytes    int64    `json:"bytes"`
}

// BackupRequest names the file that a backup goes to, on the server's machine.
type BackupRequest struct {
	Path string `json:"path"`
}

// BackupReply says what was written.
type BackupReply struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}
