// Package phrase puts a run into words: what it is called, where it is, why it
// waits, how it ended. Tables, live progress and single lines all take their
// words from here, so that they agree.
//
// It is pure and knows rows and replies of package api, no command.
package phrase

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/console"
	"cdui/internal/run"
)

// Clean makes one safe line of a text that somebody else wrote: a name, a tag,
// an error.
func Clean(s string) string { return strings.TrimSpace(console.CleanText(s)) }

// Title is what a run is called: its name, else its script or command.
func Title(r run.Row) string {
	if name := Clean(r.Name); name != "" {
		return name
	}
	return Clean(What(r.Options))
}

// What names the script or command of a run, empty for a graph.
func What(o run.Options) string {
	switch {
	case o.Script != nil:
		return strings.Join(append([]string{path.Base(o.Script.Path)}, o.Script.Args...), " ")
	case o.Command != nil && len(o.Command.Argv) > 0:
		return strings.Join(append([]string{path.Base(o.Command.Argv[0])}, o.Command.Argv[1:]...), " ")
	}
	return "graph"
}

// Where is the place of a run: its devices once it has some, else what it
// waits for.
func Where(r run.Row) string {
	where := strings.Join(r.Devices, ",")
	if where == "" {
		where = r.QueueKey
	}
	if where == "" {
		where = r.Options.Device
	}
	if r.WorkerID != "" && r.WorkerID != "local" && !strings.Contains(where, "/") {
		where = r.WorkerID + "/" + where
	}
	return where
}

// Waiting says where in its queue a run stands and why it waits.
func Waiting(position *int, key, reason string) string {
	reason = Clean(reason)
	if position == nil {
		return reason
	}
	at := text.Ordinal(*position) + " on " + key
	if reason == "" {
		return at
	}
	return at + ", " + reason
}

// Held tells whether somebody put a waiting run on hold.
func Held(r api.Run) bool { return r.Status == run.Queued && r.Options.Hold }

// Took is how long a run has executed, 0 for one that hasn't.
func Took(r run.Row, now time.Time) time.Duration {
	switch {
	case r.StartedAt == nil:
		return 0
	case r.FinishedAt != nil:
		return r.FinishedAt.Sub(*r.StartedAt)
	}
	return now.Sub(*r.StartedAt)
}

// Stopping is "stopping, 27 s left" for a run that was told to stop, empty
// for others.
func Stopping(r api.Run, now time.Time) string {
	if !r.Status.Active() || r.CancelRequestedAt == nil {
		return ""
	}
	if r.StoppingDeadline == nil {
		return "stopping"
	}
	left := max(0, int(r.StoppingDeadline.Sub(now).Round(time.Second).Seconds()))
	return fmt.Sprintf("stopping, %d s left", left)
}

// Left is "2m left", in the unit that matters.
func Left(d time.Duration) string {
	if d < time.Second {
		return "1s left"
	}
	return text.Age(d) + " left"
}

// Failure is why a run did not succeed, on one line; empty for one that did.
func Failure(r run.Row) string {
	why := Clean(r.Error)
	switch {
	case r.Status == run.Succeeded || r.Status.Active():
		return ""
	case why == "" && r.Status == run.Cancelled && r.StartedAt == nil:
		return "cancelled before it started"
	case why == "" && r.Status != run.Cancelled:
		return strings.ReplaceAll(string(r.EndClass), "_", " ")
	}
	return why
}

// FinalMetrics lists "name value" for each series, what people look for
// first: losses, then accuracies, then the rest by name.
func FinalMetrics(final map[string]json.RawMessage) []string {
	names := make([]string, 0, len(final))
	for name := range final {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := weight(a) - weight(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, Clean(name)+" "+text.Number(final[name]))
	}
	return out
}

func weight(name string) int {
	name = strings.ToLower(name)
	switch {
	case strings.Contains(name, "loss"):
		return 0
	case strings.Contains(name, "acc"):
		return 1
	}
	return 2
}

// Result is a run's outcome, or what it is doing, on one line.
func Result(r api.Run, now time.Time) string {
	switch {
	case r.Status == run.Queued:
		if r.QueuePosition != nil {
			return strings.TrimSuffix(text.Ordinal(*r.QueuePosition)+"  "+Clean(r.QueueReason), "  ")
		}
		return Clean(r.QueueReason)
	case r.Status.Active() && r.CancelRequestedAt != nil:
		return Stopping(r, now)
	}
	if why := Failure(r.Row); why != "" {
		return why
	}
	list := FinalMetrics(r.FinalMetrics)
	if len(list) > 3 {
		list = list[:3]
	}
	return strings.Join(list, "  ")
}
