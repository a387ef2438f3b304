package runs

import (
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/scheduler/fleet"
)

// DeviceState is how a device stands: what it takes and holds, and what people
// decided of it.
type DeviceState struct {
	scheduler.Standing
	Policy fleet.Policy
}

// DeviceStates tells how each device of a machine stands; the control plane's
// own is scheduler.Local.
func (s *Service) DeviceStates(machine string) map[string]DeviceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]DeviceState{}
	for d, st := range scheduler.Standings(s.fleet.Snapshot(), machine) {
		out[d] = DeviceState{Standing: st, Policy: s.fleet.Policy(scheduler.Slot{Worker: machine, Device: d})}
	}
	return out
}

// Devices lists what a machine last offered; false if nobody knows it.
func (s *Service) Devices(machine string) ([]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, known := s.fleet.Machine(machine)
	if _, listed := s.workers[machine]; machine != scheduler.Local && !listed {
		return nil, false
	}
	return m.Inventory.Names(), known
}

// Policy gives what people decided of a device.
func (s *Service) Policy(slot scheduler.Slot) fleet.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fleet.Policy(slot)
}

// SetPolicy takes in what people decided of a device, and plans anew.
func (s *Service) SetPolicy(slot scheduler.Slot, p fleet.Policy) {
	s.mu.Lock()
	s.fleet.SetPolicy(slot, p)
	s.lines.Rejoin()
	s.mu.Unlock()
	s.schedule()
}

// HoldKey keeps the runs of a queue key from starting, for a reason.
func (s *Service) HoldKey(key string, why run.Reason) {
	s.mu.Lock()
	s.lines.Hold(key, why)
	s.mu.Unlock()
	s.schedule()
}

// ReleaseKey lets them go.
func (s *Service) ReleaseKey(key string) {
	s.mu.Lock()
	s.lines.Release(key)
	s.mu.Unlock()
	s.schedule()
}
