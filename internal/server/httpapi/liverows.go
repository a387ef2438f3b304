package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"cdui/internal/api"
	"cdui/internal/run"
)

// liveRows makes rows of the feed.
func (s *Server) liveRows(ctx context.Context, rows []run.Row) ([]api.LiveRun, error) {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	final, err := s.cfg.Store.FinalMetricsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]api.LiveRun, len(rows))
	for i, row := range rows {
		v := s.cfg.Runs.View(row)
		v.FinalMetrics = final[row.ID]
		out[i] = liveRow(v)
	}
	return out, nil
}

func liveRow(v api.Run) api.LiveRun {
	l := api.LiveRun{
		ID: v.ID, Order: v.Seq, Priority: v.Options.Priority, Name: bounded(v.Title()), Kind: "graph", Status: v.Status,
		Held: v.Status == run.Queued && v.Options.Hold, QueueKey: v.QueueKey, Worker: v.WorkerID, Devices: v.Devices,
		Error: bounded(v.Error), EndClass: v.EndClass, CreatedAt: v.CreatedAt, StartedAt: v.StartedAt, FinishedAt: v.FinishedAt,
		Attempt: v.Attempt, User: v.User, Tags: v.Options.Tags, SweepID: v.SweepID, PID: v.PID,
		CancelRequestedAt: v.CancelRequestedAt, StoppingDeadline: v.StoppingDeadline, Final: fewSeries(v.FinalMetrics),
	}
	switch {
	case v.Options.Script != nil:
		l.Kind = "script"
	case v.Options.Command != nil:
		l.Kind = "command"
	}
	if v.Status == run.Queued && v.QueuePosition == nil && v.QueueReasonCode != "" {
		l.Aside = &run.Reason{Code: v.QueueReasonCode, Text: v.QueueReason, Params: v.QueueReasonParams}
	}
	if v.Active {
		l.Progress = plainMembers(v.Progress)
	}
	return l
}

// bounded cuts a text that somebody else wrote, between characters.
func bounded(s string) string {
	if len(s) <= api.MaxLiveName {
		return s
	}
	end := api.MaxLiveName
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// fewSeries keeps the series that people compare runs by: losses, accuracies,
// then others by name.
func fewSeries(all map[string]json.RawMessage) map[string]json.RawMessage {
	if len(all) <= api.MaxLiveSeries {
		return all
	}
	rank := func(name string) int {
		switch name = strings.ToLower(name); {
		case strings.Contains(name, "loss"):
			return 0
		case strings.Contains(name, "acc"):
			return 1
		}
		return 2
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	few := make(map[string]json.RawMessage, api.MaxLiveSeries)
	for _, name := range names[:api.MaxLiveSeries] {
		few[name] = all[name]
	}
	return few
}

// plainMembers keeps the numbers and short texts of an object, and those of its
// member config: whole histories travel elsewhere.
func plainMembers(raw json.RawMessage) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	var config map[string]json.RawMessage
	_ = json.Unmarshal(all["config"], &config) // anything else has no members
	plain := map[string]json.RawMessage{}
	for _, members := range []map[string]json.RawMessage{config, all} {
		for name, value := range members {
			value = bytes.TrimSpace(value)
			if len(value) > 0 && len(value) <= 64 && value[0] != '{' && value[0] != '[' && len(plain) < 32 {
				plain[name] = value
			}
		}
	}
	if len(plain) == 0 {
		return nil
	}
	return plain
}
