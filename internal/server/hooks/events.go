package hooks

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/sorting"
)

// Started is what hooks are told when a run has started.
func Started(row run.Row) api.HookBody { return ofRun(api.HookStarted, row) }

// Ended is what they are told when it has ended.
func Ended(row run.Row) api.HookBody {
	event := api.HookFinished
	switch {
	case row.EndClass == run.EndWorkerLost, row.Status == run.Interrupted:
		event = api.HookLost
	case row.Status == run.Failed:
		event = api.HookFailed
	}
	return ofRun(event, row)
}

// maxError is how many bytes of a run's error a hook is sent.
const maxError = 4096

func ofRun(event api.HookEvent, row run.Row) api.HookBody {
	text := row.Error
	if len(text) > maxError {
		text = text[:maxError]
	}
	return api.HookBody{Event: event, Run: &api.HookRun{
		RunID: row.ID, Name: row.Title(), Status: row.Status, EndClass: row.EndClass, Error: text, User: row.User,
		Worker: row.WorkerID, Devices: row.Devices, Tags: row.Options.Tags, SweepID: row.SweepID, Attempt: row.Attempt,
		CreatedAt: row.CreatedAt, StartedAt: row.StartedAt, FinishedAt: row.FinishedAt,
	}}
}

// Place is a device of a machine.
type Place struct{ Worker, Device string }

func byName(a, b Place) int {
	return cmp.Or(strings.Compare(a.Worker, b.Worker), strings.Compare(a.Device, b.Device))
}

// Condition is which workers are connected, and what ails each device: "" of
// those that are well.
type Condition struct {
	Online map[string]bool
	Ails   map[Place]string
}

// Changes tells what has gone wrong since before: a worker that was connected
// and isn't, and devices that have fallen ill. A device that was not there
// before is taken for one that was well; of a worker that was not there before,
// nobody knows.
func Changes(before, now Condition) []api.HookBody {
	var out []api.HookBody
	for _, name := range slices.Sorted(maps.Keys(now.Online)) {
		if before.Online[name] && !now.Online[name] {
			out = append(out, api.HookBody{Event: api.HookWorkerDown, Worker: name, Reason: "the control plane has lost sight of it; its runs go on"})
		}
	}
	for _, at := range sorting.Sorted(maps.Keys(now.Ails), byName) {
		if why := now.Ails[at]; why != "" && before.Ails[at] == "" {
			out = append(out, api.HookBody{Event: api.HookCardUnhealthy, Worker: at.Worker, Device: at.Device, Reason: why})
		}
	}
	return out
}
