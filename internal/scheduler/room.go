package scheduler

import (
	"strings"

	"cdui/internal/device"
)

// Room is how many runs of one queue key may execute at once.
func Room(s Snapshot, key string) int {
	worker, devices, named := strings.Cut(key, "/")
	if !named {
		worker, devices = Local, key
	}
	if worker != Any {
		return s.roomOn(worker, devices)
	}
	total := s.roomOn(Local, devices)
	for _, w := range s.Workers {
		if w.Connected {
			total += s.roomOn(w.Name, devices)
		}
	}
	return total
}

// roomOn is what one machine takes: the least of a set, or all devices of a
// kind together.
func (s Snapshot) roomOn(worker, devices string) int {
	if !strings.Contains(devices, ":") && devices != device.CPU {
		total := 0
		for slot, state := range s.Slots {
			if slot.Worker == worker && device.Kind(slot.Device) == devices {
				total += state.Cap
			}
		}
		return total
	}
	least := 0
	for i, d := range strings.Split(devices, ",") {
		if c := s.Slots[Slot{Worker: worker, Device: d}].Cap; i == 0 || c < least {
			least = c
		}
	}
	return least
}
