package scheduler

import (
	"slices"

	"cdui/internal/run"
)

// Why is why the first run of a key waits. The sentence is made when somebody
// reads it, which of most passes nobody does.
type Why struct {
	fixed   run.Reason
	verdict *verdict
}

// Reason gives the reason, zero for none.
func (w Why) Reason() run.Reason {
	if w.verdict != nil {
		return w.verdict.reason()
	}
	return w.fixed
}

// verdict gathers why none of a run's places is free.
type verdict struct {
	ask   *Ask
	least refusal
	// sets counts the places, hopeless those that are too small for the run.
	sets, hopeless int
	devices        []string
}

func (v *verdict) add(p *pass, r refusal) {
	v.sets++
	if r.kind == never {
		v.hopeless++
	}
	roomy := (r.kind == short || r.kind == never) && r.room > v.least.room
	better := v.sets == 1 || r.kind < v.least.kind || r.kind == v.least.kind && roomy
	switch {
	case better && v.sets > 1 && r.kind == v.least.kind:
		r.holders = slices.Clip(r.holders)
		r.name(v.least.holders...)
		v.least = r
	case better:
		v.least, v.devices = r, nil
	case r.kind == v.least.kind:
		v.least.name(r.holders...)
	}
	if r.kind != v.least.kind {
		return
	}
	for _, slot := range r.slots {
		if name := slot.Name(); len(v.devices) < maxNamed && !slices.Contains(v.devices, name) {
			v.devices = append(v.devices, name)
		}
	}
}

// hopeful tells whether time alone frees a place.
func (v *verdict) hopeful() bool { return v.least.kind < closed }

// answer sets a run aside where those behind it may have a place all the same.
func (v *verdict) answer() answer {
	if v.hopeful() || v.ask.Worker != Any && v.hopeless == 0 {
		return blocked
	}
	return setAside
}

func (v *verdict) reason() run.Reason {
	r, name := v.least, v.least.slots[0].Name()
	switch r.kind {
	case short:
		if v.ask.Raised {
			return run.BudgetRaised(name, r.asked, r.room, r.holders)
		}
		return run.MemoryWait(name, r.asked, r.room, r.holders)
	case filled:
		return run.MemoryNoBudget(name, r.holders)
	case never:
		return run.MemoryNever(name, r.asked, r.room)
	case inUse:
		return run.CardInUse(name, r.closed.Why)
	case closed:
		if r.closed.Code == run.ReasonCordoned {
			return run.Cordoned(name, r.closed.Why)
		}
		return run.CardUnhealthy(name, r.closed.Why)
	}
	if len(v.ask.Devices) > 1 {
		return run.SetWaiting(v.devices, r.holders)
	}
	if v.sets > 1 {
		name = v.ask.wanted()[0]
		if v.ask.Worker != Local {
			name = v.ask.Worker + "/" + name
		}
	}
	if len(r.holders) == 0 {
		return run.SlotKept(name, r.keeper)
	}
	return run.SlotBusy(name, r.holders)
}
