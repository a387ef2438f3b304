package scheduler

import (
	"slices"
	"strings"

	"cdui/internal/device"
	"cdui/internal/run"
)

// refusal is why a place is not free for a run.
type refusal struct {
	kind refusalKind
	// slots are those that refuse, holders whoever is in the way.
	slots   []Slot
	holders []string
	// keeper is the set that the place is kept for, if nobody else is in the way.
	keeper string
	// asked and room are memory in MiB, for short.
	asked, room int64
	closed      Closed
}

type refusalKind int

// From the most hopeful to the hopeless.
const (
	free refusalKind = iota
	busy
	short  // of memory, while others hold some
	filled // the run has no budget and needs the card to itself
	inUse  // by people outside
	closed
	never // the card is too small
)

// maxNamed is how many runs a reason names.
const maxNamed = 16

// refuse tells why a set of slots is not free for w; its kind is free if it is.
// Of several slots the most hopeless one counts.
func (p *pass) refuse(w *Waiting, set []Slot) refusal {
	var worst refusal
	for _, slot := range set {
		r := p.refuseOne(w, slot)
		switch {
		case r.kind == free:
		case r.kind > worst.kind:
			worst = r
		case r.kind == worst.kind:
			worst.slots = append(worst.slots, r.slots...)
			worst.name(r.holders...)
		}
	}
	return worst
}

func (r *refusal) name(holders ...string) {
	for _, id := range holders {
		if len(r.holders) < maxNamed && !slices.Contains(r.holders, id) {
			r.holders = append(r.holders, id)
		}
	}
}

// look tells how a slot stands for a run: its kind is free if the run may have
// it. Who is in the way is not gathered here, since most looks find a way on.
func (p *pass) look(w *Waiting, at *place) refusal {
	need := int64(0)
	if w.Ask.BudgetMiB > 0 {
		need = w.Ask.BudgetMiB + p.context
	}
	n := len(at.card.Holders) + len(at.use.taken)
	switch total := at.card.Memory.TotalMiB; {
	case total > 0 && need > total:
		return refusal{kind: never, asked: need, room: total}
	case at.closed.Code == run.ReasonCardInUse:
		return refusal{kind: inUse, closed: at.closed}
	case at.closed.Code != "":
		return refusal{kind: closed, closed: at.closed}
	case !at.shared && n+at.use.kept < at.limit, at.shared && need == 0 && n == 0 && at.use.kept == 0:
		return refusal{}
	case !at.shared:
		return refusal{kind: busy}
	case need == 0:
		return refusal{kind: filled}
	}
	room := p.unpromised(&at.card, at.use.taken) - at.use.keptMiB
	if at.use.whole {
		room = 0
	}
	if need <= room {
		return refusal{}
	}
	return refusal{kind: short, asked: need, room: max(room, 0)}
}

// place is a slot as a pass sees it. But for what is in use of its card, none of
// it changes while the pass goes on.
type place struct {
	card   Card
	closed Closed
	shared bool
	// limit is how many runs the card takes, by the slot that says so.
	limit int
	by    Slot
	use   *use
}

// place looks a slot up, once in a pass.
func (p *pass) place(slot Slot) *place {
	if at := p.seen[slot]; at != nil {
		return at
	}
	if len(p.slab) == 0 {
		p.slab = make([]place, 32)
	}
	at := &p.slab[0]
	p.slab = p.slab[1:]
	p.seen[slot] = at
	id := p.CardOf(slot)
	var known bool
	if at.card, known = p.Cards[id]; !known {
		at.card.Slots = []Slot{slot}
	}
	at.closed, at.shared = p.closed(&at.card), p.sharedCard(&at.card)
	at.limit, at.by = p.limit(&at.card, slot)
	if at.use = p.use[id]; at.use == nil {
		at.use = &use{}
		p.use[id] = at.use
	}
	return at
}

// free tells whether w may have all of a set of slots.
func (p *pass) free(w *Waiting, set []Slot) bool {
	for _, slot := range set {
		if p.look(w, p.place(slot)).kind != free {
			return false
		}
	}
	return true
}

// refuseOne tells why a slot is not free, and who is in the way.
func (p *pass) refuseOne(w *Waiting, slot Slot) refusal {
	at := p.place(slot)
	r := p.look(w, at)
	if r.kind == free {
		return r
	}
	r.slots = []Slot{slot}
	if r.kind == busy || r.kind == filled || r.kind == short {
		r.keeper = at.use.keeper
		r.holders = make([]string, 0, min(maxNamed, len(at.card.Holders)+len(at.use.taken)))
		for _, list := range [][]Holder{at.card.Holders, at.use.taken} {
			for _, h := range list {
				r.name(h.RunID)
			}
		}
	}
	return r
}

// unpromised is the memory that a shared card can still promise: what is
// neither promised nor, by the driver's count, in use beyond what was promised.
// A run without a budget leaves none.
func (p *pass) unpromised(card *Card, more []Holder) int64 {
	total, unused := card.Memory.TotalMiB, card.Memory.FreeMiB
	for _, holders := range [][]Holder{card.Holders, more} {
		for _, h := range holders {
			if h.BudgetMiB == 0 {
				return 0
			}
			promised := h.BudgetMiB + p.context
			total -= promised
			unused -= max(0, promised-h.MeasuredMiB)
		}
	}
	if !card.Memory.FreeKnown {
		return total
	}
	return min(total, unused)
}

// closed tells why a card takes nothing. Cordons hold whoever put them up; what
// a machine says of a card's state counts while it is connected.
func (p *pass) closed(card *Card) Closed {
	for _, slot := range card.Slots {
		if c := p.Slots[slot].Closed; c.Code == run.ReasonCordoned || c.Code != "" && p.online(slot.Worker) {
			return c
		}
	}
	return Closed{}
}

func (p *pass) online(worker string) bool {
	m := p.machine(worker)
	return m != nil && m.Connected
}

// sharedCard tells whether runs are admitted by memory: when every worker that
// offers the card now shares it, and its size is known.
func (p *pass) sharedCard(card *Card) bool {
	shared := false
	for _, slot := range card.Slots {
		switch {
		case slot.Worker == Local || len(card.Slots) > 1 && !p.online(slot.Worker):
		case !p.Slots[slot].Shared:
			return false
		default:
			shared = true
		}
	}
	return shared && card.Memory.TotalMiB > 0
}

// limit is how many runs a card takes, and which slot says so: the least of
// those whose machine is connected or that hold a run.
func (p *pass) limit(card *Card, slot Slot) (int, Slot) {
	if len(card.Slots) < 2 {
		return p.Slots[slot].Cap, slot
	}
	limit, by := 0, Slot{}
	for _, other := range card.Slots {
		holds := slices.ContainsFunc(card.Holders, func(h Holder) bool { return h.Slot == other })
		if other != slot && !holds && !p.online(other.Worker) {
			continue
		}
		if n := p.Slots[other].Cap; by == (Slot{}) || n < limit {
			limit, by = n, other
		}
	}
	return limit, by
}

// sortDevices puts devices into the order in which they are taken.
func sortDevices(devices []string) {
	slices.SortFunc(devices, func(a, b string) int {
		if device.Kind(a) != device.Kind(b) {
			return strings.Compare(device.Kind(a), device.Kind(b))
		}
		return device.Index(a) - device.Index(b)
	})
}
