package protocol

import (
	"encoding/json"
	"time"

	"cdui/internal/device"
)

// Hello is an agent's first frame, within HelloTimeout.
type Hello struct {
	Name string `json:"name"`
	// Version is the release of cdui, Protocol the Version of this package.
	Version  string `json:"version"`
	Protocol int    `json:"protocol_version"`
	// MachineID is a digest of the machine's own id (CARD-02). Self-reported.
	MachineID string `json:"machine_id"`
	// Nonce is drawn once in the life of an agent process: a second connection
	// with the same nonce is the same agent, one with another is a second one.
	Nonce string `json:"nonce"`
	// TS is the agent's clock, for its skew to be shown. Nothing is decided by it.
	TS           time.Time        `json:"ts"`
	Platform     Platform         `json:"platform"`
	Python       *Python          `json:"python"`
	Devices      device.Inventory `json:"devices"`
	Capabilities Capabilities     `json:"capabilities"`
	// Mounts maps the labels of shared folders to their paths on the worker.
	Mounts map[string]string `json:"mounts,omitempty"`
	// Catalog is null while the agent doesn't know its node types yet.
	Catalog *Catalog `json:"catalog"`
	// Fingerprint is the environment's document; the control plane stores it
	// and computes its digest.
	Fingerprint json.RawMessage `json:"fingerprint,omitempty"`
	// HeldRuns is how many runs run_alive will list. A worker of another
	// release is let in for those, and for nothing else.
	HeldRuns int `json:"held_runs"`

	// One-shot agents only.
	OneShot      bool   `json:"one_shot,omitempty"`
	OneShotRunID string `json:"one_shot_run_id,omitempty"`
	InstanceID   string `json:"instance_id,omitempty"`
	Instance     string `json:"instance,omitempty"`
}

// Platform is the machine of an agent.
type Platform struct {
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Release   string `json:"release,omitempty"`
	Hostname  string `json:"hostname,omitempty"`
	Cores     int    `json:"cores"`
	MemoryMiB int64  `json:"memory_mib"`
}

// Python is the interpreter of an agent. Torch and CUDA are null where there
// is none.
type Python struct {
	Path    string  `json:"path"`
	Version string  `json:"version"`
	Torch   *string `json:"torch"`
	CUDA    *string `json:"cuda"`
}

// Catalog is what an agent knows of node types: a hash over all of them, and
// one over the definition of each.
type Catalog struct {
	Hash  string            `json:"hash"`
	Types map[string]string `json:"types"`
}

// FrameType implements Frame.
func (*Hello) FrameType() FrameType { return TypeHello }

// check leaves name, version and protocol to the handshake, which rejects them
// with a reason.
func (h *Hello) check() error {
	return checkWords(h.Name, h.Version, h.MachineID, h.Nonce, h.OneShotRunID, h.InstanceID, h.Instance)
}

// RegisteredName is the name that the worker goes by: an instance of a shared
// credential is <name>.<instance>.
func (h *Hello) RegisteredName() string {
	if h.Instance == "" {
		return h.Name
	}
	return h.Name + "." + h.Instance
}

// Heartbeat is sent every welcome.heartbeat_s, before anything bulky.
type Heartbeat struct {
	Devices device.Inventory `json:"devices"`
	// Runs are the ids of the runs that execute.
	Runs []string `json:"runs"`
	// Draining: the agent takes no assignment, be it that the control plane
	// said so or that somebody stops it.
	Draining bool `json:"draining,omitempty"`
}

// FrameType implements Frame.
func (*Heartbeat) FrameType() FrameType { return TypeHeartbeat }

func (h *Heartbeat) check() error {
	for _, id := range h.Runs {
		if err := checkRun(id, 1); err != nil {
			return err
		}
	}
	return nil
}

// RunAlive follows every welcome, before any record: all runs that the agent
// starts, executes, or has unacknowledged records of. A run that the control
// plane placed there and that is not in the list is not there.
type RunAlive struct {
	Runs []AliveRun `json:"runs"`
}

// AliveRun is one run that an agent has.
type AliveRun struct {
	RunID   string     `json:"run_id"`
	Attempt int        `json:"attempt"`
	State   AliveState `json:"state"`
	// LastSeq is the newest record that the worker has; more may follow.
	LastSeq uint64 `json:"last_seq"`
}

// AliveState says how far a run is on its worker.
type AliveState string

// The states of a run on its worker.
const (
	AliveStarting AliveState = "starting" // assigned, no shim yet
	AliveRunning  AliveState = "running"  // its shim lives
	AliveEnded    AliveState = "ended"    // its shim is gone, its records are not all acknowledged
)

// FrameType implements Frame.
func (*RunAlive) FrameType() FrameType { return TypeRunAlive }

func (a *RunAlive) check() error {
	for _, r := range a.Runs {
		if err := checkRun(r.RunID, r.Attempt); err != nil {
			return err
		}
	}
	return nil
}

// Frames carries records of any number of runs; those of one run are in order.
// Needs CapFrames.
type Frames struct {
	Runs []RunRecords `json:"runs"`
}

