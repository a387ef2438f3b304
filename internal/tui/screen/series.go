package screen

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// seriesPoints is how many points of a series are kept; beyond twice as many,
// each two become one.
const seriesPoints = 2000

// metrics are the series of a run.
type metrics struct {
	series map[string]*text.Series
	names  []string
	// loaded is the cursor up to which the first read went.
	loaded int64
}

func (m *metrics) add(name string, step, value json.RawMessage) {
	if m.series == nil {
		m.series = map[string]*text.Series{}
	}
	s := m.series[name]
	if s == nil {
		s = &text.Series{Name: name}
		m.series[name] = s
		m.names = append(m.names, name)
		slices.SortFunc(m.names, func(a, b string) int {
			if d := seriesRank(a) - seriesRank(b); d != 0 {
				return d
			}
			return strings.Compare(a, b)
		})
	}
	s.Values = append(s.Values, number(value))
	at := number(step)
	if math.IsNaN(at) {
		at = float64(len(s.Values))
	}
	s.Steps = append(s.Steps, at)
	if len(s.Values) > 2*seriesPoints {
		s.Values, s.Steps = halve(s.Values), halve(s.Steps)
	}
}

// seriesRank puts what people look at first in front.
func seriesRank(name string) int {
	name = strings.ToLower(name)
	switch {
	case strings.Contains(name, "loss") && !strings.Contains(name, "val"):
		return 0
	case strings.Contains(name, "acc"):
		return 1
	case strings.Contains(name, "loss"):
		return 2
	}
	return 3
}

// halve makes one point of each two; the last one stays as it is.
func halve(v []float64) []float64 {
	out := make([]float64, 0, len(v)/2+2)
	for i := 0; i+1 < len(v)-1; i += 2 {
		if math.IsNaN(v[i]) || math.IsNaN(v[i+1]) {
			out = append(out, math.NaN())
		} else {
			out = append(out, v[i]/2+v[i+1]/2)
		}
	}
	return append(out, v[len(v)-1])
}

func number(raw json.RawMessage) float64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(string(raw)), 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// takeAll takes what was stored up to a cursor.
func (m *metrics) takeAll(all api.Metrics, cursor int64) {
	m.series, m.names, m.loaded = nil, nil, cursor
	for _, p := range all.Metrics {
		m.add(p.Name, p.Step, p.Value)
	}
}

// takeEvent takes points that an event tells of, if they are new.
func (m *metrics) takeEvent(e api.Event) {
	if e.Cursor <= m.loaded {
		return
	}
	var p struct {
		Points []struct {
			Name  string          `json:"name"`
			Step  json.RawMessage `json:"step"`
			Value json.RawMessage `json:"value"`
		} `json:"points"`
	}
	if json.Unmarshal(e.Payload, &p) != nil {
		return // cut to its cap: the chart has a gap
	}
	for _, point := range p.Points {
		m.add(point.Name, point.Step, point.Value)
	}
}

// charts draws as many series as fit into a place, each in a box.
func (m *metrics) charts(w *ui.World, width, height, least, most, skip int) []string {
	names := m.names[min(skip, len(m.names)):]
	if len(names) == 0 {
		return widget.Box{Title: w.Lang.T("metrics")}.View([]string{w.Lang.T("no metrics yet")}, width, height, w.Theme)
	}
	columns := max(1, min(len(names), width/least, most))
	rows := 1
	for rows*columns < len(names) && rows < most && height/(rows+1) >= 7 {
		rows++
	}
	var out []string
	at := 0
	for row := range rows {
		h := height / rows
		if row == rows-1 {
			h = height - h*(rows-1)
		}
		lines := make([]string, h)
		in := min(columns, len(names)-at)
		for col := range in {
			cw := width / in
			if col == in-1 {
				cw = width - cw*(in-1)
			}
			for i, l := range m.chart(w, names[at], cw, h) {
				lines[i] += l
			}
			at++
		}
		if in == 0 {
			lines = widget.Block(nil, width, h, w.Theme.Style)
		}
		out = append(out, lines...)
	}
	return out
}

// chart is one series in a box.
func (m *metrics) chart(w *ui.World, name string, width, height int) []string {
	s := m.series[name]
	last := ""
	if n := len(s.Values); n > 0 {
		last = text.Float(s.Values[n-1])
	}
	foot := ""
	if n := len(s.Steps); n > 1 {
		foot = w.Lang.F("step %s…%s", text.Float(s.Steps[0]), text.Float(s.Steps[n-1]))
		if !w.Theme.Style.Unicode {
			foot = strings.ReplaceAll(foot, "…", "..")
		}
	}
	lines := w.Theme.Style.Canvas(*s, width-4, height-2)
	for i, l := range lines {
		// The labels stay plain.
		if at := strings.IndexFunc(l, func(r rune) bool { return r >= 0x2800 && r <= 0x28ff }); at >= 0 {
			lines[i] = l[:at] + w.Theme.Paint(theme.Bar, l[at:])
		}
	}
	return widget.Box{Title: widget.Plain(name), Note: last, Foot: foot}.View(lines, width, height, w.Theme)
}
