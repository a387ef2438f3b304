package screen

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/widget"
)

const (
	// curvesShown is how many runs one chart compares.
	curvesShown = 6
	// curvesRoom is how high a screen is that shows the chart unasked.
	curvesRoom = 26
	// curvesLeast is how high one is that has room for it at all.
	curvesLeast = 14
	// curvesPace is the least time between two reads of what goes on.
	curvesPace = 2 * time.Second
	// besideFrom is how wide a screen is whose legend stands beside the chart.
	besideFrom = 100
	// legendCells is how wide a legend beside the chart is at most.
	legendCells = 44
)

// curves are what some of the runs logged of one metric, and whether they are
// shown. What is read is kept; it is read again when the feed has another value.
type curves struct {
	asked  bool // by the key, against what the room says
	runs   map[string]curve
	busy   bool
	failed bool
	last   time.Time
}

// curve is one run's; told is what the feed had of it when it was read.
type curve struct {
	series text.Series
	told   string
}

// curvesLoaded is what was read.
type curvesLoaded struct {
	of   *trials
	runs map[string]curve
	err  error
}

func (c *curves) toggle() { c.asked = !c.asked }

func (c *curves) take(m curvesLoaded) {
	c.busy, c.failed = false, m.err != nil
	if c.runs == nil {
		c.runs = map[string]curve{}
	}
	for id, one := range m.runs {
		c.runs[id] = one
	}
}

// metric is what the rows are compared by: the objective, or the first metric of
// a study.
func (s *trials) metric() string {
	switch {
	case s.sweep != nil:
		return s.sweep.Objective.Metric
	case s.study != nil && len(s.study.Metrics) > 0:
		return s.study.Metrics[0].Name
	}
	return ""
}

// picked are the rows whose curves are shown: those that are marked, else the
// first that have one, in the order of the table.
func (s *trials) picked() []trial {
	var out []trial
	for _, t := range s.rows {
		if (len(s.marked) == 0 || s.marked[t.id()]) && t.runExists() && t.status() != run.Queued && len(out) < curvesShown {
			out = append(out, t)
		}
	}
	return out
}

// told is what the feed has of a run.
func (s *trials) told(t trial) string {
	r, ok := s.now(t)
	if !ok {
		return string(t.status())
	}
	last := r.FinalMetrics[s.metric()]
	if last == nil {
		last, _ = json.Marshal(r.FinalMetrics) // the feed carries a few series of each run
	}
	return string(r.Status) + string(last)
}

// readCurves gives the command that reads the curves that are shown and not up
// to date, nil where none is due.
func (s *trials) readCurves() tea.Cmd {
	c, now, metric := &s.curves, s.w.Now(), s.metric()
	pace := curvesPace
	if c.failed {
		pace = freshAgain
	}
	if !s.charted() || c.busy || c.failed && now.Sub(c.last) < pace {
		return nil
	}
	want := map[string]string{}
	for _, t := range s.picked() {
		told := s.told(t)
		if had, ok := c.runs[t.runID()]; !ok || had.told != told && now.Sub(c.last) >= pace {
			want[t.runID()] = told
		}
	}
	if len(want) == 0 {
		return nil
	}
	c.busy, c.last = true, now
	source, ctx := s.w.Source, s.fresh.ctx
	return func() tea.Msg {
		m := curvesLoaded{of: s, runs: map[string]curve{}}
		for id, told := range want {
			got, err := source.Metrics(ctx, id, metric)
			if api.CodeOf(err) == api.NotFound && err != nil {
				m.runs[id] = curve{told: told} // it went meanwhile
				continue
			}
			if err != nil {
				m.err = err
				continue
			}
			var points metrics
			for _, p := range got.Metrics {
				if p.Name == metric {
					points.add(p.Name, p.Step, p.Value)
				}
			}
			one := curve{told: told}
			if series := points.series[metric]; series != nil {
				one.series = *series
			}
			m.runs[id] = one
		}
		return m
	}
}

