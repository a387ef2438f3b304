// Package execution is the contract between who decides what runs (server/runs)
// and who carries it out (server/local, server/workers): jobs and orders go
// down, reports come up and are on disk when the call that brings them returns.
// It holds no rule and no state.
package execution

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"cdui/internal/graph"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// Executor carries out placed runs. Reports come back through the Sink.
type Executor interface {
	// Start hands a placed run over and returns once it is under way. An
	// error means that nothing was started and nothing is left behind; with
	// ErrNotNow the run goes back in line, with any other it has failed.
	Start(ctx context.Context, job Job, sink Sink) error
	// Adopt takes over runs that an earlier process of the control plane had
	// placed. It answers for each through the sink: more records, Lost, or
	// NeverStarted.
	Adopt(ctx context.Context, jobs []Job, sink Sink) error
	// Cancel asks a run to stop within grace; force kills it at once. For a
	// run that is out of sight the order waits until it is back.
	Cancel(ctx context.Context, runID string, grace time.Duration, force bool) error
}

// Sink takes what executors report. Its methods return once the report is on
// disk; an error means that the executor must report again.
type Sink interface {
	// Record takes records in order. Those that were recorded before are
	// dropped. ErrGone: the run is none of ours any more.
	Record(ctx context.Context, runID string, attempt int, records []protocol.Record) error
	// Lost ends a run whose supervisor is gone without a word.
	Lost(ctx context.Context, runID string, attempt int, loss Loss) error
	// NeverStarted puts a run whose placement reached no child back in line.
	NeverStarted(ctx context.Context, runID string, attempt int) error
	// LinkLost and LinkBack tell that a run goes on out of sight, and that it
	// is in sight again.
	LinkLost(ctx context.Context, runID string, attempt int, l Link) error
	LinkBack(ctx context.Context, runID string, attempt int, l Link) error
	// Late keeps how a run ended that had been given up before.
	Late(ctx context.Context, worker, runID string, attempt int, f protocol.Finished) error
}

// Job is a placed run, ready to execute. Program is zero for a graph that is
// no program of its own; Row.Graph is that graph.
type Job struct {
	Row     run.Row
	Program graph.Program
	Grace   time.Duration
	// Inputs are the values of a graph that is called as a function, nil
	// otherwise.
	Inputs map[string]json.RawMessage
}

// Loss says how a run was lost.
type Loss struct {
	EndClass run.EndClass
	Text     string
	// Code and Params say the same for programs, where there is a code.
	Code   string
	Params map[string]any
}

// ErrGone is returned for a run, or an attempt of it, that the service does
// not hold: it has ended or was removed.
var ErrGone = errors.New("the run is not active")

// ErrNotNow is wrapped by an error of Start when the run's machine is away.
var ErrNotNow = errors.New("the machine can't take the run now")

// Link says why an executor lost sight of a run, or found it again. Its code is
// the kind of the run_warning that it becomes.
type Link struct {
	Code, Text string
	Worker     string
	// Reason is the cause behind it, nil when there is none to tell.
	Reason *protocol.Problem
}
