package runs

import (
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/runs/fifo"
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
		s.join(e)
	}
}

// admit lets a new run in: an interactive one starts at once, others queue. The
// caller holds mu.
func (s *Service) admit(e *entry) {
	if !e.interactive() {
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

// join puts a run that nothing holds back into its FIFO. The caller holds mu.
func (s *Service) join(e *entry) {
	q := s.queues[e.row.QueueKey]
	if q == nil {
		q = &fifo.Queue{}
		s.queues[e.row.QueueKey] = q
	}
	q.Insert(e.line())
}

// line is how a run stands in its FIFO.
func (e *entry) line() scheduler.Waiting {
	return scheduler.Waiting{RunID: e.row.ID, Seq: e.row.Seq, Priority: e.row.Options.Priority, Ask: e.ask}
}

// dequeue takes a run out of its FIFO. The caller holds mu.
func (s *Service) dequeue(e *entry) {
	q := s.queues[e.row.QueueKey]
	if q == nil {
		return
	}
	q.Remove(e.line())
	if q.Len() == 0 {
		delete(s.queues, e.row.QueueKey)
		delete(s.reasons, e.row.QueueKey)
	}
}

// reconsider puts the runs that were set aside back in line. The caller holds
// mu and plans then.
func (s *Service) reconsider() {
	for _, q := range s.queues {
		q.Rejoin()
	}
}

func (s *Service) release(e *entry) { s.fleet.Release(e.row.ID, e.slots) }

// snapshot is what the scheduler needs to know. The caller holds mu.
func (s *Service) snapshot() scheduler.Snapshot {
	snapshot := s.fleet.Snapshot()
	snapshot.Queues = make([]scheduler.Queue, 0, len(s.queues))
	for key, q := range s.queues {
		snapshot.Queues = append(snapshot.Queues, scheduler.Queue{Key: key, Waiting: q.Waiting})
	}
	return snapshot
}

// schedule plans and starts what may start.
func (s *Service) schedule() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.queues) == 0 {
		return
	}
	plan := scheduler.Decide(s.snapshot())
	s.reasons = plan.Reasons
	for id, why := range plan.Aside {
		e := s.runs[id]
		s.queues[e.row.QueueKey].SetAside(e.line(), why)
	}
	for _, start := range plan.Starts {
		e := s.runs[start.RunID]
		s.dequeue(e)
		e.settle(start.Slots)
		s.fleet.Take(e.row.ID, e.slots, e.ask.BudgetMiB)
		e.phase = placing
		s.wg.Go(func() { s.place(e) })
	}
}
