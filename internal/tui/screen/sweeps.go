package screen

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/sorting"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// groupsRead is how many sweeps, and how many studies, the list holds.
const groupsRead = 200

// Sweeps is the list of sweeps and studies, the newest first.
type Sweeps struct {
	w *ui.World
	listing[group]
	fresh fresh

	sweeps, trials int
	loaded         bool
	err            error
	// width is that of the last look.
	width int
}

// groupsLoaded is what was read for the list.
type groupsLoaded struct {
	of      *Sweeps
	sweeps  api.SweepList
	studies api.StudyList
	err     error
}

// NewSweeps makes the screen.
func NewSweeps(w *ui.World) *Sweeps {
	s := &Sweeps{w: w, fresh: newFresh(w.Context)}
	s.id = group.id
	s.line = func(g group) string {
		return strings.Join([]string{g.kind(), g.id(), g.name(), g.state(), g.best(w), g.user()}, " ")
	}
	s.sorts = []order[group]{
		{"name", keymap.SortName, func(a, b group) int { return strings.Compare(a.name(), b.name()) }},
		{"progress", keymap.SortStatus, func(a, b group) int { return cmp.Compare(a.left(), b.left()) }},
		{"age", keymap.SortAge, func(a, b group) int { return b.created().Compare(a.created()) }},
	}
	return s
}

// Title implements ui.Screen.
func (*Sweeps) Title() string { return "Sweeps" }

// Close implements ui.Screen.
func (s *Sweeps) Close() { s.fresh.cancel() }

// Keys implements ui.Screen.
func (s *Sweeps) Keys() []keymap.Group {
	return []keymap.Group{
		{Title: "Sweeps", Bindings: []keymap.Binding{keymap.Open, keymap.Cancel, keymap.NewSweep, keymap.NewStudy, keymap.Rerun, keymap.Describe, keymap.YankCommand}},
		s.sortKeys(), keymap.Moving(), keymap.General(),
	}
}

// Hear implements ui.Reader. The feed doesn't say which runs are a study's, so
// that any run that is new, gone, or stands otherwise is news.
func (s *Sweeps) Hear(f api.LiveFrame) {
	switch {
	case f.Type == api.LiveSnapshot:
		s.fresh.anew()
		return
	case len(f.GoneRuns) > 0:
		s.fresh.news()
		return
	}
	for i := range f.Runs {
		if before, known := s.w.Board.Run(f.Runs[i].ID); turned(before, known, f.Runs[i]) {
			s.fresh.news()
			return
		}
	}
}

// Read implements ui.Reader.
func (s *Sweeps) Read() tea.Cmd {
	if !s.fresh.begin(s.w.Now()) {
		return nil
	}
	source, ctx := s.w.Sweeps, s.fresh.ctx
	return func() tea.Msg {
		m := groupsLoaded{of: s}
		if m.sweeps, m.err = source.Sweeps(ctx, groupsRead, 0); m.err == nil {
			m.studies, m.err = source.Studies(ctx, groupsRead, 0)
		}
		return m
	}
}

func (s *Sweeps) show(m groupsLoaded) {
	s.fresh.end(m.err)
	if s.err = m.err; s.err != nil {
		return
	}
	s.loaded, s.sweeps, s.trials = true, m.sweeps.Total, m.studies.Total
	var all []group
	for i := range m.sweeps.Sweeps {
		all = append(all, group{sweep: &m.sweeps.Sweeps[i]})
	}
	for i := range m.studies.Studies {
		all = append(all, group{study: &m.studies.Studies[i]})
	}
	sorting.Sort(all, func(a, b group) int {
		return cmp.Or(b.created().Compare(a.created()), strings.Compare(a.id(), b.id()))
	})
	s.take(all)
}

// Note implements ui.Screen.
func (s *Sweeps) Note() string {
	if s.err != nil {
		return widget.Plain(s.w.Lang.Error(s.err))
	}
	l := s.w.Lang
	note := l.N(s.sweeps, "1 sweep", "%d sweeps", counted(s.sweeps)...) + ", " + l.N(s.trials, "1 study", "%d studies", counted(s.trials)...)
	if s.filter.re != nil {
		note += "  /" + s.filter.pattern
	}
	return note
}

// Update implements ui.Screen.
func (s *Sweeps) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case groupsLoaded:
		if msg.of == s {
			s.show(msg)
		}
	case changed:
		s.fresh.news()
	case tea.KeyPressMsg:
		return s.key(msg.String())
	case tea.MouseWheelMsg:
		s.move(wheel(msg))
	case tea.MouseClickMsg:
		if s.click(msg.X, msg.Y, s.width, 0) {
			return s.open()
		}
	}
	return nil
}

