// Package feed tells readers of the event log, and of the lists of runs, that
// there may be more to read. It carries nudges and ids, never payloads: a
// subscriber keeps its own cursor and reads the store, so a slow one holds no
// memory here and misses nothing.
package feed

import (
	"container/list"
	"slices"
	"sync"
)

// Remembered is how many runs' last changes a hub knows. A reader that is
// further behind starts over.
const Remembered = 4096

// Hub nudges the subscribers of single runs and those of all. The zero value is
// ready.
type Hub struct {
	mu   sync.Mutex
	subs map[string]map[*Subscription]struct{}

	// changes holds the runs in the order of their last change, each once.
	changes list.List
	where   map[string]*list.Element
	// now counts changes; what happened up to forgotten is not known any more.
	now, forgotten int64
}

type change struct {
	runID string
	at    int64
}

// Subscription is one reader's interest in one run, or in all.
type Subscription struct {
	hub   *Hub
	runID string
	c     chan struct{}
}

// all stands for every run among the subscriptions; no run has an empty id.
const all = ""

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

// SubscribeAll starts to nudge for every run.
func (h *Hub) SubscribeAll() *Subscription { return h.Subscribe(all) }

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

// Notify nudges everybody who follows runID, or all. It never blocks.
func (h *Hub) Notify(runID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(runID)
	for _, id := range []string{runID, all} {
		for s := range h.subs[id] {
			select {
			case s.c <- struct{}{}:
			default:
			}
		}
	}
}

func (h *Hub) note(runID string) {
	if h.where == nil {
		h.where = map[string]*list.Element{}
	}
	h.now++
	if e := h.where[runID]; e != nil {
		e.Value = change{runID, h.now}
		h.changes.MoveToBack(e)
		return
	}
	h.where[runID] = h.changes.PushBack(change{runID, h.now})
	if h.changes.Len() > Remembered {
		oldest := h.changes.Remove(h.changes.Front()).(change) //nolint:forcetypeassert // only changes go in
		delete(h.where, oldest.runID)
		h.forgotten = oldest.at
	}
}

// Now is the cursor of the last change.
func (h *Hub) Now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// Since lists the runs that changed after cursor, in the order of their last
// change, and the cursor that it goes up to. known is false when that is not
// known any more: then everything may have changed.
func (h *Hub) Since(cursor int64) (ids []string, now int64, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cursor < h.forgotten || cursor > h.now {
		return nil, h.now, false
	}
	for e := h.changes.Back(); e != nil; e = e.Prev() {
		c := e.Value.(change) //nolint:forcetypeassert // only changes go in
		if c.at <= cursor {
			break
		}
		ids = append(ids, c.runID)
	}
	slices.Reverse(ids)
	return ids, h.now, true
}
