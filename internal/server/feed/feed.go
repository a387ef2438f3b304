// Package feed tells readers of the event log that there may be more to read.
// It carries nudges, never payloads: a subscriber keeps its own cursor and
// reads the log, so a slow one holds no memory here and misses nothing.
package feed

import "sync"

// Hub nudges the subscribers of single runs. The zero value is ready.
type Hub struct {
	mu   sync.Mutex
	subs map[string]map[*Subscription]struct{}
}

// Subscription is one reader's interest in one run.
type Subscription struct {
	hub   *Hub
	runID string
	c     chan struct{}
}

// Subscribe starts to nudge for a run. Subscribe before reading the log, so
// that nothing falls between.
func (h *Hub) Subscribe(runID string) *Subscription {
	s := &Subscription{hub: h, runID: runID, c: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[string]map[*Subscription]struct{}{}
	}
	if h.subs[runID] == nil {
		h.subs[runID] = map[*Subscription]struct{}{}
	}
	h.subs[runID][s] = struct{}{}
	return s
}

// C receives after changes; nudges that were not taken fall together into one.
func (s *Subscription) C() <-chan struct{} { return s.c }

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs[s.runID], s)
	if len(s.hub.subs[s.runID]) == 0 {
		delete(s.hub.subs, s.runID)
	}
}

// Notify nudges everybody who follows runID. It never blocks.
func (h *Hub) Notify(runID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs[runID] {
		select {
		case s.c <- struct{}{}:
		default:
		}
	}
}
