// Package fleet is the machines of a control plane as the scheduler sees them:
// their slots, the cards behind these, and which run holds what. It is a value
// in memory with an index or two; whoever owns it guards it and acts on what
// the scheduler makes of it.
package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"cdui/internal/device"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/sorting"
)

// Machine is what placing runs needs to know of one machine.
type Machine struct {
	// Inventory is what it last reported, nil when it never did.
	Inventory device.Inventory
	// Connected workers take runs unless they drain.
	Connected, Draining bool
	// Incomplete: it lacks node types of the server or told none.
	Incomplete bool
	// MachineID is what it says of the hardware, empty when unknown.
	// SameMachine: it is the control plane's own, which it can't just say.
	MachineID   string
	SameMachine bool
	// Storage names what it can reach of runs' files.
	Storage []string
	OneShot *scheduler.OneShot
}

// Policy is what people decided of one device.
type Policy struct {
	// Cap is how many runs it takes, 0 for the setting's.
	Cap int `json:"cap,omitempty"`
	// Shared: runs are admitted by memory.
	Shared bool `json:"shared,omitempty"`
	// Cordon closes it; the text says why.
	Cordon bool   `json:"cordon,omitempty"`
	Why    string `json:"why,omitempty"`
	// Strangers is respect, refuse or ignore; empty is the default.
	Strangers Strangers `json:"strangers,omitempty"`
}

// Strangers is what other people's processes on a card mean.
type Strangers string

// With Respect their memory counts in the ledger, with Refuse the slot is
// closed while they are there, with Ignore they don't count.
const (
	Respect Strangers = "respect"
	Refuse  Strangers = "refuse"
	Ignore  Strangers = "ignore"
)

// Acting is the policy that holds: respect on shared cards, elsewhere ignore,
// if nobody chose.
func (p Policy) Acting() Strangers {
	switch {
	case p.Strangers != "":
		return p.Strangers
	case p.Shared:
		return Respect
	}
	return Ignore
}

// Fleet is all machines. The zero value is not ready; see New.
type Fleet struct {
	limits   scheduler.Limits
	machines map[string]*machine
	policies map[scheduler.Slot]Policy
	slots    map[scheduler.Slot]scheduler.SlotState
	cards    map[string]scheduler.Card
}

type machine struct {
	Machine
	slots []scheduler.Slot
}

// New makes a fleet without machines.
func New(limits scheduler.Limits) *Fleet {
	return &Fleet{
		limits: limits, machines: map[string]*machine{}, policies: map[scheduler.Slot]Policy{},
		slots: map[scheduler.Slot]scheduler.SlotState{}, cards: map[string]scheduler.Card{},
	}
}

// Change is what of a machine is another than before.
type Change struct {
	// Capacity: what it could take, were it idle.
	Capacity bool
	// Room: what it could take now.
	Room bool
}

// Set takes in how a machine is now.
func (f *Fleet) Set(name string, m Machine) Change {
	before := f.shape(name)
	x := f.machines[name]
	if x == nil {
		x = &machine{}
		f.machines[name] = x
	}
	x.Machine = m
	f.refresh(name)
	if name == scheduler.Local {
		// What the server allows its cards holds for workers on its machine.
		for other, y := range f.machines {
			if y.SameMachine {
				f.refresh(other)
			}
		}
	}
	after := f.shape(name)
	capacity := !reflect.DeepEqual(before.capacity, after.capacity)
	return Change{Capacity: capacity, Room: capacity || !slices.Equal(before.room, after.room)}
}

// Remove forgets a machine, but for slots that runs hold.
func (f *Fleet) Remove(name string) {
	if x := f.machines[name]; x != nil {
		x.Machine = Machine{}
		f.refresh(name)
		delete(f.machines, name)
	}
}

// Machine gives a machine as it was last told.
func (f *Fleet) Machine(name string) (Machine, bool) {
	x := f.machines[name]
	if x == nil {
		return Machine{}, false
	}
	return x.Machine, true
}

// SetPolicy takes in what people decided of a device.
func (f *Fleet) SetPolicy(slot scheduler.Slot, p Policy) {
	f.policies[slot] = p
	if p == (Policy{}) {
		delete(f.policies, slot)
	}
	f.refresh(slot.Worker)
}

// Policy gives what people decided of a device.
func (f *Fleet) Policy(slot scheduler.Slot) Policy { return f.policies[slot] }

// shape is what a machine could take, idle and now.
type shape struct {
	capacity struct {
		machine Machine
		slots   []sized
	}
	room []roomy
}

type sized struct {
	slot  scheduler.Slot
	state scheduler.SlotState
	total int64
}

type roomy struct {
	closed scheduler.Closed
	free   int64
}

