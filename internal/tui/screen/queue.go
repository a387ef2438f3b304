package screen

import (
	"fmt"
	"strings"

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

// Queue is every queue key: what runs, what waits in which order, and why the
// first one waits. A key opens into a line for each of its runs.
type Queue struct {
	w      *ui.World
	table  widget.Table
	filter filter
	open   map[string]bool

	rows  []queueRow
	seen  int
	stale bool
	width int
	at    string
}

// queueRow is a key, or a run of the key above it.
type queueRow struct {
	key   api.LiveKey
	entry *api.QueueEntry
}

func (r queueRow) id() string {
	if r.entry != nil {
		return r.key.Key + " " + r.entry.RunID
	}
	return r.key.Key
}

// NewQueue makes the screen.
func NewQueue(w *ui.World) *Queue { return &Queue{w: w, open: map[string]bool{}, seen: -1} }

// Title implements ui.Screen.
func (*Queue) Title() string { return "Queue" }

// Close implements ui.Screen.
func (*Queue) Close() {}

// Keys implements ui.Screen.
func (*Queue) Keys() []keymap.Group {
	return []keymap.Group{
		{Title: "Queue", Bindings: []keymap.Binding{keymap.Open, keymap.Logs, keymap.Cancel, keymap.Hold, keymap.QueueOn, keymap.Describe, keymap.Yank}},
		keymap.Moving(), keymap.General(),
	}
}

// SetFilter implements ui.Filtered.
func (s *Queue) SetFilter(pattern string) error {
	f, err := newFilter(pattern)
	if err != nil {
		return err
	}
	s.filter, s.stale = f, true
	return nil
}

// FilterText implements ui.Filtered.
func (s *Queue) FilterText() string { return s.filter.pattern }

// Note implements ui.Screen.
func (s *Queue) Note() string {
	c := s.w.Board.Counts()
	note := s.w.Lang.F("%d running, %d waiting", c.Running, c.Waiting)
	if s.filter.re != nil {
		note += "  /" + s.filter.pattern
	}
	return note
}

func (s *Queue) refresh() {
	if s.seen == s.w.Board.Version() && !s.stale {
		return
	}
	s.seen, s.stale = s.w.Board.Version(), false
	s.rows = s.rows[:0]
	for _, k := range s.w.Board.Keys() {
		if !s.filter.lets(s.line(k)) {
			continue
		}
		s.rows = append(s.rows, queueRow{key: k})
		if !s.open[k.Key] {
			continue
		}
		for i := range k.Running {
			s.rows = append(s.rows, queueRow{k, &k.Running[i]})
		}
		for i := range k.Waiting {
			s.rows = append(s.rows, queueRow{k, &k.Waiting[i]})
		}
	}
	for i, r := range s.rows {
		if r.id() == s.at {
			s.table.Cursor = i
		}
	}
}

func (s *Queue) line(k api.LiveKey) string {
	words := []string{k.Key}
	for _, list := range [][]api.QueueEntry{k.Running, k.Waiting} {
		for _, e := range list {
			words = append(words, e.RunID, e.Name)
		}
	}
	return strings.Join(words, " ")
}

func (s *Queue) move(by int) {
	s.table.Move(by, len(s.rows))
	if s.table.Cursor < len(s.rows) {
		s.at = s.rows[s.table.Cursor].id()
	}
}

// Update implements ui.Screen.
func (s *Queue) Update(msg tea.Msg) tea.Cmd {
	s.refresh()
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return s.key(msg.String())
	case tea.MouseWheelMsg:
		s.move(wheel(msg))
	case tea.MouseClickMsg:
		i := s.table.At(msg.Y, len(s.rows), len(s.Detail(s.table.Cursor, s.width)))
		switch {
		case i < 0:
		case i == s.table.Cursor:
			return s.enter()
		default:
			s.move(i - s.table.Cursor)
		}
	}
	return nil
}

// enter opens a run, or opens and closes a key.
func (s *Queue) enter() tea.Cmd {
	r := s.rows[s.table.Cursor]
	if r.entry != nil {
		return s.w.Shell.Open(r.entry.RunID, "")
	}
	s.open[r.key.Key] = !s.open[r.key.Key]
	s.at, s.stale = r.id(), true
	return nil
}

