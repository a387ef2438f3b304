package screen

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// trials is what came out of one sweep or study: its variants by rank, or its
// repetitions with what they say together.
type trials struct {
	w     *ui.World
	group group
	listing[trial]
	fresh  fresh
	curves curves

	// sweep or study is what was read.
	sweep *api.Sweep
	study *api.Study
	err   error
	gone  bool
	// top is the line that the table begins at; it and the size are of the last
	// look.
	top, width, height int
}

// trial is a row: a variant of a sweep, or an attempt at a repetition of a study.
type trial struct {
	variant *api.SweepVariant
	rep     *api.StudyRepetition
	// attempt is nil for a repetition that has none yet.
	attempt *api.StudyAttempt
}

// trialsLoaded is what was read of a group.
type trialsLoaded struct {
	of    *trials
	sweep *api.Sweep
	study *api.Study
	err   error
}

func newTrials(w *ui.World, g group) *trials {
	s := &trials{w: w, group: g, fresh: newFresh(w.Context)}
	s.id, s.line = trial.id, s.words
	s.sorts = []order[trial]{
		{"number", keymap.SortNumber, func(a, b trial) int { return cmp.Compare(a.number(), b.number()) }},
		{"where", keymap.SortWhere, func(a, b trial) int { return strings.Compare(a.where(), b.where()) }},
		{"status", keymap.SortStanding, func(a, b trial) int {
			return slices.Index(run.Statuses(), a.status()) - slices.Index(run.Statuses(), b.status())
		}},
	}
	return s
}

// Title implements ui.Screen.
func (s *trials) Title() string {
	if s.group.sweep != nil {
		return "Sweep"
	}
	return "Study"
}

// Close implements ui.Screen.
func (s *trials) Close() { s.fresh.cancel() }

// Keys implements ui.Screen.
func (s *trials) Keys() []keymap.Group {
	return []keymap.Group{
		{Title: "Sweeps", Bindings: []keymap.Binding{
			keymap.Open, keymap.Logs, keymap.Curves, keymap.Cancel, keymap.Rerun, keymap.QueueOn, keymap.Mark, keymap.Describe, keymap.YankCommand,
		}},
		s.sortKeys(), keymap.Moving(), keymap.General(),
	}
}

// Hear implements ui.Reader. A run of a study doesn't say so: while a study goes
// on a run that is new may be its next one.
func (s *trials) Hear(f api.LiveFrame) {
	if f.Type == api.LiveSnapshot {
		s.fresh.anew()
		return
	}
	ours := map[string]bool{}
	for _, t := range s.all {
		ours[t.runID()] = true
	}
	for _, id := range f.GoneRuns {
		if ours[id] {
			s.fresh.news()
			return
		}
	}
	for i := range f.Runs {
		r := &f.Runs[i]
		before, known := s.w.Board.Run(r.ID)
		mine := ours[r.ID] || r.SweepID != "" && r.SweepID == s.group.id() || !known && s.group.study != nil && !s.group.over()
		if mine && turned(before, known, *r) {
			s.fresh.news()
			return
		}
	}
}

// Read implements ui.Reader.
func (s *trials) Read() tea.Cmd {
	curves := s.readCurves()
	if !s.fresh.begin(s.w.Now()) {
		return curves
	}
	source, ctx, id, isSweep := s.w.Sweeps, s.fresh.ctx, s.group.id(), s.group.sweep != nil
	return tea.Batch(curves, func() tea.Msg {
		m := trialsLoaded{of: s}
		if isSweep {
			sweep, err := source.Sweep(ctx, id)
			m.sweep, m.err = &sweep, err
			return m
		}
		study, err := source.Study(ctx, id)
		m.study, m.err = &study, err
		return m
	})
}

func (s *trials) show(m trialsLoaded) {
	s.fresh.end(m.err)
	if s.err = m.err; s.err != nil {
		s.gone = api.CodeOf(s.err) == api.NotFound
		return
	}
	var all []trial
	if s.sweep, s.study = m.sweep, m.study; s.sweep != nil {
		s.group = group{sweep: &s.sweep.SweepSummary}
		for i := range s.sweep.Variants {
			all = append(all, trial{variant: &s.sweep.Variants[i]})
		}
	} else {
		s.group = group{study: &s.study.StudySummary}
		for i := range s.study.List {
			rep := &s.study.List[i]
			for a := range rep.Attempts {
				all = append(all, trial{rep: rep, attempt: &rep.Attempts[a]})
			}
			if len(rep.Attempts) == 0 {
				all = append(all, trial{rep: rep})
			}
		}
	}
	s.take(all)
}

// Note implements ui.Screen.
func (s *trials) Note() string {
	switch {
	case s.gone:
		return s.w.Lang.T("it is not there any more")
	case s.err != nil:
		return widget.Plain(s.w.Lang.Error(s.err))
	case s.filter.re != nil:
		return "/" + s.filter.pattern
	}
	return ""
}

