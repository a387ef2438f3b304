package runs

import (
	"context"
	"time"

	"cdui/internal/run"
	"cdui/internal/store"
	"cdui/internal/submission"
)

// repetition makes the run that repeats one which ends now, nil if none does.
// It is stored together with the end. A run that somebody asked to stop is not
// repeated, nor one whose secrets are gone. The caller holds mu.
func (s *Service) repetition(e *entry, status run.Status, class run.EndClass, ts time.Time) *entry {
	if e.cancel != nil || e.interactive() || e.hadSecrets() && e.vault.Empty() {
		return nil
	}
	row, again := submission.Repeat(e.row, status, class, ts)
	if !again {
		return nil
	}
	row.ID, row.Devices = submission.NewID(), append([]string{}, e.ask.Devices...)
	return &entry{row: row, program: e.program, vault: e.vault, ask: submission.AskOf(row.Options, row.Devices, e.program)}
}

// let admits a repetition that is stored.
func (s *Service) let(next *entry, seq int64) {
	s.mu.Lock()
	next.row.Seq = seq
	s.runs[next.row.ID] = next
	s.admit(next)
	s.mu.Unlock()
	s.log.Info("run is repeated", "run_id", next.row.RetryOf, "as", next.row.ID, "number", next.row.Options.Retry.Number)
	s.cfg.Notify(next.row.ID)
}

// wake lets a run queue when its pause is over. The caller holds mu.
func (s *Service) wake(e *entry, at time.Time) {
	if s.closed {
		return
	}
	s.wg.Go(func() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		if s.runs[e.row.ID] == e && e.phase == waiting && e.aside != nil && e.aside.Code == run.ReasonBackoff {
			s.enqueue(e)
		}
		s.mu.Unlock()
		s.cfg.Notify(e.row.ID)
		s.schedule()
	})
}

// tail follows a run's repetitions to the last one.
func (s *Service) tail(ctx context.Context, id string) string {
	for {
		s.mu.Lock()
		_, active := s.runs[id]
		s.mu.Unlock()
		if active {
			return id
		}
		next, err := s.cfg.Store.RetriedAs(ctx, id)
		if err != nil || next == "" {
			return id
		}
		id = next
	}
}

// lastPeaks is how many earlier runs an estimate is made of.
const lastPeaks = 5

// estimate gives a run that asks for it a budget after what earlier ones took.
// Without any it has none, and wants a shared card to itself.
func (s *Service) estimate(ctx context.Context, row *run.Row) error {
	t := row.Options.Target
	if t == nil || t.MemorySource != run.MemoryEstimate || t.MemoryGiB > 0 {
		return nil
	}
	peaks, err := s.cfg.Store.Peaks(ctx, row.Likeness, lastPeaks)
	if err != nil {
		return err
	}
	estimated := *t
	estimated.MemoryGiB, estimated.Raised = run.Estimate(peaks)
	row.Options.Target = &estimated
	return nil
}

// ended is the change that closes a run, and the one that inserts what repeats
// it.
func ended(last store.Change, next *entry) []store.Change {
	if next == nil {
		return []store.Change{last}
	}
	return []store.Change{last, {Insert: &next.row}}
}
