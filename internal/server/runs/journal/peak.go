package journal

import (
	"encoding/json"

	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// Peak is the most memory in MiB that a run took of one card, as far as it is
// known: one that ran out took at least its budget. nil is unknown.
func Peak(f protocol.Finished, budgetMiB int64) *int64 {
	most := int64(0)
	for d, p := range f.PeakMemory {
		if device.Kind(d) == device.CUDA {
			most = max(most, p.MiB)
		}
	}
	if run.EndClass(f.EndClass) == run.EndOutOfMemory {
		most = max(most, budgetMiB)
	}
	if most == 0 {
		return nil
	}
	return &most
}

// PID gives the child's pid that a run's facts name, 0 if they don't.
func PID(facts json.RawMessage) int {
	var f struct {
		PID int `json:"pid"`
	}
	if json.Unmarshal(facts, &f) != nil {
		return 0
	}
	return f.PID
}
