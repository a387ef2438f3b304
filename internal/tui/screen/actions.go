package screen

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

const (
	// actionsKept is how many actions the list holds, actionsNews how many are
	// read when it is known already.
	actionsKept = 1000
	actionsNews = 100
)

// Actions is the log of actions, the newest first. The feed says when there are
// more.
type Actions struct {
	w *ui.World
	listing[api.Action]
	fresh fresh

	loaded bool
	err    error
	width  int
}

// actionsLoaded is what was read; all tells that nothing was known before.
type actionsLoaded struct {
	of   *Actions
	list []api.Action
	all  bool
	err  error
}

// NewActions makes the screen.
func NewActions(w *ui.World) *Actions {
	s := &Actions{w: w, fresh: newFresh(w.Context)}
	s.id = func(a api.Action) string { return strconv.FormatInt(a.Seq, 10) }
	s.line = func(a api.Action) string {
		return strings.Join([]string{a.User, a.From, a.Verb, a.Kind, a.ID, a.Detail, w.Lang.Deed(a.Verb), w.Lang.Deed(a.Kind)}, " ")
	}
	by := func(field func(api.Action) string) func(a, b api.Action) int {
		return func(a, b api.Action) int { return strings.Compare(field(a), field(b)) }
	}
	s.sorts = []order[api.Action]{
		{"age", keymap.SortAge, func(a, b api.Action) int { return cmp.Compare(b.Seq, a.Seq) }},
		{"user", keymap.SortUser, by(func(a api.Action) string { return a.User })},
		{"from", keymap.SortFrom, by(func(a api.Action) string { return a.From })},
		{"verb", keymap.SortVerb, by(func(a api.Action) string { return a.Verb + " " + a.Kind })},
		{"object", keymap.SortObject, by(func(a api.Action) string { return a.Kind + " " + a.ID })},
	}
	return s
}

// Title implements ui.Screen.
func (*Actions) Title() string { return "Actions" }

// Close implements ui.Screen.
func (s *Actions) Close() { s.fresh.cancel() }

// Keys implements ui.Screen.
func (s *Actions) Keys() []keymap.Group {
	return []keymap.Group{
		{Title: "Actions", Bindings: []keymap.Binding{keymap.OpenRun, keymap.Describe, keymap.Yank}},
		s.sortKeys(), keymap.Moving(), keymap.General(),
	}
}

// Hear implements ui.Reader.
func (s *Actions) Hear(f api.LiveFrame) {
	if f.Type == api.LiveSnapshot || f.Counts != nil && f.Counts.Actions != s.w.Board.Counts().Actions {
		s.fresh.anew()
	}
}

// Read implements ui.Reader.
func (s *Actions) Read() tea.Cmd {
	if !s.fresh.begin(s.w.Now()) {
		return nil
	}
	source, ctx, known := s.w.Log, s.fresh.ctx, int64(0)
	if len(s.all) > 0 {
		known = s.all[0].Seq
	}
	return func() tea.Msg {
		m := actionsLoaded{of: s, all: known == 0}
		limit := actionsKept
		if !m.all {
			limit = actionsNews
		}
		got, err := source.Actions(ctx, 0, limit)
		if err == nil && !m.all && len(got.Actions) == limit && got.Actions[limit-1].Seq > known {
			m.all = true // more came than were asked for
			got, err = source.Actions(ctx, 0, actionsKept)
		}
		m.list, m.err = got.Actions, err
		return m
	}
}

func (s *Actions) show(m actionsLoaded) {
	s.fresh.end(m.err)
	if s.err = m.err; s.err != nil {
		return
	}
	s.loaded = true
	if s.table.Cursor == 0 {
		s.at = "" // who looks at the newest goes on doing so
	}
	if m.all || len(m.list) == 0 || len(s.all) == 0 {
		s.take(m.list)
		return
	}
	// A database that was put back has lower numbers: what is known isn't so.
	if m.list[0].Seq < s.all[0].Seq {
		s.all = nil
		s.fresh.anew()
		return
	}
	known := s.all[0].Seq
	news := slices.DeleteFunc(slices.Clone(m.list), func(a api.Action) bool { return a.Seq <= known })
	all := append(news, s.all...)
	s.take(all[:min(len(all), actionsKept)])
}

// Note implements ui.Screen.
func (s *Actions) Note() string {
	if s.err != nil {
		return widget.Plain(s.w.Lang.Error(s.err))
	}
	n := len(s.rows)
	note := s.w.Lang.N(n, "1 action", "%d actions", counted(n)...)
	if len(s.all) >= actionsKept {
		note = s.w.Lang.F("%s of the newest %s", text.Count(n), text.Count(actionsKept))
	}
	if s.filter.re != nil {
		note += "  /" + s.filter.pattern
	}
	return note
}

// Update implements ui.Screen.
func (s *Actions) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case actionsLoaded:
		if msg.of == s {
			s.show(msg)
		}
	case tea.KeyPressMsg:
		return s.key(msg.String())
	case tea.MouseWheelMsg:
		s.move(wheel(msg))
	case tea.MouseClickMsg:
		if s.click(msg.X, msg.Y, s.width, len(s.Detail(s.table.Cursor, s.width))) {
			return s.open(s.rows[s.table.Cursor])
		}
	}
	return nil
}

