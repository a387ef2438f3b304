package run

import (
	"fmt"
	"strings"
	"time"
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
	ReasonBackoff  = "retry_backoff"
	ReasonNoDevice = "no_worker_offers"
)

// The reason codes of cards that take no runs, on any machine.
const (
	ReasonCardUnhealthy = "card_unhealthy"
	ReasonCardInUse     = "card_in_use_by_others"
	ReasonCordoned      = "cordoned"
)

// The reason codes of runs that wait for memory.
const (
	ReasonMemoryWait     = "memory_wait"
	ReasonMemoryNoBudget = "memory_no_budget"
	ReasonBudgetRaised   = "budget_raised"
)

// The reason codes of runs that wait for a worker.
const (
	ReasonWorkerOffline  = "worker_offline"
	ReasonWorkerDraining = "worker_draining"
	ReasonAllDraining    = "all_draining"
	ReasonNodeTypes      = "node_types_missing"
	ReasonStorage        = "storage_unreachable"
	ReasonOneShotStart   = "one_shot_start"
	ReasonOneShotTaken   = "one_shot_taken"
	ReasonOneShotRunID   = "one_shot_run_id"
	ReasonOneShotPool    = "one_shot_pool"
)

// SlotBusy names the runs that hold the device.
func SlotBusy(device string, holders []string) Reason {
	return Reason{
		Code:   ReasonSlotBusy,
		Text:   fmt.Sprintf("%s is busy with %s", device, shortList(holders)),
		Params: map[string]any{"device": device, "runs": holders},
	}
}

// SlotKept is a run whose place is kept for a set that came before it.
func SlotKept(device, set string) Reason {
	return Reason{
		Code:   ReasonSlotBusy,
		Text:   fmt.Sprintf("%s is kept for %s, which waits for all of its devices", device, Short(set)),
		Params: map[string]any{"device": device, "runs": []string{}, "kept_for": set},
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

// KeyHeld is a run whose whole queue somebody put on hold.
func KeyHeld(key, note string) Reason {
	text := fmt.Sprintf("the queue %s is held", key)
	if note != "" {
		text += ": " + note
	}
	return Reason{Code: ReasonHeld, Text: text, Params: map[string]any{"key": key, "note": note}}
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

// CardInUse is a run whose card other people use.
func CardInUse(device, who string) Reason {
	return Reason{
		Code:   ReasonCardInUse,
		Text:   fmt.Sprintf("%s is in use by others: %s", device, who),
		Params: map[string]any{"device": device, "who": who},
	}
}

// Cordoned is a run whose card was closed by hand.
func Cordoned(device, why string) Reason {
	text := device + " is cordoned"
	if why != "" {
		text += ": " + why
	}
	return Reason{Code: ReasonCordoned, Text: text, Params: map[string]any{"device": device, "why": why}}
}

// MemoryWait is a run for which a shared card has too little memory left to
// promise. Sizes are in MiB, the CUDA context counted in.
func MemoryWait(device string, asked, room int64, holders []string) Reason {
	text := fmt.Sprintf("waits for %s on %s, %s can be promised", MiB(asked), device, MiB(room))
	if len(holders) > 0 {
		text += " until one of " + shortList(holders) + " ends"
	} else {
		text += ": the rest is in use by others"
	}
	return Reason{
		Code: ReasonMemoryWait, Text: text,
		Params: map[string]any{"device": device, "asked_mib": asked, "room_mib": room, "runs": holders},
	}
}

// BudgetRaised is a run that waits for the memory that its estimate was raised
// to.
func BudgetRaised(device string, asked, room int64, holders []string) Reason {
	r := MemoryWait(device, asked, room, holders)
	r.Code, r.Text = ReasonBudgetRaised, r.Text+"; its estimate was raised after running out of memory"
	return r
}

// MemoryNever is a run that asks for more memory than a card has.
func MemoryNever(device string, asked, total int64) Reason {
	return Reason{
		Code:   ReasonMemoryWait,
		Text:   fmt.Sprintf("waits for a card with %s; the largest that is there, %s, has %s", MiB(asked), device, MiB(total)),
		Params: map[string]any{"device": device, "asked_mib": asked, "total_mib": total, "never": true},
	}
}

// MemoryNoBudget is a run without a budget, which needs a shared card to itself.
func MemoryNoBudget(device string, holders []string) Reason {
	return Reason{
		Code:   ReasonMemoryNoBudget,
		Text:   fmt.Sprintf("waits for %s to be empty, since it names no --memory: %s holds some", device, shortList(holders)),
		Params: map[string]any{"device": device, "runs": holders},
	}
}

// MiB writes a size in MiB as people read it.
func MiB(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d MiB", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1024), ".0") + " GiB"
}

// StorageUnreachable is a run whose files no worker can reach.
func StorageUnreachable(storage string, workers []string) Reason {
	return Reason{
		Code:   ReasonStorage,
		Text:   fmt.Sprintf("waits for a worker that reaches the run's files (%s): %s can't", storage, strings.Join(workers, ", ")),
		Params: map[string]any{"storage": storage, "workers": workers},
	}
}

// OneShotStart is a run that waits for a one-shot worker to be started.
func OneShotStart() Reason {
	return Reason{Code: ReasonOneShotStart, Text: "waits for a one-shot worker: none is connected yet"}
}

// OneShotTaken is a run for which every one-shot worker has its run already.
func OneShotTaken(workers []string) Reason {
	return Reason{
		Code:   ReasonOneShotTaken,
		Text:   "waits for a one-shot worker: " + strings.Join(workers, ", ") + " has its run already",
		Params: map[string]any{"workers": workers},
	}
}

// OneShotRunID is a run for which the one-shot workers were started for others.
func OneShotRunID(workers []string) Reason {
	return Reason{
		Code:   ReasonOneShotRunID,
		Text:   "waits for a one-shot worker: " + strings.Join(workers, ", ") + " was started for another run",
		Params: map[string]any{"workers": workers},
	}
}

// OneShotPool is a run whose device no one-shot worker offers.
func OneShotPool(devices []string) Reason {
	list := strings.Join(devices, ", ")
	return Reason{
		Code:   ReasonOneShotPool,
		Text:   "waits for a one-shot worker that offers " + list,
		Params: map[string]any{"devices": devices},
	}
}

// Backoff is a run that repeats one and waits for its pause to be over.
func Backoff(of string, number, limit int, until time.Time) Reason {
	return Reason{
		Code:   ReasonBackoff,
		Text:   fmt.Sprintf("repeats %s (%d of %d) at %s", Short(of), number, limit, until.UTC().Format("15:04:05 UTC")),
		Params: map[string]any{"run": of, "number": number, "limit": limit, "until": until.UTC()},
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
