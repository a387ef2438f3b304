package protocol

import (
	"encoding/json"
	"time"
)

// Welcome answers a hello that is let in. Its envelope brings the session's
// epoch.
type Welcome struct {
	// WorkerID is the worker's name.
	WorkerID string `json:"worker_id"`
	Version  string `json:"version"`
	Protocol int    `json:"protocol_version"`
	// TS is the control plane's clock.
	TS         time.Time `json:"ts"`
	HeartbeatS Seconds   `json:"heartbeat_s"`
	// GraceS is how long a cancelled child may take where nothing says otherwise.
	GraceS Seconds `json:"grace_s"`
	// ResumeGraceS is how long the control plane keeps the runs of a worker
	// that is away; 0 is not said.
	ResumeGraceS Seconds      `json:"resume_grace_s,omitempty"`
	Capabilities Capabilities `json:"capabilities"`
	// DrainOnly: the worker is of another release. Its runs go on and are
	// recorded; it gets no new ones.
	DrainOnly bool `json:"drain_only,omitempty"`
	// Runs are those that the control plane holds as placed on the worker.
	// Records up to RecordedSeq need not be sent again.
	Runs []HeldRun `json:"runs"`
}

// HeldRun is a run that the control plane holds as placed on a worker.
type HeldRun struct {
	RunID       string `json:"run_id"`
	Attempt     int    `json:"attempt"`
	RecordedSeq uint64 `json:"recorded_seq"`
}

// FrameType implements Frame.
func (*Welcome) FrameType() FrameType { return TypeWelcome }

func (w *Welcome) check() error {
	for _, r := range w.Runs {
		if err := checkRun(r.RunID, r.Attempt); err != nil {
			return err
		}
	}
	return checkWords(w.WorkerID, w.Version)
}

// Reject answers a hello that is not let in. The socket closes after it.
type Reject struct {
	// Code is one of the Reject constants, Reason the sentence for people.
	Code   string         `json:"code"`
	Reason string         `json:"reason"`
	Params map[string]any `json:"params,omitempty"`
}

// FrameType implements Frame.
func (*Reject) FrameType() FrameType { return TypeReject }

func (r *Reject) check() error { return checkWords(r.Code) }

// Cancel asks a run to stop.
type Cancel struct {
	RunID   string `json:"run_id"`
	Attempt int    `json:"attempt"`
	// GraceS is null for the grace of the assignment.
	GraceS *Seconds `json:"grace_s,omitempty"`
	// Force kills at once.
	Force bool `json:"force,omitempty"`
}

// FrameType implements Frame.
func (*Cancel) FrameType() FrameType { return TypeCancel }

func (c *Cancel) check() error { return checkRun(c.RunID, c.Attempt) }

// Drain tells the agent to refuse assignments, or, with On false, to take them
// again. A frame without "on" means true. It is sent again after each welcome
// while it holds.
type Drain struct {
	On bool `json:"on"`
}

// FrameType implements Frame.
func (*Drain) FrameType() FrameType { return TypeDrain }

func (*Drain) check() error { return nil }

// Ack says that every record of the run's attempt up to Seq is on disk.
type Ack struct {
	RunID   string `json:"run_id"`
	Attempt int    `json:"attempt"`
	Seq     uint64 `json:"seq"`
}

// FrameType implements Frame.
func (*Ack) FrameType() FrameType { return TypeAck }

func (a *Ack) check() error { return checkRun(a.RunID, a.Attempt) }

// Credentials replaces the S3 credentials of a running run. Needs CapS3.
type Credentials struct {
	RunID   string        `json:"run_id"`
	Attempt int           `json:"attempt"`
	S3      S3Credentials `json:"s3"`
}

// FrameType implements Frame.
func (*Credentials) FrameType() FrameType { return TypeCredentials }

func (c *Credentials) check() error { return checkRun(c.RunID, c.Attempt) }

// FetchOutput asks for a recorded output. Needs CapRecordOutputs.
type FetchOutput struct {
	RequestID string `json:"request_id"`
	RunID     string `json:"run_id"`
	// Kind is which of the outputs routes is asked, Query its parameters.
	Kind  string            `json:"kind"`
	Query map[string]string `json:"query,omitempty"`
	// WaitS is how long the control plane waits; the agent gives up 5 s earlier.
	WaitS Seconds `json:"wait_s"`
}

// FrameType implements Frame.
func (*FetchOutput) FrameType() FrameType { return TypeFetchOutput }

func (f *FetchOutput) check() error {
	if err := checkRun(f.RunID, 1); err != nil {
		return err
	}
	return checkRequest(f.RequestID)
}

// CancelFetch ends a fetch_output or a fetch_log whose answer nobody waits for
// any more.
type CancelFetch struct {
	RequestID string `json:"request_id"`
}

