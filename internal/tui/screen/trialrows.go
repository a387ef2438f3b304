package screen

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cdui/internal/api"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/study"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

func (t trial) runID() string {
	switch {
	case t.variant != nil:
		return t.variant.RunID
	case t.attempt != nil:
		return t.attempt.RunID
	}
	return ""
}

func (t trial) runExists() bool {
	return t.variant != nil && t.variant.RunExists || t.attempt != nil && t.attempt.RunExists
}

// number is its place in the order in which they were made.
func (t trial) number() int {
	if t.variant != nil {
		return t.variant.Index
	}
	return t.rep.Index
}

// seed is that of a repetition.
func (t trial) seed() int64 {
	if t.rep == nil {
		return 0
	}
	return t.rep.Seed
}

// id keeps the cursor on a row: a variant stays the same one when it is run
// again.
func (t trial) id() string {
	switch {
	case t.variant != nil:
		return strconv.Itoa(t.variant.Index)
	case t.attempt != nil:
		return fmt.Sprintf("%d/%d", t.rep.Index, t.attempt.Attempt)
	}
	return strconv.Itoa(t.rep.Index)
}

func (t trial) status() run.Status {
	switch {
	case t.variant != nil:
		return t.variant.Status
	case t.attempt != nil && t.attempt.Status == "": // it was refused
		return run.Failed
	case t.attempt != nil:
		return t.attempt.Status
	}
	return run.Queued
}

func (t trial) where() string {
	switch {
	case t.variant != nil:
		return phrase.Where(run.Row{WorkerID: t.variant.WorkerID, Devices: t.variant.Devices, QueueKey: t.variant.QueueKey})
	case t.attempt != nil:
		return phrase.Where(run.Row{WorkerID: t.attempt.WorkerID, Devices: t.attempt.Devices, QueueKey: t.attempt.QueueKey})
	}
	return ""
}

func (t trial) why() string {
	switch {
	case t.variant != nil:
		return widget.Plain(t.variant.Error)
	case t.attempt != nil:
		return widget.Plain(t.attempt.Error)
	}
	return ""
}

// params are what a variant is set to, in a line.
func (t trial) params() string {
	var out []string
	for _, p := range t.variant.Params {
		out = append(out, p.Label()+"="+phrase.SweepValue(p.Value))
	}
	return widget.Plain(strings.Join(out, " "))
}

func outcome(rep api.StudyRepetition) string {
	return strings.ReplaceAll(string(rep.Outcome), "_", " ")
}

// now is the row's run as the feed has it.
func (s *trials) now(t trial) (api.Run, bool) {
	if t.runID() == "" {
		return api.Run{}, false
	}
	return s.w.Board.Run(t.runID())
}

func (s *trials) ageOf(t trial) string {
	if r, ok := s.now(t); ok {
		return age(s.w, r)
	}
	if t.attempt != nil && t.attempt.StartedAt != nil {
		return text.Age(s.w.Now().Sub(*t.attempt.StartedAt))
	}
	return text.Dash
}

// about is what a group is, beside its counts.
func (s *trials) about() string {
	dot := s.w.Theme.Glyph(" · ", " - ")
	l := s.w.Lang
	switch {
	case s.group.sweep != nil:
		o := s.group.sweep.Objective
		return dot + s.group.sweep.Method + dot + l.T(o.Direction) + " " + o.Metric
	case s.group.study.Stopped != study.NotStopped:
		return dot + l.F("stopped: %s", l.T(strings.ReplaceAll(string(s.group.study.Stopped), "_", " ")))
	}
	return ""
}

