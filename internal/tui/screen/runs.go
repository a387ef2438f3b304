package screen

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// Runs is the list of runs.
type Runs struct {
	w      *ui.World
	table  widget.Table
	filter filter
	marked map[string]bool

	// rows are those that the filter lets through, sorted; seen says of which
	// picture they were made.
	rows  []*api.Run
	seen  int
	stale bool
	// at is the run under the cursor: it keeps it while rows move.
	at string
	// width and the columns' own widths of the last look, for the mouse.
	width, progressWidth int
	detail               int
}

// NewRuns makes the screen.
func NewRuns(w *ui.World) *Runs { return &Runs{w: w, marked: map[string]bool{}, seen: -1} }

// Title implements ui.Screen.
func (*Runs) Title() string { return "Runs" }

// Close implements ui.Screen.
func (*Runs) Close() {}

// Keys implements ui.Screen.
func (*Runs) Keys() []keymap.Group {
	return []keymap.Group{
		{Title: "Runs", Bindings: []keymap.Binding{
			keymap.Open, keymap.Logs, keymap.QueueOn, keymap.Cancel, keymap.New, keymap.Hold, keymap.Mark, keymap.Describe, keymap.Yank, keymap.Delete, keymap.NewSweep,
		}},
		{Title: "Sort", Bindings: []keymap.Binding{
			keymap.SortRun, keymap.SortName, keymap.SortWhere, keymap.SortStatus, keymap.SortLoss, keymap.SortAge,
		}},
		keymap.Moving(), keymap.General(),
	}
}

// SetFilter implements ui.Filtered.
func (s *Runs) SetFilter(pattern string) error {
	f, err := newFilter(pattern)
	if err != nil {
		return err
	}
	s.filter, s.stale = f, true
	return nil
}

// FilterText implements ui.Filtered.
func (s *Runs) FilterText() string { return s.filter.pattern }

// Note implements ui.Screen.
func (s *Runs) Note() string {
	total := max(s.w.Board.Counts().Runs, len(s.w.Board.Runs()))
	note := s.w.Lang.F("%s of %s runs", text.Count(len(s.rows)), text.Count(total))
	if len(s.marked) > 0 {
		note = s.w.Lang.F("%d marked", len(s.marked)) + "  " + note
	}
	if s.filter.re != nil {
		note += "  /" + s.filter.pattern
	}
	return note
}

// refresh makes the rows anew when the picture, the filter or the order changed.
func (s *Runs) refresh() {
	if s.seen == s.w.Board.Version() && !s.stale {
		return
	}
	s.seen, s.stale = s.w.Board.Version(), false
	all := s.w.Board.Runs()
	s.rows = s.rows[:0]
	for i := range all {
		if s.filter.re == nil || s.filter.lets(s.line(all[i])) {
			s.rows = append(s.rows, &all[i])
		}
	}
	s.sort()
	if s.at == "" {
		return
	}
	for i := range s.rows {
		if s.rows[i].ID == s.at {
			s.table.Cursor = i
			return
		}
	}
	s.at = ""
}

// line is what a filter looks at.
func (s *Runs) line(r api.Run) string {
	return strings.Join([]string{
		r.ID, r.Name, phrase.Where(r.Row), string(r.Status), s.w.Lang.Status(r.Status, phrase.Held(r)), r.Error, waits(s.w, r), r.User,
		strings.Join(r.Options.Tags, " "),
	}, " ")
}

// rank puts what goes on first.
func rank(s run.Status) int {
	switch s {
	case run.Running:
		return 0
	case run.Disconnected:
		return 1
	case run.Queued:
		return 2
	case run.Succeeded, run.Failed, run.Cancelled, run.Interrupted:
	}
	return 3
}

func (s *Runs) sort() {
	by := map[string]func(a, b *api.Run) int{
		"": func(a, b *api.Run) int {
			if d := rank(a.Status) - rank(b.Status); d != 0 {
				return d
			}
			if a.Status == run.Queued {
				return cmp.Compare(a.Seq, b.Seq)
			}
			return cmp.Compare(b.Seq, a.Seq)
		},
		"run":   func(a, b *api.Run) int { return strings.Compare(a.ID, b.ID) },
		"name":  func(a, b *api.Run) int { return strings.Compare(a.Name, b.Name) },
		"where": func(a, b *api.Run) int { return strings.Compare(phrase.Where(a.Row), phrase.Where(b.Row)) },
		"progress": func(a, b *api.Run) int {
			return slices.Index(run.Statuses(), a.Status) - slices.Index(run.Statuses(), b.Status)
		},
		"loss": func(a, b *api.Run) int {
			_, x := lossOf(*a)
			_, y := lossOf(*b)
			return cmp.Compare(x, y)
		},
		"age": func(a, b *api.Run) int { return cmp.Compare(b.Seq, a.Seq) },
	}[s.table.Sort]
	slices.SortStableFunc(s.rows, func(a, b *api.Run) int {
		d := by(a, b)
		if s.table.Desc {
			d = -d
		}
		return d
	})
}

