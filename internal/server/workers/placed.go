package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/server/execution"
	"cdui/internal/server/workers/admit"
	"cdui/internal/server/workers/conn"
	"cdui/internal/server/workers/mailbox"
)

// placed is one attempt of a run on one worker.
type placed struct {
	worker  string
	id      string
	attempt int
	box     mailbox.Mailbox

	// Guarded by Registry.mu: whether a record of it has come, the last one
	// that is stored, and the order to stop.
	reported bool
	recorded uint64
	cancel   *protocol.Cancel
	// stray: nobody here asks for it any more; only its end matters.
	stray bool
}

func (p *placed) key() conn.Key { return conn.Key{RunID: p.id, Attempt: p.attempt} }

func (p *placed) held() admit.Held {
	return admit.Held{RunID: p.id, Attempt: p.attempt, Reported: p.reported}
}

// post puts a letter into a run's mailbox and sees that it is worked off.
func (r *Registry) post(p *placed, l mailbox.Letter) error {
	start, err := p.box.Post(l)
	if start {
		r.wg.Go(func() { r.work(p) })
	}
	return err
}

// tellSink puts a call of the sink into a run's mailbox.
func (r *Registry) tellSink(p *placed, what string, call func(ctx context.Context, sink execution.Sink) error) {
	_ = r.post(p, mailbox.Letter{Do: func(ctx context.Context) { // only records can be refused
		err := r.insist(ctx, what, p.id, func(ctx context.Context) error { return call(ctx, r.sink) })
		if errors.Is(err, execution.ErrGone) {
			r.disown(p)
		}
	}})
}

func (r *Registry) work(p *placed) {
	for {
		l, ok := p.box.Next()
		if !ok {
			return
		}
		if l.Do != nil {
			l.Do(r.ctx)
		} else {
			r.store(r.ctx, p, l.Records)
		}
	}
}

// store brings records to the sink and acknowledges them.
func (r *Registry) store(ctx context.Context, p *placed, records []protocol.Record) {
	last, finished := records[len(records)-1].Seq, finishedIn(records)
	r.mu.Lock()
	stray := p.stray
	r.mu.Unlock()
	if !stray {
		err := r.insist(ctx, "records", p.id, func(ctx context.Context) error { return r.deliver(ctx, p, records) })
		switch {
		case errors.Is(err, execution.ErrGone):
			r.disown(p)
			stray = true
		case err != nil:
			return // the control plane stops; the worker keeps them
		}
	}
	if stray {
		if finished != nil {
			err := r.insist(ctx, "late result", p.id, func(ctx context.Context) error {
				return r.sink.Late(ctx, p.worker, p.id, p.attempt, *finished)
			})
			if err != nil && !errors.Is(err, execution.ErrGone) {
				return
			}
		}
	}
	r.mu.Lock()
	p.recorded = max(p.recorded, last)
	w := r.workers[p.worker]
	if w != nil && finished != nil && w.runs[p.id] == p {
		delete(w.runs, p.id)
	}
	var s *session
	if w != nil {
		s = w.session
	}
	if s != nil && finished != nil {
		delete(s.strays, p.key())
	}
	r.mu.Unlock()
	if s != nil {
		s.Acknowledge(p.key(), last, len(records), finished != nil)
	}
}

// deliver hands records to the sink. A worker that turns an assignment down for
// a passing reason has not begun: the run goes back in line.
func (r *Registry) deliver(ctx context.Context, p *placed, records []protocol.Record) error {
	if f := finishedIn(records[:1]); f != nil && records[0].Seq == 1 {
		switch f.Code {
		case protocol.RefuseAlreadyRunning:
			// An older attempt is being stopped there.
			if !pause(ctx, time.Second) {
				return ctx.Err()
			}
			return r.sink.NeverStarted(ctx, p.id, p.attempt)
		case protocol.RefuseDraining:
			return r.sink.NeverStarted(ctx, p.id, p.attempt)
		}
	}
	return r.sink.Record(ctx, p.id, p.attempt, records)
}

func finishedIn(records []protocol.Record) *protocol.Finished {
	for _, rec := range records {
		if rec.Type == protocol.RunFinished {
			return rec.Finished
		}
	}
	return nil
}

// disown makes a stray of a run that the service holds no more: it is stopped
// on its worker and its end is kept.
func (r *Registry) disown(p *placed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[p.worker]
	if p.stray || w == nil {
		return
	}
	p.stray = true
	if w.runs[p.id] == p {
		delete(w.runs, p.id)
	}
	if s := w.session; s != nil {
		s.strays[p.key()] = p
		s.stopNow(p)
	}
}

// lose ends the runs of a worker that will not be waited for any more. The
// caller holds mu.
func (r *Registry) lose(w *worker, p *placed, loss execution.Loss) {
	if w.runs[p.id] == p {
		delete(w.runs, p.id)
	}
	p.box.DropRecords()
	r.tellSink(p, "loss", func(ctx context.Context, sink execution.Sink) error {
		err := sink.Lost(ctx, p.id, p.attempt, loss)
		if errors.Is(err, execution.ErrGone) {
			return nil // it has ended otherwise
		}
		return err
	})
}

func link(w *worker, code string, reason *protocol.Problem) execution.Link {
	text := map[string]string{
		protocol.CodeWorkerDisconnected: "lost sight of worker %s; the run goes on there",
		protocol.CodeWorkerReconnected:  "worker %s is back",
		protocol.CodeWorkerAdopted:      "the control plane was restarted; it waits for worker %s, where the run goes on",
	}[code]
	return execution.Link{Code: code, Worker: w.name, Text: fmt.Sprintf(text, w.name), Reason: reason}
}

const (
	retryFirst = 250 * time.Millisecond
	retryMost  = 10 * time.Second
)

// insist calls deliver until the sink has taken it, or never will: nil, ErrGone
// or the end of ctx.
func (r *Registry) insist(ctx context.Context, what, runID string, deliver func(ctx context.Context) error) error {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := deliver(ctx)
		if err == nil || errors.Is(err, execution.ErrGone) || ctx.Err() != nil {
			return err
		}
		r.log.Warn("report delayed", "what", what, "run_id", runID, "error", err)
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
