package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cdui/internal/graph"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/runs"
)

// Start implements runs.Executor: it sends the assignment. ErrNotNow: the
// worker went away, or takes no runs any more.
func (r *Registry) Start(ctx context.Context, job runs.Job, sink runs.Sink) error {
	name := job.Row.WorkerID
	r.mu.Lock()
	r.sink = sink
	w := r.workers[name]
	if w == nil || !w.accepting() {
		r.mu.Unlock()
		return fmt.Errorf("start run %s on %s: %w", run.Short(job.Row.ID), name, runs.ErrNotNow)
	}
	s, hello, to := w.session, w.hello, w.destination()
	r.mu.Unlock()

	a, err := r.assignment(ctx, job, hello, to)
	if err != nil {
		return err
	}
	m, err := s.encode(a)
	if err != nil {
		return fmt.Errorf("hand run %s to worker %s: %w", run.Short(job.Row.ID), name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers[name] != w || w.session != s || !w.accepting() {
		return fmt.Errorf("start run %s on %s: %w", run.Short(job.Row.ID), name, runs.ErrNotNow)
	}
	if !s.enqueue(m) {
		return fmt.Errorf("start run %s on %s, which doesn't take what it is sent: %w", run.Short(job.Row.ID), name, runs.ErrNotNow)
	}
	w.runs[job.Row.ID] = &placed{worker: name, id: job.Row.ID, attempt: job.Row.Attempt}
	return nil
}

func (w *worker) destination() Destination {
	return Destination{Name: w.name, SameMachine: w.sameMachine, Capabilities: w.session.caps, Mounts: w.hello.Mounts}
}

// lacking is a run that its worker can't execute.
type lacking struct{ text string }

func (l *lacking) Error() string          { return l.text }
func (l *lacking) EndClass() run.EndClass { return run.EndBadGraph }

// assignment turns a placed run into what its worker needs.
func (r *Registry) assignment(ctx context.Context, job runs.Job, hello *protocol.Hello, to Destination) (*protocol.Assign, error) {
	row := job.Row
	options, err := json.Marshal(row.Options)
	if err != nil {
		return nil, fmt.Errorf("hand over the options of run %s: %w", run.Short(row.ID), err)
	}
	a := &protocol.Assign{
		RunID: row.ID, Attempt: row.Attempt, NodeID: job.Program.NodeID, Options: options,
		Device: row.Options.Device, Devices: row.Devices,
		GraceS: protocol.SecondsOf(job.Grace), MaxRunS: protocol.Seconds(row.Options.MaxRunSeconds),
		PayloadCap: r.cfg.PayloadCap, FingerprintDigest: digest(hello.Fingerprint),
	}
	switch p := job.Program; {
	case p.Script != nil:
		a.Kind = protocol.KindScript
		a.Script = &protocol.Script{
			Path: p.Script.Path, Args: p.Script.Args, Env: p.Script.Env, Cwd: p.Script.Cwd,
			Interpreter: p.Script.Interpreter, Venv: p.Script.Venv, Params: p.Script.Params,
		}
	case p.Command != nil:
		a.Kind = protocol.KindCommand
		a.Command = &protocol.Command{Argv: p.Command.Argv, Env: p.Command.Env, Cwd: p.Command.Cwd, Venv: p.Command.Venv}
	default:
		a.Kind = protocol.KindGraph
		if a.Graph, err = r.graph(ctx, job, hello); err != nil {
			return nil, err
		}
	}
	if r.cfg.Shipper != nil {
		if err := r.cfg.Shipper.Ship(ctx, job, to, a); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// graph expands, checks and levels a graph here, so that the child only carries
// it out; the worker must know its node types (CAT-06).
func (r *Registry) graph(ctx context.Context, job runs.Job, hello *protocol.Hello) (*protocol.Graph, error) {
	prepared, findings := graph.Prepare(job.Row.Graph, r.cfg.Catalog(ctx))
	if len(findings) > 0 {
		texts := make([]string, len(findings))
		for i, f := range findings {
			texts[i] = f.Message
		}
		return nil, &lacking{strings.Join(texts, "; ")}
	}
	if hello.Catalog != nil {
		var missing []string
		for _, name := range prepared.Types() {
			if _, ok := hello.Catalog.Types[name]; !ok {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			return nil, &lacking{fmt.Sprintf("worker %s doesn't know the node types %s", hello.Name, strings.Join(missing, ", "))}
		}
	}
	raw, err := json.Marshal(prepared)
	if err != nil {
		return nil, fmt.Errorf("hand over the graph of run %s: %w", run.Short(job.Row.ID), err)
	}
	return &protocol.Graph{Prepared: raw, Inputs: job.Inputs, MaxParallel: r.cfg.MaxParallel}, nil
}

// Cancel implements runs.Executor. The order is kept, so that a worker that is
// away gets it when it is back.
func (r *Registry) Cancel(_ context.Context, runID string, grace time.Duration, force bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		p := w.runs[runID]
		if p == nil {
			continue
		}
		seconds := protocol.SecondsOf(grace)
		p.cancel = &protocol.Cancel{RunID: p.id, Attempt: p.attempt, GraceS: &seconds, Force: force}
		if w.session != nil && w.session.settled {
			w.session.send(p.cancel)
		}
		return nil
	}
	return nil // it has ended meanwhile
}

// Adopt implements runs.Executor: the runs that an earlier process had placed
// on workers wait for those to come back.
func (r *Registry) Adopt(_ context.Context, jobs []runs.Job, sink runs.Sink) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sink = sink
	adopted := map[*worker]bool{}
	for _, job := range jobs {
		w := r.entry(job.Row.WorkerID)
		p := &placed{
			worker: w.name, id: job.Row.ID, attempt: job.Row.Attempt,
			reported: job.Row.RecordedSeq > 0, recorded: job.Row.RecordedSeq,
		}
		w.runs[p.id] = p
		adopted[w] = true
		waits := link(w, protocol.CodeWorkerAdopted, nil)
		r.tellSink(p, "adoption", func(ctx context.Context, sink runs.Sink) error {
			return sink.LinkLost(ctx, p.id, p.attempt, waits)
		})
	}
	for w := range adopted {
		w.restarted, w.gone = true, false
		r.startGrace(w)
	}
	return nil
}
