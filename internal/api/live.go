package api

import (
	"encoding/json"
	"time"

	"cdui/internal/run"
)

// PathLive is the feed of everything that lists show: a WebSocket that sends a
// snapshot and then what changed. A reader that comes back names the boot id
// and the last cursor that it has in the query (boot, cursor); it is sent what
// changed since, or another snapshot when that isn't known any more.
const PathLive = "/ws/live"

// Bounds of the feed.
const (
	// MaxLiveRuns is how many runs a snapshot holds: the newest, and all that
	// haven't ended.
	MaxLiveRuns = 10000
	// MaxLiveWaiting is how many waiting runs of one key are listed.
	MaxLiveWaiting = 20
	// MaxLiveSeries is how many series a row carries.
	MaxLiveSeries = 6
	// MaxLiveName is how many bytes a row keeps of a name or an error.
	MaxLiveName = 256
)

// LiveType tells the frames of the feed apart.
type LiveType string

// The types of frames.
const (
	// LiveSnapshot: forget everything; this is how it is.
	LiveSnapshot LiveType = "snapshot"
	// LiveDelta: this has changed.
	LiveDelta LiveType = "delta"
)

// LiveFrame is a message of the feed.
type LiveFrame struct {
	Type LiveType `json:"type"`
	// Boot and Cursor say where the reader is: it names them to go on from here.
	Boot   string `json:"boot"`
	Cursor int64  `json:"cursor"`
	// More says that the next frame belongs to this one.
	More bool `json:"more,omitempty"`

	Runs     []LiveRun `json:"runs,omitempty"`
	GoneRuns []string  `json:"gone_runs,omitempty"`
	// Complete says that Keys and Workers are all that there are.
	Complete    bool         `json:"complete,omitempty"`
	Keys        []LiveKey    `json:"keys,omitempty"`
	GoneKeys    []string     `json:"gone_keys,omitempty"`
	Workers     []Worker     `json:"workers,omitempty"`
	GoneWorkers []string     `json:"gone_workers,omitempty"`
	Machine     *LiveMachine `json:"machine,omitempty"`
	Counts      *LiveCounts  `json:"counts,omitempty"`
}

// LiveCounts counts runs, and what people changed.
type LiveCounts struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Runs is how many there are in the database.
	Runs int `json:"runs"`
	// Actions counts the changes since this boot that the log of actions has.
	Actions int64 `json:"actions,omitempty"`
}

// LiveMachine is the control plane's own machine.
type LiveMachine struct {
	Server   ServerInfo `json:"server"`
	Devices  []Device   `json:"devices"`
	Problems []Problem  `json:"problems"`
}

// LiveKey is a queue key. Waiting holds its first runs, in order, and after them
// those that stand aside; WaitingTotal counts all.
type LiveKey struct {
	QueueKey
	WaitingTotal int `json:"waiting_total"`
}

// LiveRun is a row of a list: what people compare runs by. Of runs that stand in
// a queue the place follows from Priority, higher ones first, and Order, lower
// ones first.
type LiveRun struct {
	ID       string `json:"id"`
	Order    int64  `json:"order"`
	Priority int    `json:"priority,omitempty"`
	Name     string `json:"name,omitempty"`
	// Kind is graph, script or command.
	Kind     string     `json:"kind"`
	Status   run.Status `json:"status"`
	Held     bool       `json:"held,omitempty"`
	QueueKey string     `json:"queue_key,omitempty"`
	Worker   string     `json:"worker,omitempty"`
	Devices  []string   `json:"devices,omitempty"`
	// Aside is why a waiting run doesn't stand in its queue.
	Aside *run.Reason `json:"aside,omitempty"`

	Error      string       `json:"error,omitempty"`
	EndClass   run.EndClass `json:"end_class,omitempty"`
	CreatedAt  time.Time    `json:"created_at"`
	StartedAt  *time.Time   `json:"started_at,omitempty"`
	FinishedAt *time.Time   `json:"finished_at,omitempty"`
	Attempt    int          `json:"attempt,omitempty"`
	User       string       `json:"user,omitempty"`
	Tags       []string     `json:"tags,omitempty"`
	SweepID    string       `json:"sweep_id,omitempty"`
	PID        *int         `json:"pid,omitempty"`

	CancelRequestedAt *time.Time `json:"cancel_requested_at,omitempty"`
	StoppingDeadline  *time.Time `json:"stopping_deadline,omitempty"`

	Final map[string]json.RawMessage `json:"final,omitempty"`
	// Progress holds the plain members of the last progress payload.
	Progress map[string]json.RawMessage `json:"progress,omitempty"`
}

// Row lays a row of the feed out as the one that it was made of, as far as it
// goes.
func (l LiveRun) Row() Run {
	r := Run{Row: run.Row{
		ID: l.ID, Seq: l.Order, Name: l.Name, Status: l.Status, Error: l.Error, EndClass: l.EndClass, QueueKey: l.QueueKey,
		CreatedAt: l.CreatedAt, StartedAt: l.StartedAt, FinishedAt: l.FinishedAt, Attempt: l.Attempt, User: l.User,
		SweepID: l.SweepID, WorkerID: l.Worker, Devices: l.Devices, CancelRequestedAt: l.CancelRequestedAt,
	}, Active: l.Status.Active(), FinalMetrics: l.Final, PID: l.PID, StoppingDeadline: l.StoppingDeadline}
	r.Options.Hold, r.Options.Tags, r.Options.Priority = l.Held, l.Tags, l.Priority
	if a := l.Aside; a != nil {
		r.QueueReason, r.QueueReasonCode, r.QueueReasonParams = a.Text, a.Code, a.Params
	}
	return r
}
