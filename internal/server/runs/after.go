package runs

import (
	"context"
	"slices"

	"cdui/internal/run"
)

// awaits tells whether e still waits for other active runs, and notes it as
// their dependent. Runs that have ended are settled by settleAfter, which may
// ask the store. The caller holds mu.
func (s *Service) awaits(e *entry, after []run.After) bool {
	for _, a := range after {
		other := s.runs[a.Run]
		if other == nil || other.phase == ending && other.row.Status.Terminal() {
			continue
		}
		if s.dependents[a.Run] == nil {
			s.dependents[a.Run] = map[string]bool{}
		}
		s.dependents[a.Run][e.row.ID] = true
		reason := run.AfterWaits(a.Run, a.Condition)
		e.aside = &reason
		return true
	}
	return false
}

// settleAfter looks once more at a run that waits for others: it joins its
// FIFO when all conditions are met, or says that one never will be.
func (s *Service) settleAfter(ctx context.Context, id string) {
	s.mu.Lock()
	e := s.runs[id]
	if e == nil || e.phase != waiting || e.afterMet || len(e.row.Options.After) == 0 {
		s.mu.Unlock()
		return
	}
	after := slices.Clone(e.row.Options.After)
	s.mu.Unlock()

	var never *run.Reason
	for i, a := range after {
		// A run that is repeated has not ended before its last repetition has.
		a.Run = s.tail(ctx, a.Run)
		after[i] = a
		status := run.Status("removed")
		if row, err := s.cfg.Store.Run(ctx, a.Run); err == nil {
			status = row.Status
		}
		if !status.Active() && !a.Condition.Met(status) {
			reason := run.AfterNever(a.Run, a.Condition, status)
			never = &reason
			break
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if e.phase != waiting || s.runs[id] != e || e.row.Options.Hold || len(e.row.Options.After) == 0 {
		return
	}
	if never != nil {
		e.aside = never
		return
	}
	if !s.awaits(e, after) {
		e.aside, e.afterMet = nil, true
		s.join(e)
	}
}

// settleDependents wakes the runs that waited for id, which has ended.
func (s *Service) settleDependents(ctx context.Context, id string) {
	s.mu.Lock()
	waitingFor := s.dependents[id]
	delete(s.dependents, id)
	s.mu.Unlock()
	for dependent := range waitingFor {
		s.settleAfter(ctx, dependent)
		s.cfg.Notify(dependent)
	}
}
