package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/execution"
	"cdui/internal/store"
)

const (
	retryFirst = 250 * time.Millisecond
	retryMost  = 10 * time.Second
)

// persist runs a commit until it goes through: a full or locked disk delays it.
// It gives up when the service closes or the change has lost its meaning.
func (s *Service) persist(what, runID string, apply func(ctx context.Context) error) error {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := apply(s.ctx)
		if err == nil || s.ctx.Err() != nil || errors.Is(err, store.ErrNotActive) || errors.Is(err, store.ErrNotFound) {
			return err
		}
		s.log.Warn("commit delayed", "what", what, "run_id", runID, "error", err)
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// place commits the placement that the scheduler decided, then hands the run
// to the executor.
func (s *Service) place(e *entry) {
	s.mu.Lock()
	row := e.row
	status, _ := run.Next(row.Status, run.Place)
	attempt, started := row.Attempt+1, now()
	change := store.Change{
		RunID:         row.ID,
		RequireActive: true,
		Patch:         &store.Patch{Status: &status, Attempt: &attempt},
	}
	s.placement(e, change.Patch)
	s.mu.Unlock()
	if row.StartedAt == nil {
		change.Patch.StartedAt = &started
		change.Events = []store.Event{{Type: run.EventExecutionStart, Payload: run.ExecutionStart(row.ID), TS: started}}
	} else {
		detail := json.RawMessage(fmt.Sprintf(`{"attempt":%d}`, attempt))
		change.Events = []store.Event{{Type: run.EventRunWarning, Payload: run.Warning("placed_again", detail, ""), TS: started}}
	}
	err := s.persist("placement", row.ID, func(ctx context.Context) error {
		_, err := s.cfg.Store.Apply(ctx, change)
		return err
	})
	if err != nil {
		s.log.Error("place", "run_id", row.ID, "error", err)
		return // the service closes: the row is still queued and keeps its place
	}
	s.mu.Lock()
	e.row.Status, e.row.Attempt = status, attempt
	if e.row.StartedAt == nil {
		e.row.StartedAt = &started
	}
	e.recorded = 0
	job, err := s.job(e)
	s.mu.Unlock()
	s.cfg.Notify(row.ID)
	if err == nil {
		err = s.executor(row.WorkerID).Start(s.ctx, job, s)
	}
	if err != nil {
		if s.ctx.Err() != nil {
			return // the next process finds the row running without a child and places it again
		}
		if errors.Is(err, execution.ErrNotNow) {
			s.log.Info("placed in vain", "run_id", row.ID, "worker", row.WorkerID, "error", err)
			s.wg.Go(func() { s.placedInVain(row.ID, attempt) })
			return
		}
		s.log.Error("start", "run_id", row.ID, "error", err)
		s.wg.Go(func() { s.failedToStart(e, attempt, err) })
		return
	}
	s.mu.Lock()
	if e.phase == placing {
		e.phase = executing
	}
	if e.cancel != nil {
		s.forwardCancel(e)
	}
	s.mu.Unlock()
}

// placedInVain puts a run back in line whose machine went away meanwhile.
func (s *Service) placedInVain(id string, attempt int) {
	err := s.persist("placement undone", id, func(ctx context.Context) error {
		err := s.NeverStarted(ctx, id, attempt)
		if errors.Is(err, execution.ErrGone) {
			return nil
		}
		return err
	})
	if err != nil && s.ctx.Err() == nil {
		s.log.Error("put back in line", "run_id", id, "error", err)
	}
}

// failedToStart ends a run whose executor could not start it.
func (s *Service) failedToStart(e *entry, attempt int, cause error) {
	f := protocol.Finished{Status: string(run.Failed), EndClass: string(run.EndServer), Error: cause.Error()}
	var coded interface{ EndClass() run.EndClass }
	if errors.As(cause, &coded) {
		f.EndClass = string(coded.EndClass())
	}
	s.mu.Lock()
	if e.cancel != nil {
		f = protocol.Finished{Status: string(run.Cancelled), EndClass: string(run.EndCancel)}
	}
	s.mu.Unlock()
	err := s.persist("end", e.row.ID, func(ctx context.Context) error {
		return s.end(ctx, e, attempt, f)
	})
	if err != nil && s.ctx.Err() == nil {
		s.log.Error("end", "run_id", e.row.ID, "error", err)
	}
}

// NeverStarted implements Sink: the placement reached no child.
func (s *Service) NeverStarted(ctx context.Context, runID string, attempt int) error {
	e, err := s.held(runID, attempt)
	if err != nil {
		return err
	}
	e.record.Lock()
	defer e.record.Unlock()
	s.mu.Lock()
	next, ok := run.Next(e.row.Status, run.Requeue)
	cancelled, lost := e.cancel != nil, e.hadSecrets() && e.vault.Empty()
	s.mu.Unlock()
	if cancelled {
		return s.end(ctx, e, attempt, protocol.Finished{Status: string(run.Cancelled), EndClass: string(run.EndCancel)})
	}
	if lost {
		return s.end(ctx, e, attempt, protocol.Finished{Status: string(run.Interrupted), EndClass: string(run.EndServer), Error: secretsGone})
	}
	if !ok {
		return execution.ErrGone
	}
	patch := &store.Patch{Status: &next}
	if e.ask != nil && e.ask.Worker != scheduler.Local {
		nowhere := ""
		patch.WorkerID, patch.Devices = &nowhere, append([]string{}, e.ask.Devices...)
	}
	if _, err := s.cfg.Store.Apply(ctx, store.Change{
		RunID: runID, RequireActive: true, RequireAttempt: attempt, Patch: patch,
	}); err != nil {
		return err
	}
	s.mu.Lock()
	e.row.Status = next
	s.release(e)
	e.unsettle()
	s.enqueue(e)
	s.mu.Unlock()
	s.cfg.Notify(runID)
	if err := s.strandIfRemoved(ctx, runID); err != nil {
		s.log.Error("end a run whose worker was removed", "run_id", runID, "error", err)
	}
	s.schedule()
	return nil
}

// held finds an executing run by id and attempt.
func (s *Service) held(runID string, attempt int) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.runs[runID]
	if e == nil || e.phase == waiting || e.row.Attempt != attempt {
		return nil, fmt.Errorf("run %s, attempt %d: %w", runID, attempt, execution.ErrGone)
	}
	return e, nil
}

