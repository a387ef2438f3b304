// Package scheduler decides which waiting runs start now and says why the
// others wait. Plan is a pure function of a Snapshot: no clock, no lock, no
// I/O, and no dependence on map order. Acting on its answer is the caller's
// part (server/runs).
package scheduler

import (
	"container/heap"
	"slices"

	"cdui/internal/run"
)

// Slot is one device on one machine; Worker is "local" for the control plane.
type Slot struct {
	Worker, Device string
}

// Local is the worker name of the control plane's own machine.
const Local = "local"

// SlotState is how many runs a slot takes and which it holds.
type SlotState struct {
	Cap     int
	Holders []string
}

// Waiting is one run in a FIFO.
type Waiting struct {
	RunID string
	// Seq orders runs by submission, across all FIFOs.
	Seq int64
	// Slots are all taken at once.
	Slots []Slot
}

// Queue is one FIFO in submission order. Runs that are held or wait for other
// runs are set aside by the caller and don't stand in it.
type Queue struct {
	Key     string
	Waiting []Waiting
}

// Snapshot is all that a plan depends on. Plan reads it only.
type Snapshot struct {
	Slots  map[Slot]SlotState
	Queues []Queue
}

// Start is a run that starts now and the slots that it takes.
type Start struct {
	RunID string
	Slots []Slot
}

// Plan is what Decide answers: the runs to start, in order, and for each key
// that still has runs the reason why its first one waits.
type Plan struct {
	Starts  []Start
	Reasons map[string]run.Reason
}

// Decide offers the head of every FIFO, across FIFOs in submission order, one
// run at a time, until no head fits. A set whose turn has come reserves its
// slots, so that steady traffic on one of its cards can't starve it, and since
// reservations are taken in submission order two sets can't block each other.
// Its cost is O((keys + starts) log keys).
func Decide(s Snapshot) Plan {
	p := pass{
		slots:    s.Slots,
		taken:    map[Slot][]string{},
		reserved: map[Slot]int{},
		plan:     Plan{Reasons: map[string]run.Reason{}},
	}
	var heads headHeap
	for i, q := range s.Queues {
		if len(q.Waiting) > 0 {
			heads = append(heads, head{queue: i, run: q.Waiting[0]})
		}
	}
	heap.Init(&heads)
	for len(heads) > 0 {
		h := heads[0]
		reason, ok := p.offer(h.run)
		if !ok {
			p.plan.Reasons[s.Queues[h.queue].Key] = reason
			heap.Pop(&heads)
			continue
		}
		h.next++
		if q := s.Queues[h.queue]; h.next < len(q.Waiting) {
			h.run = q.Waiting[h.next]
			heads[0] = h
			heap.Fix(&heads, 0)
		} else {
			heap.Pop(&heads)
		}
	}
	return p.plan
}

type pass struct {
	slots    map[Slot]SlotState
	taken    map[Slot][]string
	reserved map[Slot]int
	plan     Plan
}

// offer places w or says why it can't be placed.
func (p *pass) offer(w Waiting) (run.Reason, bool) {
	var missing, busy, holders []string
	for _, slot := range w.Slots {
		state, ok := p.slots[slot]
		switch {
		case !ok:
			missing = append(missing, slot.Device)
		case len(state.Holders)+len(p.taken[slot])+p.reserved[slot] >= state.Cap:
			busy = append(busy, slot.Device)
			for _, id := range slices.Concat(state.Holders, p.taken[slot]) {
				if !slices.Contains(holders, id) {
					holders = append(holders, id)
				}
			}
		}
	}
	if len(missing) > 0 {
		return run.NoDevice(missing), false
	}
	if len(busy) > 0 {
		if len(w.Slots) == 1 {
			return run.SlotBusy(busy[0], holders), false
		}
		for _, slot := range w.Slots {
			p.reserved[slot]++
		}
		return run.SetWaiting(busy, holders), false
	}
	for _, slot := range w.Slots {
		p.taken[slot] = append(p.taken[slot], w.RunID)
	}
	p.plan.Starts = append(p.plan.Starts, Start{RunID: w.RunID, Slots: w.Slots})
	return run.Reason{}, true
}

type head struct {
	queue, next int
	run         Waiting
}

type headHeap []head

func (h headHeap) Len() int           { return len(h) }
func (h headHeap) Less(i, j int) bool { return h[i].run.Seq < h[j].run.Seq }
func (h headHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *headHeap) Push(x any)        { *h = append(*h, x.(head)) }
func (h *headHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
