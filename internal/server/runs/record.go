package runs

import (
	"context"
	"errors"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs/journal"
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
	c := journal.Convert(e.recorded, records, s.cfg.PayloadCap, s.cfg.Store.NextArtifactID)
	switch {
	case c.Finished != nil:
		return s.endWith(ctx, e, attempt, *c.Finished, c)
	case c.Change.RecordedSeq > 0:
		return s.commitRecords(ctx, e, attempt, &c)
	}
	return nil
}

// commitRecords stores a batch and lets the mirror learn from it.
func (s *Service) commitRecords(ctx context.Context, e *entry, attempt int, c *journal.Batch) error {
	c.Change.RunID, c.Change.Attempt = e.row.ID, attempt
	c.Change.RequireActive, c.Change.RequireAttempt = true, attempt
	if c.Tells() {
		s.mu.Lock()
		c.Change.Patch = &store.Patch{Facts: c.FactsOn(e.row), FingerprintDigest: c.Digest()}
		s.mu.Unlock()
	}
	if _, err := s.cfg.Store.Apply(ctx, c.Change); err != nil {
		if errors.Is(err, store.ErrNotActive) || errors.Is(err, store.ErrNotFound) {
			return errors.Join(execution.ErrGone, err)
		}
		return err
	}
	e.recorded = c.Change.RecordedSeq
	s.mu.Lock()
	if c.Change.Patch != nil {
		e.row.Facts, e.row.FingerprintDigest = c.Change.Patch.Facts, c.DigestOn(e.row)
	}
	if c.Started != nil {
		e.pid = c.Started.PID
	}
	if c.Progress != nil {
		e.progress = c.Progress
	}
	row := e.row
	s.mu.Unlock()
	s.cfg.Notify(row.ID)
	if c.Started != nil {
		s.cfg.Started(row)
	}
	return nil
}

// Lost implements Sink.
func (s *Service) Lost(ctx context.Context, runID string, attempt int, loss execution.Loss) error {
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
		e.row.Facts = journal.With(e.row.Facts, "error_params", loss.Params)
	}
	s.mu.Unlock()
	return s.end(ctx, e, attempt, f)
}

// end closes a run about which no records came with its end.
func (s *Service) end(ctx context.Context, e *entry, attempt int, f protocol.Finished) error {
	return s.endWith(ctx, e, attempt, f, journal.Batch{})
}

// endWith closes a run: its slots are free before the last records, the
// terminal event and the row, which commit together. When the commit fails the
// run stays closed in memory and the caller reports again.
func (s *Service) endWith(ctx context.Context, e *entry, attempt int, f protocol.Finished, last journal.Batch) error {
	signal, ok := run.EndSignal(run.Status(f.Status))
	if !ok {
		signal, f.EndClass = run.EndFailed, string(run.EndServer)
		f.Error = "the run's supervisor reported the unknown status " + f.Status
	}
	s.mu.Lock()
	status, ok := run.Next(e.row.Status, signal)
	if !ok {
		s.mu.Unlock()
		return execution.ErrGone
	}
	if e.phase != ending {
		e.phase = ending
		// A process that not even SIGKILL ends still holds the device: its slot
		// stays closed until the control plane starts again and looks anew.
		if f.Code != protocol.CodeProcessStuck {
			s.release(e)
		}
	}
	facts := journal.MergeFacts(last.FactsOn(e.row), journal.EndFacts(f))
	ts, class := now(), run.EndClass(f.EndClass)
	next := s.repetition(e, status, class, ts)
	if next != nil {
		facts = journal.With(facts, "retried_as", next.row.ID)
	}
	var budget int64
	if e.ask != nil {
		budget = e.ask.BudgetMiB
	}
	s.mu.Unlock()
	s.schedule()

	change := last.Change
	change.RunID, change.Attempt, change.RecordedSeq = e.row.ID, attempt, last.FinishedSeq
	change.RequireActive, change.RequireAttempt, change.End = true, attempt, true
	change.Patch = &store.Patch{Status: &status, Error: &f.Error, EndClass: &class, FinishedAt: &ts, Facts: facts, PeakMiB: journal.Peak(f, budget), FingerprintDigest: last.Digest()}
	change.Events = append(change.Events, journal.Terminal(status, f, ts))
	results, err := s.cfg.Store.Apply(ctx, ended(change, next)...)
	if err != nil {
		if !errors.Is(err, store.ErrNotActive) && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		next = nil
	}
	s.mu.Lock()
	begun := e.row
	e.row.Status, e.row.Error, e.row.EndClass, e.row.FinishedAt, e.row.Facts = status, f.Error, class, &ts, facts
	e.row.FingerprintDigest = last.DigestOn(e.row)
	delete(s.runs, e.row.ID)
	row := e.row
	s.mu.Unlock()
	s.cfg.Notify(row.ID)
	if last.Started != nil {
		s.cfg.Started(begun)
	}
	s.cfg.Ended(row)
	if next != nil {
		s.let(next, results[1].Seq)
	}
	s.settleDependents(ctx, row.ID)
	s.schedule()
	return nil
}
