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

// Name is what people are shown: the device, behind its worker's name when it
// is not the server's.
func (s Slot) Name() string {
	if s.Worker == Local {
		return s.Device
	}
	return s.Worker + "/" + s.Device
}

// Local is the worker name of the control plane's own machine.
const Local = "local"

// SlotState is how many runs a slot takes and which it holds.
type SlotState struct {
	Cap     int
	Holders []string
	// Closed says why the slot takes no further run; empty is open.
	Closed string
}

// Waiting is one run in a FIFO.
type Waiting struct {
	RunID string
	// Seq orders runs by submission, across all FIFOs.
	Seq int64
	// Slots are all taken at once.
	Slots []Slot
	// Ask, when it is set, stands for Slots: they are chosen at the start.
	Ask *Ask
}

// Queue is one FIFO in submission order. Runs that are held or wait for other
// runs are set aside by the caller and don't stand in it.
type Queue struct {
	Key     string
	Waiting []Waiting
}

// Snapshot is all that a plan depends on. Plan reads it only.
type Snapshot struct {
	Slots   map[Slot]SlotState
	Workers []Worker
	Queues  []Queue
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
		workers:  byName(s.Workers),
		taken:    map[Slot][]string{},
		reserved: map[Slot]int{},
		plan:     Plan{Reasons: map[string]run.Reason{}},
	}
	for slot := range s.Slots {
		if slot.Worker == Local {
			p.local = append(p.local, slot.Device)
		}
	}
	slices.Sort(p.local)
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
	workers  []Worker
	local    []string
	taken    map[Slot][]string
	reserved map[Slot]int
	plan     Plan
}

// offer places w or says why it can't be placed.
func (p *pass) offer(w Waiting) (run.Reason, bool) {
	switch {
	case w.Ask == nil:
		return p.offerSlots(w)
	case w.Ask.Worker == Any:
		return p.offerAny(w)
	}
	return p.offerNamed(w)
}

// offerSlots offers w the slots that it names.
func (p *pass) offerSlots(w Waiting) (run.Reason, bool) {
	var missing, busy, holders []string
	for _, slot := range w.Slots {
		if _, ok := p.slots[slot]; !ok {
			missing = append(missing, slot.Device)
		}
	}
	if len(missing) > 0 {
		return run.NoDevice(missing), false
	}
	full := p.full(w.Slots)
	if slot, ok := p.closed(full); ok {
		return run.CardUnhealthy(slot.Name(), p.slots[slot].Closed), false
	}
	for _, slot := range full {
		busy = append(busy, slot.Name())
		holders = p.addHolders(holders, slot)
	}
	if len(busy) > 0 {
		if len(w.Slots) == 1 {
			return run.SlotBusy(busy[0], holders), false
		}
		p.reserve(w.Slots)
		return run.SetWaiting(busy, holders), false
	}
	p.take(w, w.Slots)
	return run.Reason{}, true
}

// full lists those of slots that have no room.
func (p *pass) full(slots []Slot) []Slot {
	var out []Slot
	for _, slot := range slots {
		state := p.slots[slot]
		if state.Closed != "" || len(state.Holders)+len(p.taken[slot])+p.reserved[slot] >= state.Cap {
			out = append(out, slot)
		}
	}
	return out
}

// closed gives the first of slots that is closed.
func (p *pass) closed(slots []Slot) (Slot, bool) {
	i := slices.IndexFunc(slots, func(s Slot) bool { return p.slots[s].Closed != "" })
	if i < 0 {
		return Slot{}, false
	}
	return slots[i], true
}

func (p *pass) addHolders(holders []string, slot Slot) []string {
	for _, id := range slices.Concat(p.slots[slot].Holders, p.taken[slot]) {
		if !slices.Contains(holders, id) {
			holders = append(holders, id)
		}
	}
	return holders
}

// reserve keeps a set's slots from runs that were submitted later.
func (p *pass) reserve(slots []Slot) {
	for _, slot := range slots {
		p.reserved[slot]++
	}
}

func (p *pass) take(w Waiting, slots []Slot) {
	for _, slot := range slots {
		p.taken[slot] = append(p.taken[slot], w.RunID)
	}
	p.plan.Starts = append(p.plan.Starts, Start{RunID: w.RunID, Slots: slots})
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