// chosen is the run under the cursor; on a key that is its first one.
func (s *Queue) chosen() []api.Run {
	r := s.rows[s.table.Cursor]
	e := r.entry
	switch {
	case e != nil:
	case len(r.key.Waiting) > 0:
		e = &r.key.Waiting[0]
	case len(r.key.Running) > 0:
		e = &r.key.Running[0]
	default:
		return nil
	}
	if known, ok := s.w.Board.Run(e.RunID); ok {
		return []api.Run{known}
	}
	return nil
}

func (s *Queue) key(k string) tea.Cmd {
	if by, ok := moves(k, s.table.Page(), len(s.rows)); ok {
		s.move(by)
		return nil
	}
	if s.table.Cursor >= len(s.rows) {
		return nil
	}
	if keymap.Open.Is(k) {
		return s.enter()
	}
	if keymap.Hold.Is(k) && s.rows[s.table.Cursor].entry == nil {
		return holdKey(s.w, s.rows[s.table.Cursor].key)
	}
	if r := s.rows[s.table.Cursor]; keymap.Describe.Is(k) && r.entry == nil {
		return s.describe(r.key)
	} else if keymap.Yank.Is(k) && r.entry == nil {
		return ui.Send(ui.Copy{Text: r.key.Key})
	}
	list := s.chosen()
	if len(list) == 0 {
		return nil
	}
	switch {
	case keymap.Describe.Is(k):
		return s.w.Shell.Open(list[0].ID, "facts")
	case keymap.Logs.Is(k):
		return s.w.Shell.Open(list[0].ID, "console")
	case keymap.Hold.Is(k):
		return holdRuns(s.w, list)
	case keymap.Cancel.Is(k):
		if s.rows[s.table.Cursor].entry == nil {
			return said(s.w.Lang.T("open the key with enter and choose a run"))
		}
		return cancelRuns(s.w, list)
	case keymap.QueueOn.Is(k):
		return queueOn(s.w, list)
	case keymap.Yank.Is(k):
		return ui.Send(ui.Copy{Text: list[0].ID})
	}
	return nil
}

// describe shows all that is known of a key.
func (s *Queue) describe(k api.LiveKey) tea.Cmd {
	w, l := s.w, s.w.Lang
	list := []fact{{l.T("key"), k.Key}, {l.T("takes"), l.N(k.Cap, "1 run at a time", "%d runs at a time", counted(k.Cap)...)}}
	if k.Held != nil {
		list = append(list, fact{l.T("held"), l.Reason(*k.Held)})
	}
	names := func(entries []api.QueueEntry) string {
		var out []string
		for _, e := range entries {
			out = append(out, strings.TrimSpace(run.Short(e.RunID)+" "+widget.Plain(e.Name)))
		}
		return strings.Join(out, ", ")
	}
	if len(k.Running) > 0 {
		list = append(list, fact{l.T("running"), names(k.Running)})
	}
	if n := k.WaitingTotal; n > 0 {
		list = append(list, fact{l.F("%d waiting", n), names(k.Waiting)})
	}
	if len(k.Waiting) > 0 && k.Waiting[0].Reason != nil {
		list = append(list, fact{l.T("why"), l.Reason(*k.Waiting[0].Reason)})
	}
	list = append(list, fact{l.T("command"), w.Command("queue")})
	return w.Shell.Ask(dialog.NewReader(w, widget.Plain(k.Key), func(width int) []string { return factLines(w, list, width) }))
}

// View implements ui.Screen.
func (s *Queue) View(w, h int) []string {
	s.refresh()
	s.width = w
	if len(s.rows) == 0 {
		words := s.w.Lang.T("Nothing runs and nothing waits.")
		if s.filter.re != nil {
			return widget.Block(empty(s.w, s.filter, w), w, h, s.w.Theme.Style)
		}
		return widget.Block([]string{"", "  " + s.w.Theme.Paint(theme.Dim, words)}, w, h, s.w.Theme.Style)
	}
	s.table.Move(0, len(s.rows))
	s.at = s.rows[s.table.Cursor].id()
	l := s.w.Lang
	s.table.Columns = []widget.Column{
		{Title: l.T("KEY"), Width: 14, Grow: 1},
		{Title: l.T("CAP"), Width: 6, Drop: 3},
		{Title: l.T("RUNNING"), Width: 10, Grow: 1},
		{Title: l.T("WAITING (in order)"), Width: 18, Grow: 2, Drop: 1},
		{ID: "why", Title: l.T("WHY THE FIRST WAITS"), Width: 22, Grow: 3, Drop: 2},
	}
	return s.table.View(s, w, h, s.w.Theme)
}

