package scheduler

import (
	"cmp"
	"slices"

	"cdui/internal/run"
	"cdui/internal/sorting"
)

// Local is the worker name of the control plane's own machine, Any that of a
// run that may execute wherever there is room.
const (
	Local = "local"
	Any   = "any"
)

// ContextMiB is the memory that a CUDA context takes beside what a run's
// allocator is limited to, where nobody says otherwise.
const ContextMiB = 512

// Slot is one device on one machine; Worker is Local for the control plane.
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

// CompareSlots orders slots by worker, then device.
func CompareSlots(a, b Slot) int {
	return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Device, b.Device))
}

// SlotsOf names slots of one machine.
func SlotsOf(worker string, devices []string) []Slot {
	slots := make([]Slot, len(devices))
	for i, d := range devices {
		slots[i] = Slot{Worker: worker, Device: d}
	}
	return slots
}

// SlotState is what one machine says of one of its devices.
type SlotState struct {
	// Cap is how many runs it takes.
	Cap int
	// Card is the physical device behind the slot. Slots of one card, offered
	// by several workers or by a worker and the server, count together. Empty is
	// a card of its own.
	Card string
	// Shared: the worker's owner lets runs share the card by their memory.
	Shared bool
	// Closed says why the slot takes no further run; a zero one is open.
	Closed Closed
}

// Closed is why a slot takes no runs: one of the reason codes cordoned,
// card_unhealthy and card_in_use_by_others, and the detail behind it.
type Closed struct {
	Code, Why string
}

// Card is a physical device.
type Card struct {
	// Slots are those that offer it, in the order of CompareSlots.
	Slots []Slot
	// Holders are the runs on it, through whichever slot.
	Holders []Holder
	Memory  Memory
}

// Memory is what the driver last said of a card. A total of 0 is unknown.
type Memory struct {
	TotalMiB, FreeMiB int64
	FreeKnown         bool
}

// Holder is a run on a card.
type Holder struct {
	RunID string
	Slot  Slot
	// BudgetMiB is what its allocator is limited to, 0 without a budget.
	// MeasuredMiB is what the driver last saw it use.
	BudgetMiB, MeasuredMiB int64
}

// Worker is what placing runs needs to know of a worker.
type Worker struct {
	Name string
	// Connected workers take runs unless they drain.
	Connected, Draining bool
	// Devices are what it offers, in the order in which they are taken; nil
	// when it never told.
	Devices []string
	// Incomplete: it lacks node types of the server or told none, so that Any
	// gives it no graphs.
	Incomplete bool
	// Storage names what it can reach of runs' files.
	Storage []string
	// OneShot is set for an agent that ends with its first run.
	OneShot *OneShot
}

// OneShot is an agent that takes one run.
type OneShot struct {
	// RunID is the only run that it takes, if it was started for one.
	RunID string
	// Taken: it holds its run already.
	Taken bool
}

// Ask is a run's wish for a place.
type Ask struct {
	// Worker is a name, Local or Any.
	Worker string
	// Devices are taken all at once. Empty: one device of Kind.
	Devices []string
	Kind    string
	// Program needs no node types of the machine that it runs on.
	Program bool
	// BudgetMiB is the memory that the run's allocator is limited to on each of
	// its devices, 0 without a budget. Raised: it is an estimate that was too
	// small before.
	BudgetMiB int64
	Raised    bool
	// Storage is what the machine must reach; empty where none is needed.
	Storage string
	// Pool asks for one-shot workers, which take no other runs.
	Pool bool
}

// wanted is what reasons call the devices that are asked for.
func (a *Ask) wanted() []string {
	if len(a.Devices) > 0 {
		return a.Devices
	}
	return []string{a.Kind}
}

// Waiting is one run in a FIFO.
type Waiting struct {
	RunID string
	// Seq orders runs by submission, across all FIFOs; a higher Priority goes
	// before it inside one.
	Seq      int64
	Priority int
	Ask      *Ask
}

// CompareWaiting is the order inside one FIFO.
func CompareWaiting(a, b Waiting) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
}

// Queue is one FIFO, in the order of CompareWaiting. Runs that are held, wait
// for other runs or were set aside don't stand in it.
type Queue struct {
	Key     string
	Waiting []Waiting
	// Held says why the whole queue waits; nil lets it go.
	Held *run.Reason
}

// Snapshot is all that a plan depends on. Decide reads it only.
type Snapshot struct {
	Slots map[Slot]SlotState
	// Cards are those that hold runs, are offered more than once, or tell their
	// memory; others may be missing.
	Cards map[string]Card
	// Workers are all but the control plane itself, whose devices are its slots.
	Workers []Worker
	Queues  []Queue
	// ContextMiB stands for ContextMiB where it isn't 0.
	ContextMiB int64
}

// CardOf names the card behind a slot.
func (s Snapshot) CardOf(slot Slot) string {
	if id := s.Slots[slot].Card; id != "" {
		return id
	}
	return slot.Name()
}

// Start is a run that starts now and the slots that it takes.
type Start struct {
	RunID string
	Slots []Slot
}

// Plan is what Decide answers.
type Plan struct {
	// Starts are the runs to start, in order.
	Starts []Start
	// Reasons says for each key that still has runs why its first one waits.
	Reasons map[string]Why
	// Aside are runs that nothing could take which is there now, however idle it
	// were. They hold nobody behind them up, and needn't be offered again until
	// what is there changes.
	Aside map[string]run.Reason
}

// byName puts workers into the order in which Any tries them.
func byName(workers []Worker) []Worker {
	if slices.IsSortedFunc(workers, compareNames) {
		return workers
	}
	return sorting.Sorted(slices.Values(workers), compareNames)
}

func compareNames(a, b Worker) int { return cmp.Compare(a.Name, b.Name) }
