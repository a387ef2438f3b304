package scheduler

import "cdui/internal/device"

// Limits is how many runs a slot takes: by kind, with overrides by slot name
// ("cuda:0" is the control plane's own card, "box/cuda:0" a worker's).
type Limits struct {
	GPU, CPU int
	Override map[string]int
	// ContextMiB is what a CUDA context takes of a shared card beside a run's
	// budget; 0 is the default.
	ContextMiB int64
}

// Context is ContextMiB, or the default.
func (l Limits) Context() int64 {
	if l.ContextMiB > 0 {
		return l.ContextMiB
	}
	return ContextMiB
}

// Cap gives the limit of one slot; a limit below 1 acts as 1.
func (l Limits) Cap(s Slot) int {
	name := s.Device
	if s.Worker != Local {
		name = s.Worker + "/" + s.Device
	}
	limit, ok := l.Override[name]
	if !ok {
		limit = l.GPU
		if device.Kind(s.Device) == device.CPU {
			limit = l.CPU
		}
	}
	return max(limit, 1)
}
