// Package scheduler decides which waiting runs start now and says why the
// others wait. Decide is a pure function of a Snapshot: no clock, no lock, no
// I/O, and no dependence on map order. Acting on its answer is the caller's
// part (server/runs).
package scheduler

import (
	"container/heap"
	"strings"

	"cdui/internal/run"
)

// Decide offers the head of every FIFO, across FIFOs in submission order, one
// run at a time, until no head fits. A set whose turn has come reserves its
// slots, so that steady traffic on one of its cards can't starve it, and since
// reservations are taken in submission order two sets can't block each other.
// A head that nothing could take which is there now is set aside.
//
// Inside one pass slots only fill up. So what a wish was refused once it is
// refused again, and each place is looked at once for each different wish: the
// cost grows with the number of keys, places and starts, not with that of runs.
func Decide(s Snapshot) Plan {
	p := newPass(s)
	var heads headHeap
	for i, q := range s.Queues {
		switch {
		case len(q.Waiting) == 0:
		case q.Held != nil:
			p.plan.Reasons[q.Key] = Why{fixed: *q.Held}
		default:
			heads = append(heads, head{queue: i, run: q.Waiting[0]})
		}
	}
	heap.Init(&heads)
	for len(heads) > 0 {
		h := heads[0]
		switch why, answer := p.offer(&h.run); answer {
		case blocked:
			p.plan.Reasons[s.Queues[h.queue].Key] = why
			heap.Pop(&heads)
			continue
		case setAside:
			p.plan.Aside[h.run.RunID] = why.Reason()
		case started:
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

// Explain answers for a run that isn't in line yet: the slots that it would
// take now, else nil and the reason why it would wait.
func Explain(s Snapshot, key string, w Waiting) ([]Slot, run.Reason) {
	queues := make([]Queue, 0, len(s.Queues)+1)
	mine := Queue{Key: key}
	for _, q := range s.Queues {
		if q.Key != key {
			queues = append(queues, q)
			continue
		}
		mine.Held = q.Held
		for _, other := range q.Waiting {
			if CompareWaiting(other, w) < 0 {
				mine.Waiting = append(mine.Waiting, other)
			}
		}
	}
	mine.Waiting = append(mine.Waiting, w)
	s.Queues = append(queues, mine)
	plan := Decide(s)
	for _, start := range plan.Starts {
		if start.RunID == w.RunID {
			return start.Slots, run.Reason{}
		}
	}
	if reason, aside := plan.Aside[w.RunID]; aside {
		return nil, reason
	}
	if n := len(mine.Waiting); n > 1 && plan.Reasons[key].Reason().Code != run.ReasonHeld {
		for _, ahead := range mine.Waiting[:n-1] {
			if !plan.settles(ahead.RunID) {
				return nil, run.Behind(mine.Waiting[n-2].RunID, n)
			}
		}
	}
	return nil, plan.Reasons[key].Reason()
}

// settles tells whether the plan starts a run or sets it aside.
func (p Plan) settles(id string) bool {
	for _, start := range p.Starts {
		if start.RunID == id {
			return true
		}
	}
	_, aside := p.Aside[id]
	return aside
}

type answer int

const (
	started answer = iota
	blocked
	setAside
)

// pass is one call of Decide.
type pass struct {
	Snapshot
	workers []Worker
	local   Worker
	context int64
	// use is what this pass has given away of each card that it looked at, seen
	// the slots.
	use    map[string]*use
	seen   map[Slot]*place
	wishes map[wish]*places
	// slab and shelf are what the two point into, made in one piece each.
	slab  []place
	shelf []places
	plan  Plan
}

// use is what a pass has given away of one card.
type use struct {
	taken []Holder
	// kept is what sets ahead keep: a number of places, memory, or the card as
	// a whole.
	kept    int
	keptMiB int64
	whole   bool
	keeper  string
}

// wish is what distinguishes the asks of runs.
type wish struct {
	worker, devices, kind string
	program               bool
	budget                int64
	raised                bool
	storage               string
}

// places are the sets of slots that a wish could have, as one list of width
// slots each; those before from have been refused in this pass.
type places struct {
	slots []Slot
	width int
	from  int
	// why and answer are given when there are none, or the last was refused.
	why    Why
	answer answer
	over   bool

	verdict verdict
}

func newPass(s Snapshot) *pass {
	p := &pass{
		Snapshot: s, workers: byName(s.Workers), local: Worker{Name: Local, Connected: true, Devices: []string{}},
		context: s.ContextMiB, use: make(map[string]*use, len(s.Slots)), seen: make(map[Slot]*place, len(s.Slots)), wishes: make(map[wish]*places, len(s.Queues)),
		plan: Plan{Reasons: make(map[string]Why, len(s.Queues)), Aside: map[string]run.Reason{}},
	}
	p.slab, p.shelf = make([]place, len(s.Slots)), make([]places, len(s.Queues))
	if p.context == 0 {
		p.context = ContextMiB
	}
	for slot := range s.Slots {
		if slot.Worker == Local {
			p.local.Devices = append(p.local.Devices, slot.Device)
		}
	}
	sortDevices(p.local.Devices)
	return p
}

// offer places w, or says why it waits.
func (p *pass) offer(w *Waiting) (Why, answer) {
	pl := p.places(w)
	if pl.over {
		return pl.why, pl.answer
	}
	for ; pl.from < len(pl.slots); pl.from += pl.width {
		if set := pl.slots[pl.from : pl.from+pl.width]; p.free(w, set) {
			p.take(w, set)
			return Why{}, started
		}
	}
	p.judge(w, pl)
	pl.why, pl.answer, pl.over = Why{verdict: &pl.verdict}, pl.verdict.answer(), true
	return pl.why, pl.answer
}

// places gives where w could go.
func (p *pass) places(w *Waiting) *places {
	a := w.Ask
	key := wish{a.Worker, strings.Join(a.Devices, ","), a.Kind, a.Program, a.BudgetMiB, a.Raised, a.Storage}
	if pl := p.wishes[key]; pl != nil && !a.Pool {
		return pl
	}
	if len(p.shelf) == 0 {
		p.shelf = make([]places, 32)
	}
	pl := &p.shelf[0]
	p.shelf = p.shelf[1:]
	machines, none := p.sieve(w)
	if len(machines) == 0 {
		pl.why, pl.answer, pl.over = Why{fixed: none}, blocked, true
		if a.Worker == Any {
			pl.answer = setAside
		}
	}
	oneShot := false
	for _, m := range machines {
		oneShot = oneShot || m.OneShot != nil
		slots, width := a.choices(m.Name, m.Devices)
		pl.slots, pl.width = append(pl.slots, slots...), width
	}
	if !oneShot && !a.Pool {
		p.wishes[key] = pl
	}
	return pl
}

// judge finds out what keeps a run that has no place from the likeliest one.
func (p *pass) judge(w *Waiting, pl *places) {
	v := &pl.verdict
	v.ask = w.Ask
	for i := 0; i < len(pl.slots); i += pl.width {
		v.add(p, p.refuse(w, pl.slots[i:i+pl.width]))
	}
	if v.least.kind < inUse && pl.width > 1 && w.Ask.Worker != Any {
		p.keep(w, pl.slots[:pl.width])
	}
}

// take gives w its slots.
func (p *pass) take(w *Waiting, slots []Slot) {
	slots = append([]Slot(nil), slots...)
	for _, slot := range slots {
		u := p.place(slot).use
		u.taken = append(u.taken, Holder{RunID: w.RunID, Slot: slot, BudgetMiB: w.Ask.BudgetMiB})
	}
	p.plan.Starts = append(p.plan.Starts, Start{RunID: w.RunID, Slots: slots})
}

// keep reserves a set's slots against runs that were submitted later.
func (p *pass) keep(w *Waiting, slots []Slot) {
	for _, slot := range slots {
		u := p.place(slot).use
		u.kept++
		u.keeper = w.RunID
		if w.Ask.BudgetMiB == 0 {
			u.whole = true
		} else {
			u.keptMiB += w.Ask.BudgetMiB + p.context
		}
	}
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