// RunRecords are records of one run, each as EncodeRecord made it: its bytes
// are never touched again.
type RunRecords struct {
	RunID   string            `json:"run_id"`
	Attempt int               `json:"attempt"`
	Records []json.RawMessage `json:"records"`

	// read is what became of Records while the frame was read: those without
	// Raw are to be looked at again. Empty when the frame had another form.
	read []Record
}

// FrameType implements Frame.
func (*Frames) FrameType() FrameType { return TypeFrames }

func (f *Frames) check() error {
	for _, r := range f.Runs {
		if err := checkRun(r.RunID, r.Attempt); err != nil {
			return err
		}
		if len(r.Records) > CreditRecords {
			return badFrame("%d records of run %s, the credit is %d", len(r.Records), r.RunID, CreditRecords)
		}
		for _, raw := range r.Records {
			if err := checkObject(raw); err != nil {
				return badFrame("record of run %s: %v", r.RunID, err)
			}
		}
	}
	return nil
}

// SingleRecord is one record, for a peer without CapFrames. The frame's type
// is the record's own.
type SingleRecord struct {
	Type    RecordType      `json:"-"`
	RunID   string          `json:"run_id"`
	Attempt int             `json:"attempt"`
	Seq     uint64          `json:"seq"`
	Record  json.RawMessage `json:"record"`
}

// FrameType implements Frame.
func (s *SingleRecord) FrameType() FrameType { return FrameType(s.Type) }

func (s *SingleRecord) check() error {
	if err := checkRun(s.RunID, s.Attempt); err != nil {
		return err
	}
	if s.Seq == 0 || !knownRecord(s.Type) {
		return badFrame("%q record %d of run %s", s.Type, s.Seq, s.RunID)
	}
	if err := checkObject(s.Record); err != nil {
		return badFrame("record %d of run %s: %v", s.Seq, s.RunID, err)
	}
	return nil
}

// CatalogChanged replaces what hello said of the interpreter and its node
// types. Null leaves it as it was.
type CatalogChanged struct {
	Python      *Python         `json:"python"`
	Catalog     *Catalog        `json:"catalog"`
	Fingerprint json.RawMessage `json:"fingerprint,omitempty"`
}

// FrameType implements Frame.
func (*CatalogChanged) FrameType() FrameType { return TypeCatalogChanged }

func (*CatalogChanged) check() error { return nil }

// OutputAnswer is a segment of the answer to a fetch_output. Bodies of all
// segments up to the final one make up the answer.
type OutputAnswer struct {
	RequestID string `json:"request_id"`
	// Status is the HTTP status of the answer, the same in each segment.
	Status int    `json:"status"`
	Body   []byte `json:"body"`
	Final  bool   `json:"final"`
}

// FrameType implements Frame.
func (*OutputAnswer) FrameType() FrameType { return TypeOutputAnswer }

func (a *OutputAnswer) check() error {
	if a.Status < 100 || a.Status > 599 {
		return badFrame("output_answer with status %d", a.Status)
	}
	return checkRequest(a.RequestID)
}

// LogChunk is a piece of the answer to a fetch_log.
type LogChunk struct {
	RequestID string `json:"request_id"`
	// Offset is that of the first byte of Data. It is greater than the end of
	// the chunk before when what stood between is not kept any more.
	Offset int64  `json:"offset"`
	Data   []byte `json:"data,omitempty"`
	// Size is how much the run has written so far; Ended that it won't write
	// more.
	Size  int64 `json:"size"`
	Ended bool  `json:"ended,omitempty"`
	// Marks answer a request for the time index.
	Marks []LogMark `json:"marks,omitempty"`
	// Final ends the request: the limit is reached, or there is no more and
	// the request doesn't follow, or Problem says why not.
	Final   bool     `json:"final,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// LogMark says when the byte at an offset was written.
type LogMark struct {
	Offset int64 `json:"offset"`
	UnixMS int64 `json:"unix_ms"`
}

// FrameType implements Frame.
func (*LogChunk) FrameType() FrameType { return TypeLogChunk }

func (c *LogChunk) check() error {
	if c.Offset < 0 || c.Size < 0 {
		return badFrame("log_chunk at offset %d of %d", c.Offset, c.Size)
	}
	return checkRequest(c.RequestID)
}

// Part is a piece of a frame that is longer than MaxFrameBytes. N counts from 1
// to Of; the parts of one frame come in order, others may stand between them.
// Needs CapParts.
type Part struct {
	ID   uint64 `json:"id"`
	N    int    `json:"n"`
	Of   int    `json:"of"`
	Data []byte `json:"data"`
}

// FrameType implements Frame.
func (*Part) FrameType() FrameType { return TypePart }

func (p *Part) check() error {
	switch {
	case p.Of < 1 || p.Of > maxParts || p.N < 1 || p.N > p.Of:
		return badFrame("part %d of %d", p.N, p.Of)
	case len(p.Data) == 0:
		return badFrame("part %d of %d is empty", p.N, p.Of)
	}
	return nil
}
