package follow

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/nodestate"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

// state is what is known of the run. It is pure.
type state struct {
	row     api.Run
	known   bool
	series  []string
	last    map[string]json.RawMessage
	step    string
	lost    bool
	lostFor time.Time
	// board is what the nodes of a graph do; heard is when one told of
	// progress, by our clock, and epochs when an epoch of a node was last said.
	board  nodestate.Board
	heard  time.Time
	epochs map[string]time.Time
}

// told is what people should be told because of an event.
type told struct {
	// lines stay on the screen; steps are for those who see no block.
	lines, steps []string
	// output is what nodes print.
	output []string
}

// apply takes an event in.
func (s *state) apply(e api.Event, now time.Time) told {
	switch e.Type {
	case run.EventNodeStatus:
		return s.applyNode(e, now)
	case run.EventMetric:
		var p struct {
			Points []struct {
				Name      string          `json:"name"`
				Value     json.RawMessage `json:"value"`
				Step      json.RawMessage `json:"step"`
				Nonfinite string          `json:"nonfinite"`
			} `json:"points"`
		}
		if json.Unmarshal(e.Payload, &p) != nil {
			return told{}
		}
		if s.last == nil {
			s.last = map[string]json.RawMessage{}
		}
		for _, point := range p.Points {
			if _, ok := s.last[point.Name]; !ok {
				s.series = append(s.series, point.Name)
			}
			s.last[point.Name] = point.Value
			if point.Nonfinite != "" {
				s.last[point.Name] = json.RawMessage(point.Nonfinite)
			}
			s.step = text.Number(point.Step)
		}
	case run.EventRunWarning:
		return told{lines: []string{"warning    " + warning(e.Payload)}}
	}
	return told{}
}

// warning puts a run_warning into words.
func warning(payload json.RawMessage) string {
	var p map[string]json.RawMessage
	if json.Unmarshal(payload, &p) != nil {
		return phrase.Clean(string(payload))
	}
	for _, key := range []string{"text", "message", "detail", "error"} {
		var said string
		if json.Unmarshal(p[key], &said) == nil && said != "" {
			return phrase.Clean(said)
		}
	}
	var kind string
	_ = json.Unmarshal(p["kind"], &kind) // a warning without a kind is shown by its payload
	delete(p, "kind")
	rest, err := json.Marshal(p)
	if err != nil || len(p) == 0 {
		return phrase.Clean(strings.ReplaceAll(kind, "_", " "))
	}
	return phrase.Clean(strings.ReplaceAll(kind, "_", " ") + " " + string(rest))
}

// word is the status of a run in a column of its own.
func word(status string) string { return text.Pad(status, 10, false) }

// queuedLine and runningLine are the lines that a pipe gets.
func queuedLine(r api.Run) string {
	why := phrase.Waiting(r.QueuePosition, r.QueueKey, r.QueueReason)
	return strings.TrimSpace(word("queued") + " " + why)
}

func runningLine(r api.Run) string {
	if r.PID == nil {
		return "running"
	}
	return fmt.Sprintf("%s pid %d", word("running"), *r.PID)
}

// live is the block that updates: a line for the run and one for each node
// that runs.
func (s *state) live(st text.Style, now time.Time) string {
	r := s.row
	if !s.known {
		return ""
	}
	if s.lost {
		mark := st.PaintedMark(run.Disconnected, false)
		return fmt.Sprintf("%s no answer from the control plane for %s; the run goes on without it", mark, text.Duration(now.Sub(s.lostFor).Truncate(time.Second)))
	}
	mark := st.PaintedMark(r.Status, phrase.Held(r))
	switch {
	case r.Status == run.Queued:
		return mark + " " + queuedLine(r)
	case r.Status.Active() && r.CancelRequestedAt != nil:
		return mark + " " + word("running") + " " + phrase.Stopping(r, now)
	case r.Status.Active():
		parts := []string{mark + " " + word(string(r.Status)) + " " + text.Duration(phrase.Took(r.Row, now).Truncate(time.Second))}
		nodes, training := s.nodeLines(st, now)
		if n := s.board.Over(); n > 0 {
			parts = append(parts, text.Plural(n, "node")+" done")
		}
		if !training { // which shows what matters of its series itself
			parts = append(parts, s.points()...)
		}
		return strings.Join(append([]string{strings.Join(parts, "  ")}, nodes...), "\n")
	}
	return ""
}

// points is the last value of each series.
func (s *state) points() []string {
	var parts []string
	if s.step != "" && s.step != text.Dash {
		parts = append(parts, "step "+s.step)
	}
	for _, name := range s.series {
		parts = append(parts, phrase.Clean(name)+" "+text.Number(s.last[name]))
	}
	return parts
}

// endLine tells how the run ended, without its mark.
func endLine(r api.Run, now time.Time) string {
	parts := []string{word(string(r.Status)) + " " + text.Duration(phrase.Took(r.Row, now))}
	if why := phrase.Failure(r.Row); why != "" {
		parts = append(parts, why)
	}
	metrics := phrase.FinalMetrics(r.FinalMetrics)
	if len(metrics) > 6 {
		metrics = metrics[:6]
	}
	parts = append(parts, metrics...)
	if peak := phrase.PeakMemory(r.Row); peak != "" {
		parts = append(parts, "peak "+peak)
	}
	return strings.Join(parts, "   ")
}

// savedLine names a file that the run produced.
func savedLine(a api.Artifact) string {
	var meta struct {
		Bytes *int64 `json:"bytes"`
		Size  *int64 `json:"size"`
	}
	_ = json.Unmarshal(a.Meta, &meta) // files without a size are named all the same
	line := word("saved") + " " + phrase.Clean(a.Path)
	for _, n := range []*int64{meta.Bytes, meta.Size} {
		if n != nil {
			return line + " (" + text.Bytes(*n) + ")"
		}
	}
	return line
}
