package workers

import (
	"context"
	"fmt"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/workers/assign"
)

// Start implements execution.Executor: it sends the assignment. ErrNotNow: the
// worker went away, or takes no runs any more.
func (r *Registry) Start(ctx context.Context, job execution.Job, sink execution.Sink) error {
	name := job.Row.WorkerID
	r.mu.Lock()
	r.sink = sink
	w := r.workers[name]
	if w == nil || !w.accepting() {
		r.mu.Unlock()
		return fmt.Errorf("start run %s on %s: %w", run.Short(job.Row.ID), name, execution.ErrNotNow)
	}
	s, hello, to := w.session, w.hello, w.destination()
	r.mu.Unlock()

	a, err := r.cfg.Assign.Build(ctx, job, hello, to)
	if err != nil {
		return err
	}
	m, err := s.Encode(a)
	if err != nil {
		return fmt.Errorf("hand run %s to worker %s: %w", run.Short(job.Row.ID), name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.workers[name] != w || w.session != s || !w.accepting() {
		return fmt.Errorf("start run %s on %s: %w", run.Short(job.Row.ID), name, execution.ErrNotNow)
	}
	if !s.Enqueue(m) {
		return fmt.Errorf("start run %s on %s, which doesn't take what it is sent: %w", run.Short(job.Row.ID), name, execution.ErrNotNow)
	}
	w.runs[job.Row.ID] = &placed{worker: name, id: job.Row.ID, attempt: job.Row.Attempt}
	return nil
}

func (w *worker) destination() assign.Destination {
	return assign.Destination{Name: w.name, SameMachine: w.sameMachine, Capabilities: w.session.Caps, Mounts: w.hello.Mounts, FingerprintDigest: w.print}
}

// Cancel implements execution.Executor. The order is kept, so that a worker that is
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
			w.session.Send(p.cancel)
		}
		return nil
	}
	return nil // it has ended meanwhile
}

// Adopt implements execution.Executor: the runs that an earlier process had placed
// on workers wait for those to come back.
func (r *Registry) Adopt(_ context.Context, jobs []execution.Job, sink execution.Sink) error {
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
		r.tellSink(p, "adoption", func(ctx context.Context, sink execution.Sink) error {
			return sink.LinkLost(ctx, p.id, p.attempt, waits)
		})
	}
	for w := range adopted {
		w.restarted, w.gone = true, false
		r.startGrace(w)
	}
	return nil
}
