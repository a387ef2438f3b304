package scheduler

import (
	"cmp"
	"slices"

	"cdui/internal/device"
	"cdui/internal/run"
)

// Any is the worker name of a run that may execute wherever there is room.
const Any = "any"

// Worker is what placing runs needs to know of a worker.
type Worker struct {
	Name string
	// Connected workers take runs unless they drain.
	Connected, Draining bool
	// Devices are what it offers, in the order in which they are taken.
	Devices []string
	// Incomplete: it lacks node types of the server or told none, so that Any
	// gives it no graphs.
	Incomplete bool
}

// Ask is a run's wish for a place on a worker.
type Ask struct {
	// Worker is a name, or Any.
	Worker string
	// Devices are taken all at once. Empty: one device of Kind.
	Devices []string
	Kind    string
	// Program needs no node types of the machine that it runs on.
	Program bool
}

// wanted is what reasons call the devices that are asked for.
func (a Ask) wanted() []string {
	if len(a.Devices) > 0 {
		return a.Devices
	}
	return []string{a.Kind}
}

// Choices lists the slots that a machine with these devices could give, the
// preferred ones first.
func (a Ask) Choices(worker string, devices []string) [][]Slot {
	if len(a.Devices) > 0 {
		for _, d := range a.Devices {
			if !slices.Contains(devices, d) {
				return nil
			}
		}
		return [][]Slot{SlotsOf(worker, a.Devices)}
	}
	var out [][]Slot
	for _, d := range devices {
		if device.Kind(d) == a.Kind {
			out = append(out, []Slot{{Worker: worker, Device: d}})
		}
	}
	return out
}

// LocalChoices lists what the control plane's own machine could give to a run
// that asks for Any. A run there sees all cards under their own numbers, so that
// of CUDA only cuda:0 alone means the same as on a worker.
func (a Ask) LocalChoices(devices []string) [][]Slot {
	if a.Worker != Any {
		return nil
	}
	return slices.DeleteFunc(a.Choices(Local, devices), func(set []Slot) bool {
		return device.Kind(set[0].Device) == device.CUDA && (len(set) > 1 || set[0].Device != "cuda:0")
	})
}

// SlotsOf names slots of one machine.
func SlotsOf(worker string, devices []string) []Slot {
	slots := make([]Slot, len(devices))
	for i, d := range devices {
		slots[i] = Slot{Worker: worker, Device: d}
	}
	return slots
}

// byName puts workers into the order in which Any tries them.
func byName(workers []Worker) []Worker {
	return slices.SortedFunc(slices.Values(workers), func(a, b Worker) int { return cmp.Compare(a.Name, b.Name) })
}

// offerNamed offers slots of one worker.
func (p *pass) offerNamed(w Waiting) (run.Reason, bool) {
	i, known := slices.BinarySearchFunc(p.workers, w.Ask.Worker, func(a Worker, name string) int { return cmp.Compare(a.Name, name) })
	if !known || !p.workers[i].Connected {
		return run.WorkerOffline(w.Ask.Worker), false
	}
	worker := p.workers[i]
	if worker.Draining {
		return run.WorkerDraining(worker.Name), false
	}
	choices := w.Ask.Choices(worker.Name, worker.Devices)
	if len(choices) == 0 {
		return run.NoDevice(w.Ask.wanted()), false
	}
	reason, ok := p.takeFirst(w, choices)
	if _, never := p.closed(choices[0]); !ok && !never && len(w.Ask.Devices) > 1 {
		p.reserve(choices[0])
	}
	return reason, ok
}

// offerAny offers slots of the workers in the order of their names, then those
// of the server.
func (p *pass) offerAny(w Waiting) (run.Reason, bool) {
	var choices [][]Slot
	var draining, incomplete []string
	for _, worker := range p.workers {
		if !worker.Connected {
			continue
		}
		sets := w.Ask.Choices(worker.Name, worker.Devices)
		switch {
		case len(sets) == 0:
		case worker.Incomplete && !w.Ask.Program:
			incomplete = append(incomplete, worker.Name)
		case worker.Draining:
			draining = append(draining, worker.Name)
		default:
			choices = append(choices, sets...)
		}
	}
	choices = append(choices, w.Ask.LocalChoices(p.local)...)
	switch {
	case len(choices) > 0:
		return p.takeFirst(w, choices)
	case len(draining) > 0:
		return run.AllDraining(w.Ask.wanted(), draining), false
	case len(incomplete) > 0:
		return run.NodeTypesMissing(incomplete), false
	}
	return run.NoDevice(w.Ask.wanted()), false
}

// takeFirst takes the first of several sets of slots that is free, or says
// what holds them. Sets with a closed slot count only when there are no others.
func (p *pass) takeFirst(w Waiting, choices [][]Slot) (run.Reason, bool) {
	var busy, holders []string
	open := 0
	for _, slots := range choices {
		full := p.full(slots)
		if len(full) == 0 {
			p.take(w, slots)
			return run.Reason{}, true
		}
		if _, closed := p.closed(full); closed {
			continue
		}
		open++
		for _, slot := range full {
			busy = append(busy, slot.Name())
			holders = p.addHolders(holders, slot)
		}
	}
	if open == 0 {
		slot, _ := p.closed(slices.Concat(choices...))
		return run.CardUnhealthy(slot.Name(), p.slots[slot].Closed), false
	}
	if len(choices) == 1 && len(choices[0]) == 1 {
		return run.SlotBusy(busy[0], holders), false
	}
	if len(w.Ask.Devices) > 1 {
		return run.SetWaiting(busy, holders), false
	}
	return run.SlotBusy(w.Ask.Worker+"/"+w.Ask.wanted()[0], holders), false
}
