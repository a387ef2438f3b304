package agent

import (
	"context"
	"crypto/tls"
	"errors"

	"cdui/internal/agent/prepare"
	"cdui/internal/agent/via"
	"cdui/internal/console"
	"cdui/internal/protocol"
)

// Upstream is how a Storage reaches the control plane.
type Upstream struct {
	URL string
	TLS *tls.Config
	// Dial connects in place of a connection to URL; nil is none.
	Dial via.Dial
	// Token is the worker's token; it may change.
	Token func() (string, error)
}

// Job is one attempt of a run, as its storage needs it. It is the same after a
// restart of the agent; what else a Storage must know then it keeps in Dir.
type Job struct {
	RunID   string
	Attempt int
	// Dir is the run's own folder for files, Folders are below it.
	Dir     string
	Folders prepare.Folders
	// Console is what the run printed.
	Console *console.Reader
}

// Storage moves the files of runs between this machine and the control plane.
// Its methods are safe for concurrent use and may be called again for what they
// have done before.
type Storage interface {
	// Fetch lays out the code and the inputs of an assignment.
	Fetch(ctx context.Context, job Job, a *protocol.Assign) error
	// Wrote is told of each artifact that a run reports, before the control
	// plane is. It must not wait for the network.
	Wrote(job Job, artifact protocol.Record)
	// Bring brings back what a run that has ended left: its files and its log.
	// The run's end is reported after it. An error is tried again until the
	// control plane would have given the run up, unless it is ErrLasting.
	Bring(ctx context.Context, job Job) error
}

// ErrLasting is wrapped by the error of a Storage that trying again can't mend.
var ErrLasting = errors.New("trying again can't help")

// noStorage serves runs that bring no files and leave none.
type noStorage struct{}

func (noStorage) Fetch(_ context.Context, _ Job, a *protocol.Assign) error {
	moved := a.Storage != nil && (a.Storage.Backend == protocol.BackendTransfer || a.Storage.Backend == protocol.BackendS3)
	if a.Code != nil || moved {
		return &prepare.Unfit{Code: protocol.RefuseUnsupported, Text: "this worker does not take runs that bring files along"}
	}
	return nil
}

func (noStorage) Wrote(Job, protocol.Record) {}

func (noStorage) Bring(context.Context, Job) error { return nil }