// FrameType implements Frame.
func (*CancelFetch) FrameType() FrameType { return TypeCancelFetch }

func (c *CancelFetch) check() error { return checkRequest(c.RequestID) }

// DropOutputs lets a worker delete the recorded outputs of a run. Needs
// CapRecordOutputs.
type DropOutputs struct {
	RunID string `json:"run_id"`
}

// FrameType implements Frame.
func (*DropOutputs) FrameType() FrameType { return TypeDropOutputs }

func (d *DropOutputs) check() error { return checkRun(d.RunID, 1) }

// FetchLog asks for console output of a run. Needs CapLogs.
type FetchLog struct {
	RequestID string `json:"request_id"`
	RunID     string `json:"run_id"`
	// Offset is where to begin; a negative one counts from the end.
	Offset int64 `json:"offset"`
	// Limit is how many bytes are wanted, 0 is all.
	Limit int64 `json:"limit,omitempty"`
	// Follow goes on as the run writes, until it has ended.
	Follow bool `json:"follow,omitempty"`
	// Index asks for the time index in place of the bytes.
	Index bool `json:"index,omitempty"`
	// Credit is how many bytes may be sent before the first credit frame.
	Credit int64 `json:"credit"`
}

// FrameType implements Frame.
func (*FetchLog) FrameType() FrameType { return TypeFetchLog }

func (f *FetchLog) check() error {
	if f.Limit < 0 || f.Credit < 0 {
		return badFrame("fetch_log with limit %d and credit %d", f.Limit, f.Credit)
	}
	if err := checkRun(f.RunID, 1); err != nil {
		return err
	}
	return checkRequest(f.RequestID)
}

// Credit lets the answer to a fetch_log send so many bytes more.
type Credit struct {
	RequestID string `json:"request_id"`
	Bytes     int64  `json:"bytes"`
}

// FrameType implements Frame.
func (*Credit) FrameType() FrameType { return TypeCredit }

func (c *Credit) check() error {
	if c.Bytes <= 0 {
		return badFrame("credit of %d bytes", c.Bytes)
	}
	return checkRequest(c.RequestID)
}

// Assign gives a run to a worker. An agent refuses what it can't honour with a
// run_finished record, seq 1, of this attempt; the same attempt again is no
// second copy and is ignored.
type Assign struct {
	RunID   string `json:"run_id"`
	Attempt int    `json:"attempt"`
	Kind    Kind   `json:"kind"`
	// NodeID is the node that a script or command run reports under.
	NodeID string `json:"node_id,omitempty"`

	// One of these, by Kind.
	Script  *Script  `json:"script,omitempty"`
	Command *Command `json:"command,omitempty"`
	Graph   *Graph   `json:"graph,omitempty"`

	// Options is the row's stored document.
	Options json.RawMessage `json:"options,omitempty"`
	// Device is the first of Devices, all of them the worker's own names.
	Device  string   `json:"device"`
	Devices []string `json:"devices"`

	GraceS Seconds `json:"grace_s"`
	// MaxRunS ends the run with end class timeout; 0 is no limit.
	MaxRunS Seconds `json:"max_run_s,omitempty"`
	// PayloadCap cuts event payloads, 0 or less is no cap.
	PayloadCap int `json:"payload_cap"`

	// Secrets are variables whose values are on no disk of either side. They
	// win over the program's Env.
	Secrets Secrets `json:"secrets,omitempty"`
	// Code is the program's folder, null when its paths are the worker's own.
	Code *Code `json:"code,omitempty"`
	// Storage is where the run's files live, null when it uses none.
	Storage *Storage `json:"storage,omitempty"`
	// MemoryBudgets are MiB by device. Needs CapMemoryBudget.
	MemoryBudgets map[string]int64 `json:"memory_budgets,omitempty"`
	// FingerprintDigest is that of the worker's environment, as stored.
	FingerprintDigest string `json:"fingerprint_digest,omitempty"`
}

// FrameType implements Frame.
func (*Assign) FrameType() FrameType { return TypeAssign }

// String names the assignment and none of what it carries, so that a secret
// doesn't reach a log with it.
func (a *Assign) String() string {
	return "assign " + a.RunID
}

func (a *Assign) check() error {
	if err := checkRun(a.RunID, a.Attempt); err != nil {
		return err
	}
	for _, program := range []struct {
		kind  Kind
		given bool
	}{{KindScript, a.Script != nil}, {KindCommand, a.Command != nil}, {KindGraph, a.Graph != nil}} {
		if program.given != (program.kind == a.Kind) {
			return badFrame("assign %s: kind %q and what to execute disagree", a.RunID, a.Kind)
		}
	}
	if a.Code != nil {
		if err := checkFiles(a.Code.Files); err != nil {
			return err
		}
	}
	if a.Storage != nil {
		return checkFiles(a.Storage.Inputs)
	}
	return nil
}