// metricLines are what the repetitions say together: mean and standard
// deviation, the interval and how many they are.
func metricLines(w *ui.World, y *api.Study, width int) []string {
	name := 8
	for _, m := range y.Metrics {
		name = max(name, min(text.Cells(m.Name), 20))
	}
	var out []string
	for _, m := range y.Metrics {
		line := text.Pad(w.Theme.Style.Crop(widget.Plain(m.Name), name), name, false) + "  " + w.Theme.Paint(theme.Strong, text.Pad(phrase.Spread(w.Theme.Style, m), 18, false))
		more := "n " + strconv.Itoa(m.N)
		if m.CILow != nil && m.CIHigh != nil {
			more += "  " + w.Lang.F("%s%%: %s to %s", text.Float(100*y.Confidence), phrase.Figure(m.CILow), phrase.Figure(m.CIHigh))
		}
		if m.Nonfinite > 0 {
			more += "  " + w.Lang.F("%d not finite", m.Nonfinite)
		}
		if name+20+text.Cells(more) <= width {
			line += w.Theme.Paint(theme.Dim, more)
		}
		out = append(out, line)
	}
	return out
}

// paramCells is how wide a column of a param is; where they don't all fit they
// share one.
const paramCells = 9

func (s *trials) eachParam(w int) bool {
	return len(s.sweep.Params) > 0 && len(s.sweep.Params)*(paramCells+2) <= w-66
}

func (s *trials) sweepColumns(w int) []widget.Column {
	l := s.w.Lang
	columns := []widget.Column{{Title: l.T("RANK"), Width: 4, Right: true}, {Width: 1}, {ID: "number", Title: l.T("#"), Width: 4, Right: true, Drop: 6}}
	if s.eachParam(w) {
		for _, p := range s.sweep.Params {
			columns = append(columns, widget.Column{Title: widget.Plain(p.Label()), Width: paramCells, Grow: 1})
		}
	} else {
		columns = append(columns, widget.Column{ID: "params", Title: l.T("PARAMS"), Width: 10, Grow: 4})
	}
	status := widget.Column{ID: "status", Title: l.T("STATUS"), Width: 10, Drop: 4}
	if w >= 100 {
		status.Grow = 2
	}
	objective := 9
	if w >= 110 {
		objective = min(max(text.Cells(s.sweep.Objective.Metric), objective), 14)
	}
	return append(columns,
		widget.Column{Title: widget.Plain(s.sweep.Objective.Metric), Width: objective, Right: true},
		widget.Column{ID: "where", Title: l.T("WHERE"), Width: 12, Grow: 1, Drop: 2},
		widget.Column{Title: l.T("RUN"), Width: 8, Drop: 5},
		status,
		widget.Column{Title: l.T("AGE"), Width: 4, Right: true, Drop: 1},
	)
}

func (s *trials) variantCells(t trial) []widget.Cell {
	v := t.variant
	rank := text.Dash
	if v.Rank != nil {
		rank = strconv.Itoa(*v.Rank)
	}
	cells := []widget.Cell{{Text: rank}, s.markOf(t), {Text: strconv.Itoa(v.Index + 1), Role: theme.Dim}}
	if s.eachParam(s.width) {
		for _, p := range s.sweep.Params {
			cells = append(cells, widget.Cell{Text: paramOf(*v, p.Label())})
		}
	} else {
		cells = append(cells, widget.Cell{Text: t.params()})
	}
	return append(cells, s.objective(t), widget.Cell{Text: widget.Plain(t.where()), Role: theme.Dim},
		widget.Cell{Text: run.Short(v.RunID), Role: theme.Dim}, s.statusCell(t), widget.Cell{Text: s.ageOf(t), Role: theme.Dim})
}

func paramOf(v api.SweepVariant, label string) string {
	for _, p := range v.Params {
		if p.Label() == label {
			return widget.Plain(phrase.SweepValue(p.Value))
		}
	}
	return text.Dash
}

// objective is what a variant is ranked by; of one that goes on that is where it
// is now.
func (s *trials) objective(t trial) widget.Cell {
	v := t.variant
	if is := phrase.Objective(v.Objective, v.ObjectiveNonfinite); is != text.Dash {
		role := theme.Plain
		if v.Rank != nil && *v.Rank == 1 {
			role = theme.Strong
		}
		return widget.Cell{Text: is, Role: role}
	}
	last := json.RawMessage(nil)
	if r, ok := s.now(t); ok && v.Status.Active() {
		last = r.FinalMetrics[s.sweep.Objective.Metric]
	}
	return widget.Cell{Text: text.Number(last), Role: theme.Dim}
}