// Len implements widget.Rows.
func (s *Queue) Len() int { return len(s.rows) }

// Marked implements widget.Rows.
func (*Queue) Marked(int) bool { return false }

// Cells implements widget.Rows.
func (s *Queue) Cells(i int) []widget.Cell {
	r := s.rows[i]
	if r.entry != nil {
		return s.runCells(r)
	}
	k := r.key
	var running []string
	for _, e := range k.Running {
		running = append(running, run.Short(e.RunID))
	}
	waiting := []widget.Span{}
	for n, e := range k.Waiting {
		if n > 0 {
			waiting = append(waiting, widget.Span{Text: "  "})
		}
		if n == 4 && k.WaitingTotal > 5 {
			waiting = append(waiting, widget.Span{Text: s.w.Lang.F("and %d more", k.WaitingTotal-n), Role: theme.Dim})
			break
		}
		name := widget.Plain(e.Name)
		if name == "" {
			name = run.Short(e.RunID)
		}
		waiting = append(waiting, widget.Span{Text: fmt.Sprintf("%d ", n+1), Role: theme.Dim}, widget.Span{Text: s.w.Theme.Style.Crop(name, 20)})
	}
	why := ""
	if len(k.Waiting) > 0 && k.Waiting[0].Reason != nil {
		why = widget.Plain(s.w.Lang.Reason(*k.Waiting[0].Reason))
	} else if k.Held != nil {
		why = widget.Plain(s.w.Lang.Reason(*k.Held))
	}
	limit := widget.Cell{Text: fmt.Sprintf("%d/%d", len(k.Running), k.Cap), Role: theme.Dim}
	if k.Held != nil {
		limit = widget.Cell{Spans: []widget.Span{{Text: s.w.Theme.Glyph("‖ ", "= "), Role: theme.Warn}, {Text: s.w.Lang.T("held")}}}
	}
	fold := s.w.Theme.Glyph("▸ ", "+ ")
	if s.open[k.Key] {
		fold = s.w.Theme.Glyph("▾ ", "- ")
	}
	if len(k.Running)+k.WaitingTotal == 0 {
		fold = "  "
	}
	return []widget.Cell{
		{Spans: []widget.Span{{Text: fold, Role: theme.Dim}, {Text: widget.Plain(k.Key)}}},
		limit,
		{Text: orDash(strings.Join(running, ", "))},
		{Spans: waiting},
		{Text: why, Role: theme.Dim},
	}
}

func orDash(s string) string {
	if s == "" {
		return text.Dash
	}
	return s
}

func (s *Queue) runCells(r queueRow) []widget.Cell {
	e := r.entry
	held := e.Reason != nil && e.Reason.Code == run.ReasonHeld
	mark := markCell(s.w, e.Status, held)
	place, why := s.w.Lang.Status(e.Status, held), ""
	if e.Position > 0 {
		place = s.w.Lang.Ordinal(e.Position, text.Ordinal(e.Position))
	}
	if e.Reason != nil {
		why = widget.Plain(s.w.Lang.Reason(*e.Reason))
	}
	return []widget.Cell{
		{Spans: []widget.Span{{Text: "    "}, {Text: mark.Text + " ", Role: mark.Role}, {Text: run.Short(e.RunID)}}},
		{},
		{Text: place, Role: theme.Dim},
		{Text: widget.Plain(e.Name)},
		{Text: why, Role: theme.Dim},
	}
}

// Detail implements widget.Rows: why the first one waits, in full.
func (s *Queue) Detail(i, width int) []string {
	if i >= len(s.rows) || width < 40 {
		return nil
	}
	r := s.rows[i]
	e := r.entry
	if e == nil && len(r.key.Waiting) > 0 {
		e = &r.key.Waiting[0]
	}
	if e == nil || e.Reason == nil {
		return nil
	}
	words, more := s.w.Lang.Reason(*e.Reason), ""
	if known, ok := s.w.Board.Run(e.RunID); ok {
		more = frees(s.w, known)
	}
	switch {
	case more != "":
		words += ": " + more
	case text.Cells(words) < s.table.WidthOf("why", width):
		return nil // it stands in the row
	}
	var out []string
	for _, line := range text.Wrap(widget.Plain(words), width-6) {
		out = append(out, "     "+s.w.Theme.Paint(theme.Dim, line))
	}
	return out[:min(len(out), 2)]
}