func (s *Runs) sortBy(column string) {
	s.table.SortBy(column)
	s.stale = true
}

// chosen are the marked runs, else the one under the cursor.
func (s *Runs) chosen() []api.Run {
	s.refresh()
	var out []api.Run
	for _, r := range s.w.Board.Runs() {
		if s.marked[r.ID] {
			out = append(out, r)
		}
	}
	if len(out) == 0 && s.table.Cursor < len(s.rows) {
		out = append(out, *s.rows[s.table.Cursor])
	}
	return out
}

func (s *Runs) move(by int) {
	s.table.Move(by, len(s.rows))
	if s.table.Cursor < len(s.rows) {
		s.at = s.rows[s.table.Cursor].ID
	}
}

// Update implements ui.Screen.
func (s *Runs) Update(msg tea.Msg) tea.Cmd {
	s.refresh()
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return s.key(msg.String())
	case tea.MouseWheelMsg:
		s.move(wheel(msg))
	case tea.MouseClickMsg:
		return s.click(msg.X, msg.Y)
	}
	return nil
}

func wheel(msg tea.MouseWheelMsg) int {
	if msg.Button == tea.MouseWheelUp {
		return -3
	}
	if msg.Button == tea.MouseWheelDown {
		return 3
	}
	return 0
}

func (s *Runs) click(x, y int) tea.Cmd {
	if y == 0 {
		if column := s.table.ColumnAt(x, s.width); column != "" && column != "mark" {
			s.sortBy(column)
		}
		return nil
	}
	i := s.table.At(y, len(s.rows), s.detail)
	switch {
	case i < 0:
		return nil
	case i == s.table.Cursor:
		return s.w.Shell.Open(s.rows[i].ID, "")
	}
	s.move(i - s.table.Cursor)
	return nil
}

func (s *Runs) key(k string) tea.Cmd {
	if by, ok := moves(k, s.table.Page(), len(s.rows)); ok {
		s.move(by)
		return nil
	}
	for column, b := range map[string]keymap.Binding{
		"run": keymap.SortRun, "name": keymap.SortName, "where": keymap.SortWhere,
		"progress": keymap.SortStatus, "loss": keymap.SortLoss, "age": keymap.SortAge,
	} {
		if b.Is(k) {
			s.sortBy(column)
			return nil
		}
	}
	if keymap.NewSweep.Is(k) {
		return s.w.Shell.Ask(dialog.NewSweep(s.w))
	}
	if keymap.New.Is(k) {
		return queueOn(s.w, nil)
	}
	list := s.chosen()
	if len(list) == 0 {
		return nil
	}
	at := list[0]
	if s.table.Cursor < len(s.rows) {
		at = *s.rows[s.table.Cursor]
	}
	switch {
	case keymap.Open.Is(k):
		return s.w.Shell.Open(at.ID, "")
	case keymap.Logs.Is(k):
		return s.w.Shell.Open(at.ID, "console")
	case keymap.Describe.Is(k):
		return s.w.Shell.Open(at.ID, "facts")
	case keymap.Mark.Is(k):
		if s.marked[at.ID] {
			delete(s.marked, at.ID)
		} else {
			s.marked[at.ID] = true
		}
		s.move(1)
	case keymap.Yank.Is(k):
		return ui.Send(ui.Copy{Text: at.ID})
	case keymap.QueueOn.Is(k):
		return queueOn(s.w, []api.Run{at})
	case keymap.Cancel.Is(k):
		return s.done(cancelRuns(s.w, list))
	case keymap.Hold.Is(k):
		return s.done(holdRuns(s.w, list))
	case keymap.Delete.Is(k):
		return s.done(deleteRuns(s.w, list))
	case keymap.Back.Is(k):
		clear(s.marked)
	}
	return nil
}

// done takes the marks away that an action was for.
func (s *Runs) done(cmd tea.Cmd) tea.Cmd {
	clear(s.marked)
	return cmd
}

// moves tells how far a key moves the cursor in a list.
func moves(k string, page, rows int) (int, bool) {
	switch {
	case keymap.Up.Is(k):
		return -1, true
	case keymap.Down.Is(k):
		return 1, true
	case keymap.PageUp.Is(k):
		return -page, true
	case keymap.PageDown.Is(k):
		return page, true
	case keymap.Home.Is(k):
		return -rows, true
	case keymap.End.Is(k):
		return rows, true
	}
	return 0, false
}