func (s *trials) markOf(t trial) widget.Cell {
	if t.rep != nil && t.attempt == nil && t.rep.Outcome != study.Waiting {
		return widget.Cell{Text: text.Dash, Role: theme.Dim}
	}
	return markCell(s.w, t.status(), false)
}

// statusCell is how a run stands, and of one that did not succeed why.
func (s *trials) statusCell(t trial) widget.Cell {
	l := s.w.Lang
	words := []string{l.Status(t.status(), false)}
	switch a := t.attempt; {
	case t.rep != nil && a == nil:
		words = []string{text.Dash}
	case a != nil && a.Status == "":
		words = []string{l.T("refused")}
	case a != nil && a.Lost:
		words = append(words, l.T("lost"))
	}
	if why := t.why(); why != "" {
		words = append(words, why)
	}
	return widget.Cell{Text: strings.Join(words, ": "), Role: theme.Dim}
}

func (s *trials) studyColumns(w int) []widget.Column {
	if s.study == nil {
		return nil
	}
	l := s.w.Lang
	columns := []widget.Column{
		{ID: "number", Title: l.T("#"), Width: 4, Right: true},
		{Width: 1},
		{Title: l.T("OUTCOME"), Width: 9},
		{Title: l.T("TRY"), Width: 3, Right: true, Drop: 4},
		{Title: l.T("SEED"), Width: 6, Right: true, Drop: 6},
	}
	for i, m := range s.study.Metrics[:min(len(s.study.Metrics), shownMetrics)] {
		columns = append(columns, widget.Column{Title: widget.Plain(m.Name), Width: 10, Right: true, Drop: 7 * min(i, 1)})
	}
	status := widget.Column{ID: "status", Title: l.T("STATUS"), Width: 10, Drop: 3}
	if w >= 90 {
		status.Grow = 3
	}
	return append(columns, widget.Column{ID: "where", Title: l.T("WHERE"), Width: 12, Grow: 1, Drop: 2}, widget.Column{Title: l.T("RUN"), Width: 8, Drop: 5},
		status, widget.Column{Title: l.T("AGE"), Width: 4, Right: true, Drop: 1})
}

// shownMetrics is how many metrics of a repetition have a column.
const shownMetrics = 3

func (s *trials) attemptCells(t trial) []widget.Cell {
	l, a := s.w.Lang, t.attempt
	first := a == nil || a.Attempt == t.rep.Attempts[0].Attempt
	last := a == nil || a.Attempt == t.rep.Attempts[len(t.rep.Attempts)-1].Attempt
	cells := slices.Repeat([]widget.Cell{{}}, 5)
	if first {
		cells[0].Text, cells[2].Text = strconv.Itoa(t.rep.Index+1), l.T(outcome(*t.rep))
		cells[4] = widget.Cell{Text: strconv.FormatInt(t.rep.Seed, 10), Role: theme.Dim}
	}
	cells[1] = s.markOf(t)
	if a != nil {
		cells[3] = widget.Cell{Text: strconv.Itoa(a.Attempt), Role: theme.Dim}
	}
	for _, m := range s.study.Metrics[:min(len(s.study.Metrics), shownMetrics)] {
		value := ""
		if is, ok := t.rep.Metrics[m.Name]; ok && last {
			value = phrase.Objective(is.Value, is.Nonfinite)
		}
		cells = append(cells, widget.Cell{Text: value})
	}
	return append(cells, widget.Cell{Text: widget.Plain(t.where()), Role: theme.Dim}, widget.Cell{Text: run.Short(t.runID()), Role: theme.Dim},
		s.statusCell(t), widget.Cell{Text: s.ageOf(t), Role: theme.Dim})
}
