package submission

import (
	"encoding/json"
	"time"

	"cdui/internal/run"
)

// Repeat gives the row of the run that repeats one which ended at now with this
// status and class, and false if none does. It lacks its id.
func Repeat(old run.Row, status run.Status, class run.EndClass, now time.Time) (run.Row, bool) {
	options, again := old.Options.Repeat(old.ID, status, class, now)
	if !again {
		return run.Row{}, false
	}
	row := run.Row{
		Name: old.Name, Options: options, Status: run.Queued, QueueKey: old.QueueKey, CreatedAt: now,
		User: old.User, GitCommit: old.GitCommit, GitDirty: old.GitDirty, PluginPins: old.PluginPins,
		SweepID: old.SweepID, SweepVariant: old.SweepVariant, RerunOf: old.RerunOf, RetryOf: old.ID,
		Graph: old.Graph, Likeness: old.Likeness,
	}
	if facts := FactsOf(old); facts != (Facts{}) {
		// A document of strings, a number and a flag: it can be written down.
		row.Facts, _ = json.Marshal(facts) //nolint:errchkjson // see above
	}
	return row, true
}