// View implements ui.Screen.
func (s *Runs) View(w, h int) []string {
	s.refresh()
	s.width = w
	if len(s.rows) == 0 {
		return widget.Block(empty(s.w, s.filter, w), w, h, s.w.Theme.Style)
	}
	l := s.w.Lang
	s.table.Columns = []widget.Column{
		{ID: "mark", Width: 1},
		{ID: "run", Title: l.T("RUN"), Width: 8, Drop: 4},
		{ID: "name", Title: l.T("NAME"), Width: 12, Grow: 3},
		{ID: "where", Title: l.T("WHERE"), Width: 12, Grow: 1, Drop: 2},
		{ID: "progress", Title: l.T("PROGRESS"), Width: 16, Grow: 5},
		{ID: "loss", Title: l.T("LOSS"), Width: 8, Right: true, Drop: 3},
		{ID: "user", Title: l.T("USER"), Width: 8, Drop: 6},
		{ID: "age", Title: l.T("AGE"), Width: 4, Right: true, Drop: 1},
	}
	switch {
	case w < 60:
		s.table.Columns[2].Width, s.table.Columns[4].Width = 10, 14
	case w >= 100:
		s.table.Columns[2].Width, s.table.Columns[4].Width = 18, 30
	}
	if w < 130 || !s.anyUser() {
		s.table.Columns = slices.Delete(s.table.Columns, 6, 7)
	}
	s.progressWidth = s.table.WidthOf("progress", w)
	if s.table.Cursor < len(s.rows) {
		s.at = s.rows[s.table.Cursor].ID
		s.detail = len(s.Detail(s.table.Cursor, w))
	}
	return s.table.View(s, w, h, s.w.Theme)
}

func (s *Runs) anyUser() bool {
	return slices.ContainsFunc(s.rows[:min(len(s.rows), 200)], func(r *api.Run) bool { return r.User != "" })
}

// empty is what a list without lines says.
func empty(w *ui.World, f filter, width int) []string {
	words := []string{w.Lang.T("No runs yet."), "", w.Lang.T("Start one with n, or in a shell with"), "  " + w.Command("run train.py")}
	switch {
	case !w.Board.Whole():
		words = []string{w.Lang.T("Connecting…")}
	case f.re != nil:
		words = []string{w.Lang.F("Nothing matches /%s", f.pattern), w.Lang.T("esc shows everything again")}
	}
	out := []string{""}
	for _, line := range words {
		out = append(out, "  "+w.Theme.Paint(theme.Dim, w.Theme.Style.Crop(line, max(0, width-3))))
	}
	return out
}

// Len implements widget.Rows.
func (s *Runs) Len() int { return len(s.rows) }

// Marked implements widget.Rows.
func (s *Runs) Marked(i int) bool { return s.marked[s.rows[i].ID] }

// Cells implements widget.Rows.
func (s *Runs) Cells(i int) []widget.Cell {
	r := *s.rows[i]
	name := widget.Plain(r.Name)
	if name == "" {
		name = s.w.Lang.T("graph")
	}
	loss, _ := lossOf(r)
	cells := []widget.Cell{
		markCell(s.w, r.Status, phrase.Held(r)),
		{Text: run.Short(r.ID), Role: theme.Dim},
		{Text: name},
		{Text: phrase.Where(r.Row), Role: theme.Dim},
		progressCell(s.w, r, s.progressWidth),
		{Text: loss},
	}
	if len(s.table.Columns) == 8 {
		cells = append(cells, widget.Cell{Text: widget.Plain(r.User), Role: theme.Dim})
	}
	return append(cells, widget.Cell{Text: age(s.w, r), Role: theme.Dim})
}

// Detail implements widget.Rows: what doesn't fit into the row, where it helps.
func (s *Runs) Detail(i, width int) []string {
	r := *s.rows[i]
	var words string
	switch r.Status {
	case run.Queued:
		words = waits(s.w, r)
		if f := frees(s.w, r); f != "" {
			words += ": " + f
		} else if text.Cells(words) < s.progressWidth-6 {
			words = ""
		}
	case run.Running, run.Disconnected, run.Succeeded, run.Cancelled:
	case run.Failed, run.Interrupted:
		if words = failure(s.w, r); text.Cells(words) < s.progressWidth {
			words = ""
		}
	}
	if words == "" || width < 40 {
		return nil
	}
	const indent = 14
	var out []string
	for _, line := range text.Wrap(words, width-indent-1) {
		out = append(out, strings.Repeat(" ", indent)+s.w.Theme.Paint(theme.Dim, line))
	}
	return out[:min(len(out), 3)]
}
