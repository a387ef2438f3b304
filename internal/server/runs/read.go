package runs

import (
	"slices"
	"strings"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/sorting"
)

// View lays what only memory knows over a stored row: where it stands in its
// queue and why, its child, how far a stop has got.
func (s *Service) View(row run.Row) api.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := api.Run{Row: row}
	e := s.runs[row.ID]
	if e != nil {
		v.Row = e.row
		v.Progress = e.progress
	}
	v.Active = v.Status.Active()
	if e == nil {
		return v
	}
	if e.phase == waiting {
		position, reason := s.waitsFor(e)
		v.QueuePosition = position
		if reason != nil {
			v.QueueReason, v.QueueReasonCode, v.QueueReasonParams = reason.Text, reason.Code, reason.Params
		}
		return v
	}
	if e.pid > 0 {
		pid := e.pid
		v.PID = &pid
	}
	if !e.deadline.IsZero() {
		deadline := e.deadline
		v.StoppingDeadline = &deadline
	}
	return v
}

// waitsFor gives a waiting run's 1-based position in its queue and the reason
// for its waiting. Runs that stand aside have a reason and no position. The
// caller holds mu.
func (s *Service) waitsFor(e *entry) (*int, *run.Reason) {
	if e.aside != nil {
		return nil, e.aside
	}
	return s.board.Why(e.row.QueueKey, e.line())
}

// Lines lists every queue key that has runs or is held, by name, and every slot's
// key, each with at most so many of those that wait.
func (s *Service) Lines(most int) []api.LiveKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	running, aside := map[string][]api.QueueEntry{}, map[string][]*entry{}
	var keys []string
	for _, e := range s.runs {
		key := e.row.QueueKey
		switch {
		case e.phase != waiting:
			running[key] = append(running[key], e.queued())
		case e.aside != nil:
			aside[key] = append(aside[key], e)
		}
		keys = append(keys, key)
	}
	out := []api.LiveKey{}
	for name, q := range s.board.Queues(keys) {
		k := api.LiveKey{QueueKey: api.QueueKey{Key: name, Cap: q.Cap, Held: q.Held, Running: running[name], Waiting: []api.QueueEntry{}}}
		k.WaitingTotal = len(q.Waiting) + len(aside[name])
		if k.Running == nil {
			k.Running = []api.QueueEntry{}
		}
		for i, id := range q.Waiting[:min(most, len(q.Waiting))] {
			entry := s.runs[id].queued()
			_, entry.Reason = s.waitsFor(s.runs[id])
			entry.Position = i + 1
			k.Waiting = append(k.Waiting, entry)
		}
		slices.SortFunc(aside[name], func(a, b *entry) int { return int(a.row.Seq - b.row.Seq) })
		for _, e := range aside[name][:min(most, len(aside[name]))] {
			entry := e.queued()
			entry.Reason = e.aside
			k.Waiting = append(k.Waiting, entry)
		}
		sorting.Sort(k.Running, func(a, b api.QueueEntry) int { return strings.Compare(a.RunID, b.RunID) })
		out = append(out, k)
	}
	sorting.Sort(out, func(a, b api.LiveKey) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// queued is how a run is listed in its queue.
func (e *entry) queued() api.QueueEntry {
	return api.QueueEntry{RunID: e.row.ID, Name: e.row.Title(), Status: e.row.Status}
}

// Counts gives how many runs execute and how many wait.
func (s *Service) Counts() (executing, queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.runs {
		if e.phase == waiting {
			queued++
		} else {
			executing++
		}
	}
	return executing, queued
}