func (s *Sweeps) open() tea.Cmd { return s.w.Shell.Lay(newTrials(s.w, s.rows[s.table.Cursor])) }

func (s *Sweeps) key(k string) tea.Cmd {
	if s.moved(k) {
		return nil
	}
	switch {
	case keymap.NewSweep.Is(k):
		return s.w.Shell.Ask(dialog.NewSweep(s.w))
	case keymap.NewStudy.Is(k):
		return s.w.Shell.Ask(dialog.NewStudy(s.w))
	}
	g, ok := s.current()
	switch {
	case !ok:
		return nil
	case keymap.Open.Is(k):
		return s.open()
	case keymap.Describe.Is(k):
		return describeGroup(s.w, g)
	}
	return groupKey(s.w, g, k)
}

// groupKey does what keys do to a group wherever it is shown.
func groupKey(w *ui.World, g group, k string) tea.Cmd {
	switch {
	case keymap.Cancel.Is(k):
		return cancelGroup(w, g)
	case keymap.Rerun.Is(k):
		return rerunGroup(w, g)
	case keymap.YankCommand.Is(k):
		return ui.Send(ui.Copy{Text: g.command(w, "show")})
	}
	return nil
}

// View implements ui.Screen.
func (s *Sweeps) View(w, h int) []string {
	s.width = w
	if len(s.rows) == 0 {
		return widget.Block(s.nothing(w), w, h, s.w.Theme.Style)
	}
	l := s.w.Lang
	s.table.Columns = []widget.Column{
		{Width: 1},
		{Title: l.T("ID"), Width: 8, Drop: 3},
		{Title: l.T("KIND"), Width: 5, Drop: 5},
		{ID: "name", Title: l.T("NAME"), Width: 12, Grow: 3},
		{Title: l.T("STATE"), Width: 10, Drop: 4},
		{ID: "progress", Title: l.T("PROGRESS"), Width: 9},
		{Title: l.T("BEST"), Width: 14, Grow: 2, Drop: 2},
		{Title: l.T("USER"), Width: 8, Drop: 6},
		{ID: "age", Title: l.T("AGE"), Width: 4, Right: true},
	}
	if w >= 100 {
		s.table.Columns[5].Width = 20
		s.table.Columns[6].Width = 26
	}
	if w < 130 {
		s.table.Columns = slices.Delete(s.table.Columns, 7, 8)
	}
	return s.table.View(s, w, h, s.w.Theme)
}

// nothing is what the list says without lines.
func (s *Sweeps) nothing(width int) []string {
	l := s.w.Lang
	words := []string{
		l.T("No sweeps and no studies yet."), "", l.T("Queue a sweep with S, or in a shell with"),
		"  " + s.w.Command("sweep run FILE"), "  " + s.w.Command("study run FILE"),
	}
	switch {
	case s.err != nil:
		words = text.Wrap(widget.Plain(l.Error(s.err)), max(10, width-4))
	case s.filter.re != nil:
		return empty(s.w, s.filter, width)
	case !s.loaded && !s.w.Board.Whole():
		words = []string{l.T("Connecting…")}
	case !s.loaded:
		words = []string{l.T("Reading…")}
	}
	return dimmed(s.w, words, width)
}

func dimmed(w *ui.World, words []string, width int) []string {
	out := []string{""}
	for _, line := range words {
		out = append(out, "  "+w.Theme.Paint(theme.Dim, w.Theme.Style.Crop(line, max(0, width-3))))
	}
	return out
}

// Detail implements widget.Rows.
func (*Sweeps) Detail(int, int) []string { return nil }

// Cells implements widget.Rows.
func (s *Sweeps) Cells(i int) []widget.Cell {
	g, l := s.rows[i], s.w.Lang
	cells := []widget.Cell{
		markCell(s.w, g.status(), false),
		{Text: run.Short(g.id()), Role: theme.Dim},
		{Text: l.T(g.kind()), Role: theme.Dim},
		{Text: orDash(g.name())},
		{Text: l.T(g.state()), Role: theme.Dim},
		g.progressCell(s.w, s.table.WidthOf("progress", s.width)-10),
		{Text: widget.Plain(g.best(s.w))},
	}
	if len(s.table.Columns) == 9 {
		cells = append(cells, widget.Cell{Text: widget.Plain(g.user()), Role: theme.Dim})
	}
	return append(cells, widget.Cell{Text: text.Age(s.w.Now().Sub(g.created())), Role: theme.Dim})
}
