package run

import (
	"fmt"
	"strings"
)

// Reason says why a run waits, in words and as a stable code with params.
type Reason struct {
	Code   string         `json:"code"`
	Text   string         `json:"text"`
	Params map[string]any `json:"params,omitempty"`
}

// The reason codes of runs that wait for a slot.
const (
	ReasonSlotBusy = "slot_busy"
	ReasonBehind   = "behind"
	ReasonSetWait  = "set_waiting"
	ReasonHeld     = "held"
	ReasonAfter    = "after"
	ReasonNoDevice = "no_worker_offers"
	// ReasonCardUnhealthy closes a slot, on any machine.
	ReasonCardUnhealthy = "card_unhealthy"
)

// The reason codes of runs that wait for a worker.
const (
	ReasonWorkerOffline  = "worker_offline"
	ReasonWorkerDraining = "worker_draining"
	ReasonAllDraining    = "all_draining"
	ReasonNodeTypes      = "node_types_missing"
)

// SlotBusy names the runs that hold the device.
func SlotBusy(device string, holders []string) Reason {
	return Reason{
		Code:   ReasonSlotBusy,
		Text:   fmt.Sprintf("%s is busy with %s", device, shortList(holders)),
		Params: map[string]any{"device": device, "runs": holders},
	}
}

// Behind names the run before this one in its queue.
func Behind(ahead string, position int) Reason {
	return Reason{
		Code:   ReasonBehind,
		Text:   fmt.Sprintf("behind %s", Short(ahead)),
		Params: map[string]any{"run": ahead, "position": position},
	}
}

// SetWaiting names the devices of a set that are not free yet.
func SetWaiting(busy []string, holders []string) Reason {
	return Reason{
		Code:   ReasonSetWait,
		Text:   fmt.Sprintf("waits for all of its devices: %s busy with %s", strings.Join(busy, ", "), shortList(holders)),
		Params: map[string]any{"devices": busy, "runs": holders},
	}
}

// Held is a run that somebody put on hold.
func Held() Reason {
	return Reason{Code: ReasonHeld, Text: "held; release it to let it queue"}
}

// NoDevice is a run whose device nothing offers at present.
func NoDevice(devices []string) Reason {
	list := strings.Join(devices, ", ")
	return Reason{
		Code:   ReasonNoDevice,
		Text:   "waiting for a worker that offers " + list,
		Params: map[string]any{"devices": devices},
	}
}

// WorkerOffline is a run whose worker is away.
func WorkerOffline(worker string) Reason {
	return Reason{
		Code:   ReasonWorkerOffline,
		Text:   fmt.Sprintf("waiting for worker %s to reconnect", worker),
		Params: map[string]any{"worker": worker},
	}
}

// WorkerDraining is a run whose worker takes none at present.
func WorkerDraining(worker string) Reason {
	return Reason{
		Code:   ReasonWorkerDraining,
		Text:   fmt.Sprintf("worker %s is draining", worker),
		Params: map[string]any{"worker": worker},
	}
}

// AllDraining is a run for which every worker that offers the devices drains.
func AllDraining(devices, workers []string) Reason {
	verb := "is"
	if len(workers) > 1 {
		verb = "are"
	}
	return Reason{
		Code:   ReasonAllDraining,
		Text:   fmt.Sprintf("waiting for a worker that offers %s: %s %s draining", strings.Join(devices, ", "), strings.Join(workers, ", "), verb),
		Params: map[string]any{"devices": devices, "workers": workers},
	}
}

// NodeTypesMissing is a graph that only workers without all node types of the
// server could take.
func NodeTypesMissing(workers []string) Reason {
	return Reason{
		Code:   ReasonNodeTypes,
		Text:   fmt.Sprintf("waiting for a worker that knows the server's node types: %s lacks some", strings.Join(workers, ", ")),
		Params: map[string]any{"workers": workers},
	}
}

// CardUnhealthy is a run whose card is in no state to take it.
func CardUnhealthy(device, why string) Reason {
	return Reason{
		Code:   ReasonCardUnhealthy,
		Text:   fmt.Sprintf("%s is unhealthy: %s", device, why),
		Params: map[string]any{"device": device, "why": why},
	}
}

// AfterWaits is a run that waits for another one to end.
func AfterWaits(other string, condition AfterCondition) Reason {
	return Reason{
		Code:   ReasonAfter,
		Text:   fmt.Sprintf("waits for %s to end (%s)", Short(other), condition),
		Params: map[string]any{"run": other, "condition": string(condition)},
	}
}

// AfterNever is a run whose condition can't come true any more.
func AfterNever(other string, condition AfterCondition, ended Status) Reason {
	return Reason{
		Code:   ReasonAfter,
		Text:   fmt.Sprintf("%s ended %s, this run asks for %s: cancel it, or release it to run it all the same", Short(other), ended, condition),
		Params: map[string]any{"run": other, "condition": string(condition), "status": string(ended), "never": true},
	}
}

// ShortLen is how many characters of a run id people are shown.
const ShortLen = 8

// Short is the part of a run id that people are shown.
func Short(id string) string {
	if len(id) <= ShortLen {
		return id
	}
	return id[:ShortLen]
}

func shortList(ids []string) string {
	out := make([]string, 0, len(ids))
	for i, id := range ids {
		if i == 3 && len(ids) > 4 {
			out = append(out, fmt.Sprintf("%d more", len(ids)-i))
			break
		}
		out = append(out, Short(id))
	}
	return strings.Join(out, ", ")
}