func (s *Actions) key(k string) tea.Cmd {
	if s.moved(k) {
		return nil
	}
	a, ok := s.current()
	if !ok {
		return nil
	}
	switch {
	case keymap.OpenRun.Is(k):
		return s.open(a)
	case keymap.Describe.Is(k):
		return s.describe(a)
	case keymap.Yank.Is(k):
		return ui.Send(ui.Copy{Text: a.ID})
	}
	return nil
}

// open opens the run that an action was on; what isn't a run is described.
func (s *Actions) open(a api.Action) tea.Cmd {
	if a.Kind != "run" || !run.ValidID(a.ID) {
		return s.describe(a)
	}
	return s.w.Shell.Open(a.ID, "")
}

// describe shows all that the log has of an action.
func (s *Actions) describe(a api.Action) tea.Cmd {
	l := s.w.Lang
	list := []fact{
		{l.T("when"), a.TS.Local().Format("2006-01-02 15:04:05.000")}, {l.T("user"), orDash(a.User)}, {l.T("from"), a.From},
		{l.T("did"), l.Deed(a.Verb)}, {l.T("object"), strings.TrimSpace(l.Deed(a.Kind) + " " + a.ID)},
	}
	if a.Detail != "" {
		list = append(list, fact{l.T("detail"), a.Detail})
	}
	list = append(list, fact{l.T("command"), s.w.Command("actions")})
	return s.w.Shell.Ask(dialog.NewReader(s.w, l.T("An action"), func(width int) []string { return factLines(s.w, list, width) }))
}

// View implements ui.Screen.
func (s *Actions) View(w, h int) []string {
	s.width = w
	if len(s.rows) == 0 {
		return widget.Block(s.nothing(w), w, h, s.w.Theme.Style)
	}
	l := s.w.Lang
	s.table.Columns = []widget.Column{
		{ID: "age", Title: l.T("WHEN"), Width: 11},
		{ID: "user", Title: l.T("USER"), Width: 8, Grow: 1},
		{ID: "from", Title: l.T("FROM"), Width: 15, Drop: 2},
		{ID: "verb", Title: l.T("DID"), Width: 8},
		{ID: "object", Title: l.T("WHAT"), Width: 14, Grow: 3},
		{ID: "detail", Title: l.T("DETAIL"), Width: 10, Grow: 4, Drop: 1},
	}
	if w < narrow {
		for i, cells := range map[int]int{0: 8, 1: 6, 4: 9} {
			s.table.Columns[i].Width = cells
		}
	}
	return s.table.View(s, w, h, s.w.Theme)
}

// nothing is what the list says without lines.
func (s *Actions) nothing(width int) []string {
	l := s.w.Lang
	words := []string{l.T("Nobody has changed anything yet."), "", l.T("In a shell the same log is"), "  " + s.w.Command("actions")}
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

// Detail implements widget.Rows: what there was no room for.
func (s *Actions) Detail(i, width int) []string {
	if i >= len(s.rows) || width < 40 {
		return nil
	}
	a := s.rows[i]
	var words []string
	if what := s.w.Lang.Deed(a.Kind) + " " + shortened(a.ID); text.Cells(widget.Plain(what)) > s.table.WidthOf("object", width) && width >= narrow {
		words = append(words, what)
	}
	if text.Cells(widget.Plain(a.Detail)) > s.table.WidthOf("detail", width) {
		words = append(words, a.Detail)
	}
	if len(words) == 0 {
		return nil
	}
	var out []string
	for _, line := range text.Wrap(widget.Plain(strings.Join(words, ": ")), width-6) {
		out = append(out, "     "+s.w.Theme.Paint(theme.Dim, line))
	}
	return out[:min(len(out), 2)]
}

// shortened is an id as people are shown it; names stay as they are.
func shortened(id string) string {
	if run.ValidID(id) {
		return run.Short(id)
	}
	return id
}

// Cells implements widget.Rows.
func (s *Actions) Cells(i int) []widget.Cell {
	a, l := s.rows[i], s.w.Lang
	kind := widget.Plain(l.Deed(a.Kind)) + " "
	if s.width < narrow {
		kind = ""
	}
	return []widget.Cell{
		{Text: moment(a.TS, s.w.Now(), s.width < narrow), Role: theme.Dim},
		{Text: orDash(widget.Plain(a.User))},
		{Text: widget.Plain(a.From), Role: theme.Dim},
		{Text: widget.Plain(l.Deed(a.Verb))},
		{Spans: []widget.Span{{Text: kind, Role: theme.Dim}, {Text: widget.Plain(shortened(a.ID))}}},
		{Text: widget.Plain(a.Detail), Role: theme.Dim},
	}
}

// narrow is how wide a screen is that shows only what matters most.
const narrow = 60

// moment is a time of today, or a day before it with its time where there is
// room.
func moment(at, now time.Time, short bool) string {
	at, now = at.Local(), now.Local()
	switch {
	case at.Year() == now.Year() && at.YearDay() == now.YearDay():
		return at.Format(time.TimeOnly)
	case at.Year() == now.Year() && short:
		return at.Format("01-02")
	case at.Year() == now.Year():
		return at.Format("01-02 15:04")
	case short:
		return at.Format("06-01-02")
	}
	return at.Format(time.DateOnly)
}