// Update implements ui.Screen.
func (s *trials) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case trialsLoaded:
		if msg.of == s {
			s.show(msg)
		}
	case curvesLoaded:
		if msg.of == s {
			s.curves.take(msg)
		}
	case changed:
		if msg.id == s.group.id() {
			s.fresh.news()
		}
	case tea.KeyPressMsg:
		return s.key(msg.String())
	case tea.MouseWheelMsg:
		s.move(wheel(msg))
	case tea.MouseClickMsg:
		if s.click(msg.X, msg.Y-s.top, s.width, len(s.Detail(s.table.Cursor, s.width))) {
			return s.open("")
		}
	}
	return nil
}

// open opens the run of the row under the cursor.
func (s *trials) open(tab string) tea.Cmd {
	t, ok := s.current()
	if !ok {
		return nil
	}
	if t.runID() == "" || !t.runExists() {
		return said(s.w.Lang.T("its run is not there"))
	}
	return s.w.Shell.Open(t.runID(), tab)
}

func (s *trials) key(k string) tea.Cmd {
	if s.moved(k) {
		return nil
	}
	switch {
	case keymap.Open.Is(k):
		return s.open("")
	case keymap.Logs.Is(k):
		return s.open("console")
	case keymap.Describe.Is(k):
		return s.open("facts")
	case keymap.Mark.Is(k):
		s.mark()
		return nil
	case keymap.Curves.Is(k):
		s.curves.toggle()
		return nil
	case keymap.QueueOn.Is(k):
		return s.again()
	case keymap.Back.Is(k):
		if len(s.marked) > 0 {
			clear(s.marked)
			return nil
		}
		return s.w.Shell.Back()
	}
	return groupKey(s.w, s.group, k)
}

// again queues a copy of the row's run somewhere else.
func (s *trials) again() tea.Cmd {
	t, ok := s.current()
	if !ok {
		return nil
	}
	r, ok := s.now(t)
	if !ok {
		return said(s.w.Lang.T("its run is not there"))
	}
	return queueOn(s.w, []api.Run{r})
}

// View implements ui.Screen.
func (s *trials) View(w, h int) []string {
	s.width, s.height = w, h
	out := []string{groupHead(s.w, s.group, w)}
	out = append(out, s.summary(w, max(1, (h-4)/2))...)
	out = append(out, s.chart(w, h-len(out))...)
	s.top = len(out)
	switch {
	case len(s.rows) > 0:
		if s.table.Columns = s.studyColumns(w); s.sweep != nil {
			s.table.Columns = s.sweepColumns(w)
		}
		out = append(out, s.table.View(s, w, h-len(out), s.w.Theme)...)
	case s.filter.re != nil:
		out = append(out, empty(s.w, s.filter, w)...)
	case s.err != nil:
		out = append(out, dimmed(s.w, text.Wrap(widget.Plain(s.w.Lang.Error(s.err)), max(10, w-4)), w)...)
	case s.sweep == nil && s.study == nil:
		out = append(out, dimmed(s.w, []string{s.w.Lang.T("Reading…")}, w)...)
	}
	return widget.Block(out, w, h, s.w.Theme.Style)
}

// summary is what stands between head and table, in at most so many lines.
func (s *trials) summary(w, most int) []string {
	th := s.w.Theme
	var out []string
	put := func(lead, words string) {
		if len(out) < most {
			out = append(out, widget.Fit(lead+th.Paint(theme.Dim, widget.Plain(words)), w, th.Style))
		}
	}
	if words := s.group.counts(s.w) + s.about(); words != "" {
		put("   ", words)
	}
	if y := s.study; y != nil {
		for _, line := range metricLines(s.w, y, w-3) {
			if len(out) < most {
				out = append(out, widget.Fit("   "+line, w, th.Style))
			}
		}
	}
	if g := s.group.sweep; g != nil {
		for _, note := range []*string{g.ObjectiveWarning, g.Error} {
			if note != nil {
				put(" "+th.Paint(theme.Warn, th.Glyph("⚠", "!"))+" ", *note)
			}
		}
	}
	return out
}

// Cells implements widget.Rows.
func (s *trials) Cells(i int) []widget.Cell {
	if s.sweep != nil {
		return s.variantCells(s.rows[i])
	}
	return s.attemptCells(s.rows[i])
}

// Detail implements widget.Rows: all that a variant is set to, and why a run did
// not succeed.
func (s *trials) Detail(i, width int) []string {
	if i >= len(s.rows) || width < 40 {
		return nil
	}
	t := s.rows[i]
	var words []string
	if t.variant != nil && s.table.WidthOf("params", width) > 0 && text.Cells(t.params()) > s.table.WidthOf("params", width) {
		words = append(words, t.params())
	}
	if why := t.why(); why != "" && text.Cells(why) > s.table.WidthOf("status", width) {
		words = append(words, why)
	}
	var out []string
	for _, line := range words {
		for _, l := range text.Wrap(widget.Plain(line), width-8) {
			out = append(out, "       "+s.w.Theme.Paint(theme.Dim, l))
		}
	}
	return slices.Clip(out[:min(len(out), 3)])
}

// words are what a filter looks at.
func (s *trials) words(t trial) string {
	words := []string{t.runID(), string(t.status()), s.w.Lang.Status(t.status(), false), t.where(), t.why()}
	if t.variant != nil {
		words = append(words, t.params())
	} else {
		words = append(words, string(t.rep.Outcome), s.w.Lang.T(outcome(*t.rep)))
	}
	return strings.Join(words, " ")
}