func (f *Fleet) shape(name string) shape {
	var out shape
	x := f.machines[name]
	if x == nil {
		return out
	}
	out.capacity.machine = x.Machine
	out.capacity.machine.Inventory = nil
	for _, s := range x.slots {
		state := f.slots[s]
		memory := f.cards[state.Card].Memory
		now := roomy{closed: state.Closed}
		if state.Shared {
			now.free = memory.FreeMiB
		}
		if state.Closed.Code == run.ReasonCardInUse {
			state.Closed = scheduler.Closed{}
		}
		out.capacity.slots = append(out.capacity.slots, sized{s, state, memory.TotalMiB})
		out.room = append(out.room, now)
	}
	return out
}

// refresh makes slots and cards of a machine's devices. A device that went away
// keeps its slot while a run holds it.
func (f *Fleet) refresh(name string) {
	x := f.machines[name]
	if x == nil {
		return
	}
	for _, s := range slices.Clone(x.slots) {
		if !x.Inventory.Has(s.Device) && !f.held(s) {
			f.drop(x, s)
		}
	}
	for _, d := range x.Inventory {
		s := scheduler.Slot{Worker: name, Device: d.Device}
		p := f.policies[s]
		card := identity(name, x.Machine, d)
		f.place(x, s, scheduler.SlotState{Cap: f.cap(x, s, d, p), Card: card, Shared: p.Shared})
		state := f.slots[s]
		state.Closed = closed(p, d, f.strangers(card, d))
		f.slots[s] = state
		f.measure(x.Machine, s, d, p)
	}
}

// place puts a slot onto its card.
func (f *Fleet) place(x *machine, s scheduler.Slot, state scheduler.SlotState) {
	old, known := f.slots[s]
	if !slices.Contains(x.slots, s) {
		x.slots = append(x.slots, s)
		sorting.Sort(x.slots, scheduler.CompareSlots)
	}
	f.slots[s] = state
	if known && old.Card == state.Card {
		return
	}
	c := f.cards[state.Card]
	c.Slots = append(slices.Clip(c.Slots), s)
	sorting.Sort(c.Slots, scheduler.CompareSlots)
	if known {
		c.Holders = append(slices.Clip(c.Holders), f.leave(old.Card, s)...)
	}
	f.cards[state.Card] = c
}

// leave takes a slot off its card and gives the runs that held it.
func (f *Fleet) leave(card string, s scheduler.Slot) []scheduler.Holder {
	c := f.cards[card]
	var mine, others []scheduler.Holder
	for _, h := range c.Holders {
		if h.Slot == s {
			mine = append(mine, h)
		} else {
			others = append(others, h)
		}
	}
	c.Holders = others
	c.Slots = slices.DeleteFunc(slices.Clone(c.Slots), func(o scheduler.Slot) bool { return o == s })
	f.cards[card] = c
	if len(c.Slots) == 0 {
		delete(f.cards, card)
	}
	return mine
}

func (f *Fleet) drop(x *machine, s scheduler.Slot) {
	f.leave(f.slots[s].Card, s)
	delete(f.slots, s)
	x.slots = slices.DeleteFunc(x.slots, func(o scheduler.Slot) bool { return o == s })
}

func (f *Fleet) held(s scheduler.Slot) bool {
	return slices.ContainsFunc(f.cards[f.slots[s].Card].Holders, func(h scheduler.Holder) bool { return h.Slot == s })
}

// cap is how many runs a slot takes. A worker on the server's machine that has
// no limit of its own has the server's for that card.
func (f *Fleet) cap(x *machine, s scheduler.Slot, d device.Device, p Policy) int {
	if p.Cap > 0 {
		return p.Cap
	}
	if _, own := f.limits.Override[s.Name()]; !own && x.SameMachine && s.Worker != scheduler.Local {
		for _, other := range f.cards[identity(s.Worker, x.Machine, d)].Slots {
			if other.Worker == scheduler.Local {
				return f.slots[other].Cap
			}
		}
	}
	return f.limits.Cap(s)
}

// measure takes in what a card's memory is used for.
func (f *Fleet) measure(m Machine, s scheduler.Slot, d device.Device, p Policy) {
	card := f.slots[s].Card
	c := f.cards[card]
	if d.MemoryTotalMiB == nil || !m.Connected && len(c.Slots) > 1 {
		return
	}
	c.Memory = scheduler.Memory{TotalMiB: *d.MemoryTotalMiB}
	if d.MemoryFreeMiB != nil {
		c.Memory.FreeMiB, c.Memory.FreeKnown = *d.MemoryFreeMiB, true
	}
	used := map[string]int64{}
	for _, proc := range d.Processes {
		if proc.RunID != nil && proc.MemoryMiB != nil {
			used[*proc.RunID] += *proc.MemoryMiB
		}
	}
	for _, proc := range f.strangers(card, d) {
		if proc.MemoryMiB != nil && p.Acting() == Ignore {
			c.Memory.FreeMiB += *proc.MemoryMiB
		}
	}
	c.Holders = slices.Clone(c.Holders)
	for i, h := range c.Holders {
		c.Holders[i].MeasuredMiB = used[h.RunID]
	}
	f.cards[card] = c
}

