package runs

import (
	"cdui/internal/run"
	"cdui/internal/scheduler"
)

// enqueue puts a waiting run into its FIFO, or aside when it is held or waits
// for other runs; for the latter the caller goes on with settleAfter. The
// caller holds mu.
func (s *Service) enqueue(e *entry) {
	e.phase, e.aside = waiting, nil
	o := e.row.Options
	switch {
	case o.Hold:
		reason := run.Held()
		e.aside = &reason
	case len(o.After) > 0 && !e.afterMet:
		reason := run.AfterWaits(o.After[0].Run, o.After[0].Condition)
		e.aside = &reason
	default:
		if reason, until, pauses := e.row.Pausing(now()); pauses {
			e.aside = &reason
			s.wake(e, until)
			return
		}
		s.join(e)
	}
}

// admit lets a new run in: one that is interactive or has its place starts at
// once, others queue. The caller holds mu.
func (s *Service) admit(e *entry) {
	if !e.interactive() && e.slots == nil {
		s.enqueue(e)
		return
	}
	e.phase = placing
	s.wg.Go(func() { s.place(e) })
}

// sessionFree tells whether the interactive lane takes another run. The caller
// holds mu.
func (s *Service) sessionFree() bool {
	n := 0
	for _, e := range s.runs {
		if e.interactive() {
			n++
		}
	}
	return n < s.cfg.Interactive
}

// join puts a run that nothing holds back into its line. The caller holds mu.
func (s *Service) join(e *entry) { s.board.Join(e.row.QueueKey, e.line()) }

// dequeue takes a run out of its line. The caller holds mu.
func (s *Service) dequeue(e *entry) { s.board.Leave(e.row.QueueKey, e.line()) }

// line is how a run stands in its line.
func (e *entry) line() scheduler.Waiting {
	return scheduler.Waiting{RunID: e.row.ID, Seq: e.row.Seq, Priority: e.row.Options.Priority, Ask: e.ask}
}

func (s *Service) release(e *entry) { s.board.Release(e.row.ID, e.slots) }

// schedule plans and starts what may start.
func (s *Service) schedule() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	starts := s.board.Plan(func(id string) (string, scheduler.Waiting) {
		e := s.runs[id]
		return e.row.QueueKey, e.line()
	})
	for _, start := range starts {
		e := s.runs[start.RunID]
		e.settle(start.Slots)
		e.phase = placing
		s.wg.Go(func() { s.place(e) })
	}
}