// Hold keeps a waiting run from starting; Release lets it queue, whatever it
// was held back for.
func (s *Service) Hold(ctx context.Context, id string) (api.RunState, error) {
	return s.setHold(ctx, id, true)
}

// Release undoes Hold, and lets a run go that waits for others.
func (s *Service) Release(ctx context.Context, id string) (api.RunState, error) {
	return s.setHold(ctx, id, false)
}

func (s *Service) setHold(ctx context.Context, id string, hold bool) (api.RunState, error) {
	verb := map[bool]string{true: "held", false: "released"}[hold]
	s.mu.Lock()
	e := s.runs[id]
	if e == nil || e.phase != waiting {
		status := run.Running
		if e != nil {
			status = e.row.Status
		}
		s.mu.Unlock()
		if e == nil {
			row, err := s.cfg.Store.Run(ctx, id)
			if err != nil {
				return api.RunState{}, err
			}
			status = row.Status
		}
		return api.RunState{}, api.Errorf(api.Conflict, "run %s is %s; only a waiting run can be %s", run.Short(id), status, verb).
			With("status", status)
	}
	before, aside := e.row.Options, e.aside
	after := before
	after.Hold = hold
	if !hold {
		after.After = []run.After{}
		if r := after.Retry; r != nil && r.NotBefore != nil {
			now := *r
			now.NotBefore = nil
			after.Retry = &now
		}
	}
	e.row.Options, e.aside = after, nil
	s.dequeue(e)
	s.enqueue(e)
	s.mu.Unlock()

	_, err := s.cfg.Store.Apply(ctx, store.Change{RunID: id, RequireActive: true, Patch: &store.Patch{Options: &after}})
	if err != nil {
		s.mu.Lock()
		if e.phase == waiting {
			e.row.Options, e.aside = before, aside
			s.dequeue(e)
			s.enqueue(e)
		}
		s.mu.Unlock()
		return api.RunState{}, err
	}
	s.settleAfter(ctx, id)
	s.cfg.Notify(id)
	s.schedule()
	return api.RunState{RunID: id, Status: run.Queued, Held: hold}, nil
}