// charted tells whether the chart is shown: where there is room, or the key says
// so.
func (s *trials) charted() bool {
	return (s.height >= curvesRoom) != s.curves.asked && s.height >= curvesLeast && s.metric() != ""
}

// chart draws the curves where room lines are left.
func (s *trials) chart(w, room int) []string {
	c, th, l := &s.curves, s.w.Theme, s.w.Lang
	if !s.charted() {
		return nil
	}
	height := min(max(room/2, 7), 20)
	if w < besideFrom {
		height = max(room*3/5, 7)
	}
	list := s.picked()
	series := make([]text.Series, len(list))
	values := make([]string, len(list))
	digits := 1
	from, to := math.Inf(1), math.Inf(-1)
	for i, t := range list {
		series[i], values[i] = c.runs[t.runID()].series, text.Dash
		if n := len(series[i].Values); n > 0 {
			values[i] = text.Float(series[i].Values[n-1])
			from, to = min(from, slices.Min(series[i].Steps)), max(to, slices.Max(series[i].Steps))
		}
		digits = max(digits, text.Cells(values[i]))
	}
	legend := make([]string, len(list))
	for i, t := range list {
		name := l.F("seed %d", t.seed())
		if t.variant != nil {
			name = differing(t, list)
		}
		legend[i] = "  " + text.Pad(values[i], digits, true) + "  " + text.Pad("#"+strconv.Itoa(t.number()+1), 3, false) + " " + name
	}
	foot := ""
	if to > from {
		foot = l.F("step %s…%s", text.Float(from), text.Float(to))
	}
	inner, side := w-4, 0
	if w >= besideFrom {
		side = min(legendCells, inner/3)
	}
	below := 0
	if side == 0 {
		below = min((len(legend)+1)/2, max(0, height-5)) // two in a line, as far as there is room
	}
	plot := th.Style.Curves(series, inner-side-min(side, 2), height-2-below)
	var lines []string
	for y := range plot.Cells {
		line := th.Paint(theme.Dim, plot.Edge[y])
		for x := 0; x < len(plot.Cells[y]); {
			owner, from := plot.Owner[y][x], x
			for x < len(plot.Cells[y]) && plot.Owner[y][x] == owner {
				x++
			}
			piece := string(plot.Cells[y][from:x])
			if owner >= 0 {
				piece = th.Paint(theme.Curves()[owner%curvesShown], piece)
			}
			line += piece
		}
		if side > 0 && y < len(legend) {
			line += "  " + s.legend(y, legend[y], side)
		}
		lines = append(lines, line)
	}
	for i := range below {
		line := widget.Fit(s.legend(2*i, legend[2*i], inner/2-1), inner/2, th.Style)
		if 2*i+1 < len(legend) {
			line += s.legend(2*i+1, legend[2*i+1], inner-inner/2)
		}
		lines = append(lines, line)
	}
	note := ""
	if len(s.marked) == 0 && len(s.rows) > len(list) {
		note = l.F("the first %d; space marks others", len(list))
	}
	return widget.Box{Title: widget.Plain(s.metric()), Note: note, Foot: foot}.View(lines, w, height, th)
}

// differing are the params of a variant in which it differs from others of a
// list; of one alone they are all.
func differing(t trial, list []trial) string {
	var out []string
	for i, p := range t.variant.Params {
		same := len(list) > 1
		for _, other := range list {
			same = same && i < len(other.variant.Params) && bytes.Equal(other.variant.Params[i].Value, p.Value)
		}
		if !same {
			out = append(out, strings.TrimLeft(p.Label(), "-")+"="+phrase.SweepValue(p.Value))
		}
	}
	return widget.Plain(strings.Join(out, " "))
}

// legend says which curve a letter is.
func (s *trials) legend(i int, is string, cells int) string {
	th := s.w.Theme
	return th.Paint(theme.Curves()[i%curvesShown], string(rune('a'+i))) + th.Style.Crop(is, max(0, cells-1))
}
