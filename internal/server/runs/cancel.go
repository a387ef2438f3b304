package runs

import (
	"context"
	"errors"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs/journal"
	"cdui/internal/store"
)

// scriptKillDelay is how long after the grace a script is killed (K-07).
const scriptKillDelay = 5 * time.Second

// Cancel asks a run to stop. A waiting run ends at once; an executing one gets
// grace (negative: the default), or is killed at once by force. Cancelling a
// run that has ended is no error and says so.
func (s *Service) Cancel(ctx context.Context, id string, grace time.Duration, force bool) (api.CancelReply, error) {
	if grace < 0 {
		grace = s.cfg.Grace
	}
	s.mu.Lock()
	e := s.runs[id]
	if e == nil {
		s.mu.Unlock()
		row, err := s.cfg.Store.Run(ctx, id)
		if err != nil {
			return api.CancelReply{}, err
		}
		return api.CancelReply{RunID: id, Status: row.Status}, nil
	}
	if e.phase == waiting {
		s.mu.Unlock()
		status, err := s.leave(ctx, e, leaving{signal: run.CancelWaiting, class: run.EndCancel})
		if errors.Is(err, errMoved) {
			return s.Cancel(ctx, id, grace, force) // it was placed in that moment
		}
		return api.CancelReply{RunID: id, Status: status, Cancelled: err == nil}, err
	}
	e.cancel = &cancelOrder{grace: grace, force: force}
	if e.phase == executing {
		s.forwardCancel(e)
	}
	ts := now()
	first := e.row.CancelRequestedAt == nil
	e.row.CancelRequestedAt = &ts
	status, attempt := e.row.Status, e.row.Attempt
	s.mu.Unlock()
	if force && status == run.Disconnected {
		if err := s.giveUp(ctx, e, attempt); err != nil && !errors.Is(err, execution.ErrGone) {
			return api.CancelReply{}, err
		}
		return api.CancelReply{RunID: id, Status: run.Cancelled, Cancelled: true}, nil
	}
	if first {
		// The order is already on its way; writing it down lets a later process
		// of the control plane repeat it. A full disk must not stop a cancel.
		if _, err := s.cfg.Store.Apply(ctx, store.Change{RunID: id, RequireActive: true, Patch: &store.Patch{CancelRequestedAt: &ts}}); err != nil {
			s.log.Warn("note cancel", "run_id", id, "error", err)
		}
	}
	s.cfg.Notify(id)
	return api.CancelReply{RunID: id, Status: status, Cancelled: true, GraceS: grace.Seconds()}, nil
}

// errMoved: the run waits no more.
var errMoved = errors.New("the run does not wait any more")

// leaving says how a run ends that has no child. Code and params go on the
// terminal event of a failed one.
type leaving struct {
	signal run.Signal
	class  run.EndClass
	text   string
	code   string
	params map[string]any
}

// leave ends a run that has no child.
func (s *Service) leave(ctx context.Context, e *entry, l leaving) (run.Status, error) {
	class, text := l.class, l.text
	s.mu.Lock()
	status, ok := run.Next(e.row.Status, l.signal)
	if !ok || e.phase != waiting {
		s.mu.Unlock()
		return e.row.Status, errMoved
	}
	e.phase = ending
	s.dequeue(e)
	s.mu.Unlock()
	s.schedule()

	ts := now()
	patch := &store.Patch{Status: &status, EndClass: &class, FinishedAt: &ts, Error: &text}
	if l.signal == run.CancelWaiting {
		patch.CancelRequestedAt = &ts
	}
	terminal := journal.Terminal(status, protocol.Finished{Error: text}, ts)
	if status == run.Failed {
		terminal.Payload = run.ExecutionError(text, l.code, l.params)
	}
	_, err := s.cfg.Store.Apply(ctx, store.Change{
		RunID: e.row.ID, RequireActive: true, End: true, Patch: patch, Events: []store.Event{terminal},
	})
	if err != nil {
		s.mu.Lock()
		s.enqueue(e)
		s.mu.Unlock()
		s.settleAfter(ctx, e.row.ID)
		s.schedule()
		return run.Queued, err
	}
	s.mu.Lock()
	e.row.Status, e.row.EndClass, e.row.FinishedAt, e.row.Error = status, class, &ts, text
	e.row.CancelRequestedAt = patch.CancelRequestedAt
	delete(s.runs, e.row.ID)
	row := e.row
	s.mu.Unlock()
	s.cfg.Notify(row.ID)
	s.cfg.Ended(row)
	s.settleDependents(ctx, row.ID)
	return status, nil
}

// forwardCancel passes the order on to the executor. The caller holds mu.
func (s *Service) forwardCancel(e *entry) {
	order := *e.cancel
	id := e.row.ID
	e.stopBy(e.row.Status != run.Disconnected)
	if s.closed {
		return
	}
	executor := s.executor(e.row.WorkerID)
	s.wg.Go(func() {
		if err := executor.Cancel(s.ctx, id, order.grace, order.force); err != nil {
			s.log.Warn("forward cancel", "run_id", id, "error", err)
		}
	})
}

// stopBy notes when a cancelled run will be killed, which nobody knows of one
// that is out of sight. The caller holds the service's mu.
func (e *entry) stopBy(known bool) {
	e.deadline = time.Time{}
	if !known {
		return
	}
	wait := e.cancel.grace
	if e.program.Command == nil {
		wait += scriptKillDelay
	}
	if e.cancel.force {
		wait = 0
	}
	e.deadline = now().Add(wait)
}
