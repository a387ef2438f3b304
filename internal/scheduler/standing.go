package scheduler

import (
	"slices"
	"strings"

	"cdui/internal/device"
)

// Standing is how a slot stands: what its card takes and holds.
type Standing struct {
	// Limit is how many runs the card takes, LimitedBy the machine that says so.
	Limit     int
	LimitedBy string
	// Holders are the runs on the card, through whichever slot.
	Holders []Holder
	// SameCard names the other machines that offer the card.
	SameCard []string
	// Shared cards admit by memory; then PromisedMiB is what is promised, the
	// contexts counted in, and RoomMiB what could still be.
	Shared               bool
	PromisedMiB, RoomMiB int64
	// Closed is why the card takes no runs.
	Closed Closed
}

// Standings tells how the slots of a machine stand, by device.
func Standings(s Snapshot, machine string) map[string]Standing {
	p := newPass(s)
	out := map[string]Standing{}
	for slot := range s.Slots {
		if slot.Worker != machine {
			continue
		}
		at := p.place(slot)
		card := &at.card
		st := Standing{
			Limit: at.limit, LimitedBy: at.by.Worker, Holders: card.Holders, SameCard: []string{},
			Shared: at.shared, Closed: at.closed,
		}
		for _, other := range card.Slots {
			if other.Worker != machine && !slices.Contains(st.SameCard, other.Worker) {
				st.SameCard = append(st.SameCard, other.Worker)
			}
		}
		if st.Shared {
			st.RoomMiB = max(0, p.unpromised(card, nil))
			for _, h := range card.Holders {
				if h.BudgetMiB > 0 {
					st.PromisedMiB += h.BudgetMiB + p.context
				}
			}
		}
		out[slot.Device] = st
	}
	return out
}

// KeyCaps tells how many runs of a queue key may execute at once.
func KeyCaps(s Snapshot) func(key string) int {
	p := newPass(s)
	return p.capOf
}

func (p *pass) capOf(key string) int {
	worker, devices, named := strings.Cut(key, "/")
	if !named {
		worker, devices = Local, key
	}
	if worker != Any {
		return p.keyCap(worker, devices)
	}
	total := p.keyCap(Local, devices)
	for _, w := range p.workers {
		if w.Connected {
			total += p.keyCap(w.Name, devices)
		}
	}
	return total
}

// keyCap is what one machine takes: the least of a set, or all devices of a
// kind together.
func (p *pass) keyCap(worker, devices string) int {
	if !strings.Contains(devices, ":") && devices != device.CPU {
		total := 0
		for slot := range p.Slots {
			if slot.Worker == worker && device.Kind(slot.Device) == devices {
				total += p.place(slot).limit
			}
		}
		return total
	}
	least := 0
	for i, d := range strings.Split(devices, ",") {
		slot := Slot{Worker: worker, Device: d}
		limit := 0
		if _, ok := p.Slots[slot]; ok {
			limit = p.place(slot).limit
		}
		if i == 0 || limit < least {
			least = limit
		}
	}
	return least
}