// strangers are the processes on a device that belong to no run that holds the
// card: other people's, or runs of another control plane.
func (f *Fleet) strangers(card string, d device.Device) []device.Process {
	var out []device.Process
	for _, p := range d.Processes {
		mine := p.RunID != nil && slices.ContainsFunc(f.cards[card].Holders, func(h scheduler.Holder) bool { return h.RunID == *p.RunID })
		if !mine {
			out = append(out, p)
		}
	}
	return out
}

// closed tells why a device takes no runs.
func closed(p Policy, d device.Device, strangers []device.Process) scheduler.Closed {
	switch {
	case p.Cordon:
		return scheduler.Closed{Code: run.ReasonCordoned, Why: p.Why}
	case !d.Health.OK():
		return scheduler.Closed{Code: run.ReasonCardUnhealthy, Why: d.Health.String()}
	case p.Acting() == Refuse && len(strangers) > 0:
		return scheduler.Closed{Code: run.ReasonCardInUse, Why: names(strangers)}
	}
	return scheduler.Closed{}
}

// names says who the processes belong to, what they are and how much they hold.
func names(list []device.Process) string {
	var out []string
	for _, p := range list {
		text := "somebody"
		if p.User != nil {
			text = *p.User
		}
		if p.Name != nil {
			text += " " + *p.Name
		}
		text += fmt.Sprintf(" (pid %d", p.PID)
		if p.MemoryMiB != nil {
			text += ", " + run.MiB(*p.MemoryMiB)
		}
		out = append(out, text+")")
	}
	return strings.Join(out, ", ")
}

// identity names the physical device behind a slot. CUDA cards are known by
// their UUID, whoever offers them; cpu and mps are those of a machine. Without
// either, the slot stands for itself.
func identity(name string, m Machine, d device.Device) string {
	switch {
	case d.UUID != nil && *d.UUID != "":
		return *d.UUID
	case d.Kind == device.CUDA:
	case name == scheduler.Local || m.SameMachine:
		return "server/" + d.Device
	case m.MachineID != "":
		return "machine " + m.MachineID + "/" + d.Device
	}
	return "slot " + name + "/" + d.Device
}

// Adopt makes a slot known that a run holds whose machine has not been seen
// yet. Card is what Card told when the run was placed, empty if nobody kept it.
func (f *Fleet) Adopt(s scheduler.Slot, card string) {
	if _, known := f.slots[s]; known {
		return
	}
	x := f.machines[s.Worker]
	if x == nil {
		x = &machine{}
		f.machines[s.Worker] = x
	}
	f.place(x, s, scheduler.SlotState{Cap: f.limits.Cap(s), Card: cmp.Or(card, "slot "+s.Worker+"/"+s.Device)})
}

// Card names the card behind a slot.
func (f *Fleet) Card(s scheduler.Slot) string { return f.slots[s].Card }

// Take gives slots to a run, whatever they hold.
func (f *Fleet) Take(runID string, slots []scheduler.Slot, budgetMiB int64) {
	for _, s := range slots {
		f.Adopt(s, "")
		card := f.slots[s].Card
		c := f.cards[card]
		c.Holders = append(slices.Clip(c.Holders), scheduler.Holder{RunID: runID, Slot: s, BudgetMiB: budgetMiB})
		f.cards[card] = c
	}
}

// Release takes slots back. A device that is there no more goes with its last
// run.
func (f *Fleet) Release(runID string, slots []scheduler.Slot) {
	for _, s := range slots {
		card := f.slots[s].Card
		c := f.cards[card]
		c.Holders = slices.DeleteFunc(slices.Clone(c.Holders), func(h scheduler.Holder) bool { return h.RunID == runID && h.Slot == s })
		f.cards[card] = c
		x := f.machines[s.Worker]
		switch {
		case f.held(s):
		case x == nil:
			f.drop(&machine{}, s)
		case !x.Inventory.Has(s.Device):
			f.drop(x, s)
		}
	}
}

// Snapshot gives what the scheduler needs, without queues. It shares memory
// with the fleet: use it before the fleet changes.
func (f *Fleet) Snapshot() scheduler.Snapshot {
	s := scheduler.Snapshot{Slots: f.slots, Cards: f.cards, ContextMiB: f.limits.Context(), Workers: make([]scheduler.Worker, 0, len(f.machines))}
	for _, name := range slices.Sorted(maps.Keys(f.machines)) {
		x := f.machines[name]
		if name == scheduler.Local {
			continue
		}
		w := scheduler.Worker{Name: name, Connected: x.Connected, Draining: x.Draining, Incomplete: x.Incomplete, Storage: x.Storage, OneShot: x.OneShot}
		if x.Inventory != nil {
			w.Devices = x.Inventory.Names()
		}
		s.Workers = append(s.Workers, w)
	}
	return s
}

// Slots lists all slots.
func (f *Fleet) Slots() []scheduler.Slot { return slices.Collect(maps.Keys(f.slots)) }
