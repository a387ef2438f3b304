package board

import (
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/scheduler/fleet"
)

// DeviceStates tells how each device of a machine stands; the control plane's
// own is scheduler.Local.
func (b *Board) DeviceStates(machine string) map[string]DeviceState {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]DeviceState{}
	for d, st := range scheduler.Standings(b.fleet.Snapshot(), machine) {
		out[d] = DeviceState{Standing: st, Policy: b.fleet.Policy(scheduler.Slot{Worker: machine, Device: d})}
	}
	return out
}

// Devices lists what a machine last offered; false if nobody knows it.
func (b *Board) Devices(machine string) ([]string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if machine == scheduler.Any || !b.knows(machine) {
		return nil, false
	}
	m, _ := b.fleet.Machine(machine)
	return m.Inventory.Names(), true
}

// Policy gives what people decided of a device.
func (b *Board) Policy(slot scheduler.Slot) fleet.Policy {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fleet.Policy(slot)
}

// SetPolicy takes in what people decided of a device.
func (b *Board) SetPolicy(slot scheduler.Slot, p fleet.Policy) {
	b.mu.Lock()
	b.fleet.SetPolicy(slot, p)
	b.lines.Rejoin()
	b.mu.Unlock()
	b.changed()
}

// HoldKey keeps the runs of a queue key from starting, for a reason.
func (b *Board) HoldKey(key string, why run.Reason) {
	b.mu.Lock()
	b.lines.Hold(key, why)
	b.mu.Unlock()
	b.changed()
}

// ReleaseKey lets them go.
func (b *Board) ReleaseKey(key string) {
	b.mu.Lock()
	b.lines.Release(key)
	b.mu.Unlock()
	b.changed()
}
