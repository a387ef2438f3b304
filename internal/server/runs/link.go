package runs

import (
	"context"
	"errors"
	"fmt"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs/journal"
	"cdui/internal/store"
)

// LinkLost implements Sink: the run goes on, out of sight. Its slots stay held.
// A run that is out of sight already only gets the warning.
func (s *Service) LinkLost(ctx context.Context, runID string, attempt int, l execution.Link) error {
	return s.link(ctx, runID, attempt, run.LinkLost, l)
}

// LinkBack implements Sink: the run is in sight again. For one that was all
// the time it does nothing.
func (s *Service) LinkBack(ctx context.Context, runID string, attempt int, l execution.Link) error {
	return s.link(ctx, runID, attempt, run.LinkBack, l)
}

func (s *Service) link(ctx context.Context, runID string, attempt int, signal run.Signal, l execution.Link) error {
	e, err := s.held(runID, attempt)
	if err != nil {
		return err
	}
	e.record.Lock()
	defer e.record.Unlock()
	s.mu.Lock()
	status, moves := run.Next(e.row.Status, signal)
	gone := e.row.Status.Terminal() || e.phase == ending || e.phase == waiting || e.row.Attempt != attempt
	s.mu.Unlock()
	switch {
	case gone:
		return fmt.Errorf("run %s, attempt %d: %w", runID, attempt, execution.ErrGone)
	case !moves && signal == run.LinkBack:
		return nil
	}
	change := store.Change{
		RunID: runID, RequireActive: true, RequireAttempt: attempt,
		Events: []store.Event{journal.LinkEvent(l, now())},
	}
	if moves {
		change.Patch = &store.Patch{Status: &status}
	}
	if _, err := s.cfg.Store.Apply(ctx, change); err != nil {
		if errors.Is(err, store.ErrNotActive) || errors.Is(err, store.ErrNotFound) {
			return errors.Join(execution.ErrGone, err)
		}
		return err
	}
	s.mu.Lock()
	e.row.Status = status
	if e.cancel != nil {
		// It has its grace from when it hears of the order.
		e.stopBy(signal == run.LinkBack)
	}
	s.mu.Unlock()
	s.cfg.Notify(runID)
	return nil
}

// giveUp ends a run that is out of sight without waiting for it.
func (s *Service) giveUp(ctx context.Context, e *entry, attempt int) error {
	e.record.Lock()
	defer e.record.Unlock()
	return s.end(ctx, e, attempt, protocol.Finished{
		Status: string(run.Cancelled), EndClass: string(run.EndCancel),
		Error: "given up while its worker was away",
	})
}
