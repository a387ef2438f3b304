// Package board is what runs are placed by: the machines and their cards, the
// lines of waiting runs, the workers that may be named, and what people decided
// of all these. It keeps this state and asks the scheduler what to make of it;
// it knows no rows and starts nothing. Its methods may be called from any
// goroutine, and never call back with its lock held.
package board

import (
	"math"
	"sync"

	"cdui/internal/device"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/scheduler/fifo"
	"cdui/internal/scheduler/fleet"
	"cdui/internal/submission"
)

// Worker is how a worker is: what placing and what refusing runs needs to know.
type Worker struct {
	fleet.Machine
	submission.Worker
	// Fingerprint is the digest of its environment, empty when it told none.
	Fingerprint string
}

// DeviceState is how a device stands: what it takes and holds, and what people
// decided of it.
type DeviceState struct {
	scheduler.Standing
	Policy fleet.Policy
}

// Board is the state. See New.
type Board struct {
	changed func()
	context int64

	mu    sync.Mutex
	lines *fifo.Lines
	fleet *fleet.Fleet
	local device.Inventory
	// workers are all that runs may name.
	workers map[string]submission.Worker
	// prints are the digests of the workers' environments.
	prints map[string]string
}

// New makes a board without machines. It calls changed when something other
// than a run's coming and going may let a run start.
func New(limits scheduler.Limits, changed func()) *Board {
	return &Board{changed: changed, context: limits.Context(), lines: fifo.NewLines(), fleet: fleet.New(limits), workers: map[string]submission.Worker{}, prints: map[string]string{}}
}

// SetLocal takes in the devices of the control plane's own machine.
func (b *Board) SetLocal(inv device.Inventory) {
	b.mu.Lock()
	b.local = inv
	plan := b.set(scheduler.Local, fleet.Machine{Inventory: inv, Connected: true, SameMachine: true})
	b.mu.Unlock()
	if plan {
		b.changed()
	}
}

// SetWorker takes in how a worker is now. A worker is known, so that runs may
// name it, from the first call on.
func (b *Board) SetWorker(name string, w Worker) {
	known := w.Worker
	if w.Inventory != nil {
		known.Devices, known.TotalMiB = w.Inventory.Names(), map[string]int64{}
		for _, d := range w.Inventory {
			if d.MemoryTotalMiB != nil {
				known.TotalMiB[d.Device] = *d.MemoryTotalMiB
			}
		}
	}
	known.Incomplete = w.Machine.Incomplete
	b.mu.Lock()
	b.workers[name], b.prints[name] = known, w.Fingerprint
	plan := b.set(name, w.Machine)
	b.mu.Unlock()
	if plan {
		b.changed()
	}
}

// set tells whether what a machine is now may let a run start. When what it
// could take has changed, runs that were set aside are looked at again. The
// caller holds mu.
func (b *Board) set(name string, m fleet.Machine) bool {
	change := b.fleet.Set(name, m)
	if change.Capacity {
		b.lines.Rejoin()
	}
	return change.Room
}

// Forget makes a worker unknown. Slots that runs hold stay until those end.
func (b *Board) Forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.workers, name)
	delete(b.prints, name)
	b.fleet.Remove(name)
	b.lines.Rejoin()
}

// Fingerprint gives the digest of a worker's environment, empty when it told
// none.
func (b *Board) Fingerprint(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.prints[name]
}

// Knows tells whether runs may name a machine.
func (b *Board) Knows(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.knows(name)
}

func (b *Board) knows(name string) bool {
	_, worker := b.workers[name]
	return worker || name == scheduler.Local || name == scheduler.Any
}

// Machines lists the places that a submission may ask for.
func (b *Board) Machines() submission.Machines {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := submission.Machines{Local: b.local, ContextMiB: b.context, Workers: make(map[string]submission.Worker, len(b.workers))}
	for name, w := range b.workers {
		m.Workers[name] = w
	}
	return m
}

// Join puts a run into the line of its key, Leave takes it out.
func (b *Board) Join(key string, w scheduler.Waiting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines.Join(key, w)
}

// Leave takes a run out of the line of its key.
func (b *Board) Leave(key string, w scheduler.Waiting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines.Leave(key, w)
}

// Why gives a waiting run's 1-based position among those of its key and the
// reason for its waiting, as the last plan knew it.
func (b *Board) Why(key string, w scheduler.Waiting) (*int, *run.Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Why(key, w)
}

// Adopt gives slots to a run of an earlier process. cards names the card behind
// each, empty where nobody kept it.
func (b *Board) Adopt(runID string, slots []scheduler.Slot, cards []string, budgetMiB int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, at := range slots {
		b.fleet.Adopt(at, cards[i])
	}
	b.fleet.Take(runID, slots, budgetMiB)
}

// Cards names the card behind each of slots.
func (b *Board) Cards(slots []scheduler.Slot) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]string, len(slots))
	for i, at := range slots {
		out[i] = b.fleet.Card(at)
	}
	return out
}

// Release takes a run's slots back.
func (b *Board) Release(runID string, slots []scheduler.Slot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fleet.Release(runID, slots)
}

// Line finds a waiting run by its id.
type Line func(id string) (key string, w scheduler.Waiting)

// Plan asks the scheduler which runs start now: they leave their lines and take
// their slots. Why then tells of the others.
func (b *Board) Plan(line Line) []scheduler.Start {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lines.Empty() {
		return nil
	}
	plan := scheduler.Decide(b.snapshot())
	b.lines.Explain(plan, line)
	for _, start := range plan.Starts {
		key, w := line(start.RunID)
		b.lines.Leave(key, w)
		b.fleet.Take(start.RunID, start.Slots, w.Ask.BudgetMiB)
	}
	if debug {
		if broken := scheduler.Broken(b.snapshot(), plan.Starts); broken != "" {
			panic("a plan breaks its promise: " + broken)
		}
	}
	return plan.Starts
}

// Claim gives a run that isn't in line its slots, if it would start now, else
// says why it would wait. It comes last of all that wait.
func (b *Board) Claim(key string, w scheduler.Waiting) ([]scheduler.Slot, run.Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Seq = math.MaxInt64
	slots, reason := scheduler.Explain(b.snapshot(), key, w)
	if slots != nil {
		b.fleet.Take(w.RunID, slots, w.Ask.BudgetMiB)
	}
	return slots, reason
}

func (b *Board) snapshot() scheduler.Snapshot {
	s := b.fleet.Snapshot()
	s.Queues = b.lines.Queues()
	return s
}

// Queue is one key: how many of its runs may execute at once, those that wait,
// in order, and why all of them are held, if they are.
type Queue struct {
	Cap     int
	Waiting []string
	Held    *run.Reason
}

// Queues lists every slot's key, every key that has waiting runs or is held, and
// those of more.
func (b *Board) Queues(more []string) map[string]Queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]Queue{}
	for _, slot := range b.fleet.Slots() {
		out[slot.Name()] = Queue{}
	}
	for _, key := range more {
		out[key] = Queue{}
	}
	b.lines.Each(func(key string, line []scheduler.Waiting) {
		q := Queue{}
		for _, w := range line {
			q.Waiting = append(q.Waiting, w.RunID)
		}
		out[key] = q
	})
	for key, why := range b.lines.Held() {
		q := out[key]
		q.Held = &why
		out[key] = q
	}
	caps := scheduler.KeyCaps(b.fleet.Snapshot())
	for key, q := range out {
		q.Cap = caps(key)
		out[key] = q
	}
	return out
}
