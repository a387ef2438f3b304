package runs

import (
	"slices"
	"strings"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/scheduler"
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
	return s.lines.Why(e.row.QueueKey, e.line())
}

// Queue lists every queue key that has runs, by name, and every slot's key.
func (s *Service) Queue() api.Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := map[string]*api.QueueKey{}
	caps := scheduler.KeyCaps(s.fleet.Snapshot())
	key := func(name string) *api.QueueKey {
		if keys[name] == nil {
			keys[name] = &api.QueueKey{Key: name, Cap: caps(name), Running: []api.QueueEntry{}, Waiting: []api.QueueEntry{}}
		}
		return keys[name]
	}
	for _, slot := range s.fleet.Slots() {
		key(slot.Name())
	}
	aside := map[string][]*entry{}
	for _, e := range s.runs {
		switch {
		case e.phase != waiting:
			k := key(e.row.QueueKey)
			k.Running = append(k.Running, api.QueueEntry{RunID: e.row.ID, Name: e.row.Title(), Status: e.row.Status})
		case e.aside != nil:
			aside[e.row.QueueKey] = append(aside[e.row.QueueKey], e)
		}
	}
	s.lines.Each(func(name string, line []scheduler.Waiting) {
		k := key(name)
		for i, w := range line {
			e := s.runs[w.RunID]
			_, reason := s.waitsFor(e)
			k.Waiting = append(k.Waiting, api.QueueEntry{RunID: w.RunID, Name: e.row.Title(), Status: e.row.Status, Position: i + 1, Reason: reason})
		}
	})
	for name, entries := range aside {
		slices.SortFunc(entries, func(a, b *entry) int { return int(a.row.Seq - b.row.Seq) })
		for _, e := range entries {
			k := key(name)
			k.Waiting = append(k.Waiting, api.QueueEntry{RunID: e.row.ID, Name: e.row.Title(), Status: e.row.Status, Reason: e.aside})
		}
	}
	for name, why := range s.lines.Held() {
		key(name).Held = &why
	}
	out := api.Queue{Keys: make([]api.QueueKey, 0, len(keys))}
	for _, k := range keys {
		slices.SortFunc(k.Running, func(a, b api.QueueEntry) int { return strings.Compare(a.RunID, b.RunID) })
		out.Keys = append(out.Keys, *k)
	}
	slices.SortFunc(out.Keys, func(a, b api.QueueKey) int { return strings.Compare(a.Key, b.Key) })
	return out
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
