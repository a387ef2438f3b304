package api

import (
	"time"

	"cdui/internal/run"
)

// Paths of hooks.
const (
	PathHooks    = "/api/hooks"
	PathHook     = "/api/hooks/{id}"
	PathHookTest = "/api/hooks/{id}/test"
)

// HookEvent is something that hooks are called for.
type HookEvent string

// The events. A run's end is exactly one of finished (it succeeded or was
// cancelled), failed and lost (nobody knows how it ended, or its worker is gone).
const (
	HookStarted       HookEvent = "started"
	HookFinished      HookEvent = "finished"
	HookFailed        HookEvent = "failed"
	HookLost          HookEvent = "lost"
	HookWorkerDown    HookEvent = "worker_down"
	HookCardUnhealthy HookEvent = "card_unhealthy"
	// HookTest is of `cdui hooks test` alone.
	HookTest HookEvent = "test"
)

// HookEvents lists what a hook may be called for.
func HookEvents() []HookEvent {
	return []HookEvent{HookStarted, HookFinished, HookFailed, HookLost, HookWorkerDown, HookCardUnhealthy}
}

// HookSpec is what is called and when: a command or a URL, never both.
type HookSpec struct {
	On []HookEvent `json:"on"`
	// Command is a program with its arguments, on the control plane's machine,
	// without a shell; it reads the body from its standard input.
	Command []string `json:"command,omitempty"`
	// URL is sent the body by POST. The bearer token for it is in an environment
	// variable of the control plane, or in a file that its user alone may read.
	URL       string `json:"url,omitempty"`
	TokenEnv  string `json:"token_env,omitempty"`
	TokenFile string `json:"token_file,omitempty"`
}

// HookRequest adds a hook.
type HookRequest struct {
	Name string `json:"name"`
	HookSpec
}

// Hook is a hook, and what became of its calls since the control plane started.
type Hook struct {
	Name string `json:"name"`
	HookSpec
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	// Delivered calls were taken, GivenUp ones failed for good, Dropped ones
	// came while too many waited.
	Delivered int    `json:"delivered"`
	GivenUp   int    `json:"given_up"`
	Dropped   int    `json:"dropped"`
	LastError string `json:"last_error"`
}

// HookList is the reply of GET /api/hooks, by name.
type HookList struct {
	Hooks []Hook `json:"hooks"`
}

// HookTestReply says how a try of a hook went.
type HookTestReply struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error"`
}

// HookBody is what a hook is sent. ID is the same whenever it is tried again.
type HookBody struct {
	ID    string    `json:"id"`
	Event HookEvent `json:"event"`
	TS    time.Time `json:"ts"`
	Run   *HookRun  `json:"run,omitempty"`
	// Worker and Device are what is down or unhealthy; Reason says why.
	Worker string `json:"worker,omitempty"`
	Device string `json:"device,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// HookRun is a run as a hook is told of it.
type HookRun struct {
	RunID      string       `json:"run_id"`
	Name       string       `json:"name"`
	Status     run.Status   `json:"status"`
	EndClass   run.EndClass `json:"end_class"`
	Error      string       `json:"error"`
	User       string       `json:"user"`
	Worker     string       `json:"worker"`
	Devices    []string     `json:"devices"`
	Tags       []string     `json:"tags"`
	SweepID    string       `json:"sweep_id"`
	Attempt    int          `json:"attempt"`
	CreatedAt  time.Time    `json:"created_at"`
	StartedAt  *time.Time   `json:"started_at"`
	FinishedAt *time.Time   `json:"finished_at"`
}
