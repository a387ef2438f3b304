package runs

import (
	"context"
	"encoding/json"
	"errors"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/store"
)

// Record implements Sink.
func (s *Service) Record(ctx context.Context, runID string, attempt int, records []protocol.Record) error {
	e, err := s.held(runID, attempt)
	if err != nil {
		return err
	}
	e.record.Lock()
	defer e.record.Unlock()
	c := convert(e.recorded, records, s.cfg.PayloadCap, s.cfg.Store.NextArtifactID)
	switch {
	case c.finished != nil:
		return s.endWith(ctx, e, attempt, *c.finished, c)
	case c.change.RecordedSeq > 0:
		return s.commitRecords(ctx, e, attempt, &c)
	}
	return nil
}

// commitRecords stores a batch and lets the mirror learn from it.
func (s *Service) commitRecords(ctx context.Context, e *entry, attempt int, c *converted) error {
	c.change.RunID, c.change.Attempt = e.row.ID, attempt
	c.change.RequireActive, c.change.RequireAttempt = true, attempt
	s.mu.Lock()
	facts := c.factsOn(e.row.Facts)
	s.mu.Unlock()
	if c.started != nil || len(c.facts) > 0 {
		c.change.Patch = &store.Patch{Facts: facts}
	}
	if _, err := s.cfg.Store.Apply(ctx, c.change); err != nil {
		if errors.Is(err, store.ErrNotActive) || errors.Is(err, store.ErrNotFound) {
			return errors.Join(ErrGone, err)
		}
		return err
	}
	e.recorded = c.change.RecordedSeq
	s.mu.Lock()
	if c.change.Patch != nil {
		e.row.Facts = facts
	}
	if c.started != nil {
		e.pid = c.started.PID
	}
	if c.progress != nil {
		e.progress = c.progress
	}
	s.mu.Unlock()
	s.cfg.Notify(e.row.ID)
	return nil
}

// Lost implements Sink.
func (s *Service) Lost(ctx context.Context, runID string, attempt int, loss Loss) error {
	e, err := s.held(runID, attempt)
	if err != nil {
		return err
	}
	e.record.Lock()
	defer e.record.Unlock()
	f := protocol.Finished{Status: string(run.Interrupted), EndClass: string(loss.EndClass), Error: loss.Text, Code: loss.Code}
	s.mu.Lock()
	if e.row.Status == run.Disconnected && e.cancel != nil {
		// It was to stop anyway, and whether it did nobody will learn.
		f.Status, f.EndClass = string(run.Cancelled), string(run.EndCancel)
	}
	if len(loss.Params) > 0 {
		if doc, err := json.Marshal(map[string]any{"error_params": loss.Params}); err == nil {
			e.row.Facts = mergeFacts(e.row.Facts, doc)
		}
	}
	s.mu.Unlock()
	return s.end(ctx, e, attempt, f, 0)
}

// end closes a run about which no records came with its end.
func (s *Service) end(ctx context.Context, e *entry, attempt int, f protocol.Finished, seq uint64) error {
	return s.endWith(ctx, e, attempt, f, converted{finishedSeq: seq})
}

// endWith closes a run: its slots are free before the last records, the
// terminal event and the row, which commit together. When the commit fails the
// run stays closed in memory and the caller reports again.
func (s *Service) endWith(ctx context.Context, e *entry, attempt int, f protocol.Finished, last converted) error {
	signal, ok := run.EndSignal(run.Status(f.Status))
	if !ok {
		signal, f.EndClass = run.EndFailed, string(run.EndServer)
		f.Error = "the run's supervisor reported the unknown status " + f.Status
	}
	s.mu.Lock()
	status, ok := run.Next(e.row.Status, signal)
	if !ok {
		s.mu.Unlock()
		return ErrGone
	}
	if e.phase != ending {
		e.phase = ending
		// A process that not even SIGKILL ends still holds the device: its slot
		// stays closed until the control plane starts again and looks anew.
		if f.Code != protocol.CodeProcessStuck {
			s.release(e)
		}
	}
	facts := mergeFacts(last.factsOn(e.row.Facts), endFacts(f))
	s.mu.Unlock()
	s.schedule()

	ts, class := now(), run.EndClass(f.EndClass)
	change := last.change
	change.RunID, change.Attempt, change.RecordedSeq = e.row.ID, attempt, last.finishedSeq
	change.RequireActive, change.RequireAttempt, change.End = true, attempt, true
	change.Patch = &store.Patch{Status: &status, Error: &f.Error, EndClass: &class, FinishedAt: &ts, Facts: facts}
	change.Events = append(change.Events, terminalEvent(status, f, ts))
	if _, err := s.cfg.Store.Apply(ctx, change); err != nil {
		if !errors.Is(err, store.ErrNotActive) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	s.mu.Lock()
	e.row.Status, e.row.Error, e.row.EndClass, e.row.FinishedAt, e.row.Facts = status, f.Error, class, &ts, facts
	delete(s.runs, e.row.ID)
	row := e.row
	s.mu.Unlock()
	s.cfg.Notify(row.ID)
	s.cfg.Ended(row)
	s.settleDependents(ctx, row.ID)
	s.schedule()
	return nil
}
