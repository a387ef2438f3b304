package screen

import (
	"context"
	"maps"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/nodestate"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// The tabs of a run.
const (
	tabOverview = iota
	tabCharts
	tabConsole
	tabEvents
	tabOutputs
	tabFiles
	tabFacts
)

func tabNames() []string {
	return []string{"overview", "charts", "console", "events", "outputs", "files", "facts"}
}

const (
	// eventsKept is how many events of a log are held.
	eventsKept = 2000
	eventsPage = 2000
)

// Run is one run: its nodes, charts, output, events, files and facts.
type Run struct {
	w      *ui.World
	id     string
	ctx    context.Context //nolint:containedctx // it ends what the screen reads
	cancel context.CancelFunc

	// row is as it was read last, gone says that it was deleted.
	row    api.Run
	loaded bool
	gone   bool
	err    error

	tab     int
	nodes   nodestate.Board
	events  []api.Event
	cursor  int64
	ended   bool
	metrics metrics
	output  *output
	files   []api.Artifact
	// sizes are those of files that say nothing of theirs.
	sizes map[string]int64

	eventTable, fileTable widget.Table
	eventFilter           filter
	eventsFollow          bool
	factsTop, chartsTop   int
}

// NewRun makes the screen of a run; Init reads it.
func NewRun(w *ui.World, id, tab string) *Run {
	ctx, cancel := context.WithCancel(w.Context)
	s := &Run{w: w, id: id, ctx: ctx, cancel: cancel, output: newOutput(w.Theme.Style.Colour), eventsFollow: true}
	for i, name := range tabNames() {
		if name == tab {
			s.tab = i
		}
	}
	if r, ok := w.Board.Run(id); ok {
		s.row = r
	}
	return s
}

// Title implements ui.Screen.
func (*Run) Title() string { return "Run" }

// Close implements ui.Screen.
func (s *Run) Close() { s.cancel() }

// Keys implements ui.Screen.
func (*Run) Keys() []keymap.Group {
	return []keymap.Group{
		{Title: "Run", Bindings: []keymap.Binding{
			keymap.Tab, keymap.Left, keymap.Right, keymap.Logs, keymap.Describe, keymap.Cancel, keymap.QueueOn, keymap.Hold, keymap.Yank, keymap.Delete,
		}},
		{Title: "Console and events", Bindings: []keymap.Binding{keymap.Follow, keymap.Wrap}},
		{Title: "Files", Bindings: []keymap.Binding{keymap.OpenFile, keymap.YankPath}},
		keymap.Moving(), keymap.General(),
	}
}

// Update implements ui.Screen.
func (s *Run) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case runLoaded:
		if msg.of == s {
			return s.takeLoaded(msg)
		}
	case runEvents:
		if msg.of == s {
			return s.takeEvents(msg)
		}
	case runOutput:
		if msg.of == s {
			return s.takeOutput(msg)
		}
	case runSizes:
		if msg.of == s {
			maps.Copy(s.sizes, msg.sizes)
		}
	case runPreview:
		if msg.of == s {
			return s.describeFile(msg)
		}
	case tea.KeyPressMsg:
		return s.key(msg.String())
	case tea.MouseWheelMsg:
		s.scroll(wheel(msg))
	case tea.MouseClickMsg:
		if msg.Y == 1 {
			s.clickTab(msg.X)
		}
	}
	return nil
}

func (s *Run) scroll(by int) {
	switch s.tab {
	case tabConsole, tabOverview:
		s.output.scroll(by)
	case tabEvents:
		s.eventTable.Move(by, len(s.shownEvents()))
		s.eventsFollow = s.eventTable.Cursor >= len(s.shownEvents())-1
	case tabFiles:
		s.fileTable.Move(by, len(s.files))
	case tabFacts:
		s.factsTop = max(0, s.factsTop+by)
	case tabCharts:
		s.chartsTop = max(0, min(s.chartsTop+sign(by), len(s.metrics.names)-1))
	}
}

func sign(n int) int { return max(-1, min(1, n)) }

func (s *Run) page() int {
	switch s.tab {
	case tabEvents:
		return s.eventTable.Page()
	case tabFiles:
		return s.fileTable.Page()
	}
	return max(1, s.output.page-1)
}

// now is the row as the feed has it, with what only a read of it has.
func (s *Run) now() api.Run {
	live, ok := s.w.Board.Run(s.id)
	if !ok {
		return s.row
	}
	if !s.loaded {
		return live
	}
	r := s.row
	r.Status, r.Error, r.EndClass, r.StartedAt, r.FinishedAt, r.Attempt = live.Status, live.Error, live.EndClass, live.StartedAt, live.FinishedAt, live.Attempt
	r.WorkerID, r.Devices, r.CancelRequestedAt, r.StoppingDeadline, r.PID = live.WorkerID, live.Devices, live.CancelRequestedAt, live.StoppingDeadline, live.PID
	r.QueuePosition, r.QueueReason, r.QueueReasonCode, r.QueueReasonParams = live.QueuePosition, live.QueueReason, live.QueueReasonCode, live.QueueReasonParams
	r.FinalMetrics, r.Options.Hold = live.FinalMetrics, live.Options.Hold
	return r
}

func (s *Run) key(k string) tea.Cmd {
	if by, ok := moves(k, s.page(), 1<<20); ok {
		s.scroll(by)
		return nil
	}
	r := s.now()
	switch {
	case keymap.Tab.Is(k):
		n, _ := strconv.Atoi(k)
		s.tab = n - 1
	case keymap.Left.Is(k):
		s.tab = (s.tab + len(tabNames()) - 1) % len(tabNames())
	case keymap.Right.Is(k):
		s.tab = (s.tab + 1) % len(tabNames())
	case keymap.Logs.Is(k):
		s.tab = tabConsole
	case keymap.Describe.Is(k):
		s.tab = tabFacts
	case keymap.Follow.Is(k):
		s.output.follow = !s.output.follow
		s.eventsFollow = s.output.follow
	case keymap.Wrap.Is(k):
		s.output.wrap = !s.output.wrap
	case keymap.Cancel.Is(k):
		return cancelRuns(s.w, []api.Run{r})
	case keymap.Hold.Is(k):
		return holdRuns(s.w, []api.Run{r})
	case keymap.Delete.Is(k):
		return deleteRuns(s.w, []api.Run{r})
	case keymap.QueueOn.Is(k):
		return queueOn(s.w, []api.Run{r})
	case keymap.Yank.Is(k):
		if s.tab == tabFiles && s.fileTable.Cursor < len(s.files) {
			return ui.Send(ui.Copy{Text: s.files[s.fileTable.Cursor].Path})
		}
		return ui.Send(ui.Copy{Text: s.id})
	case keymap.Open.Is(k) && s.tab == tabFiles:
		return s.openFile()
	case keymap.Back.Is(k):
		return s.w.Shell.Back()
	}
	return nil
}

// SetFilter implements ui.Filtered: it looks at the output, or at the events.
func (s *Run) SetFilter(pattern string) error {
	f, err := newFilter(pattern)
	if err != nil {
		return err
	}
	if s.tab == tabEvents {
		s.eventFilter = f
		return nil
	}
	s.output.filter = f
	return nil
}

// FilterText implements ui.Filtered.
func (s *Run) FilterText() string {
	if s.tab == tabEvents {
		return s.eventFilter.pattern
	}
	return s.output.filter.pattern
}

// InLog says that a person reads output: the mouse then marks text.
func (s *Run) InLog() bool { return s.tab == tabConsole || s.tab == tabEvents }

// Note implements ui.Screen.
func (s *Run) Note() string {
	switch {
	case s.gone:
		return s.w.Lang.T("this run was deleted")
	case s.err != nil:
		return widget.Plain(s.w.Lang.Error(s.err))
	case s.FilterText() != "":
		return "/" + s.FilterText()
	}
	return ""
}

// View implements ui.Screen.
func (s *Run) View(w, h int) []string {
	out := []string{s.head(w), s.tabs(w)}
	body := h - len(out)
	switch s.tab {
	case tabOverview:
		out = append(out, s.overview(w, body)...)
	case tabCharts:
		out = append(out, s.metrics.charts(s.w, w, body, 44, 3, s.chartsTop)...)
	case tabConsole:
		out = append(out, s.consoleBox(w, body, true)...)
	case tabEvents:
		out = append(out, s.eventList(w, body)...)
	case tabOutputs:
		out = append(out, s.outputs(w)...)
	case tabFiles:
		out = append(out, s.fileList(w, body)...)
	case tabFacts:
		out = append(out, s.facts(w, body)...)
	}
	return widget.Block(out, w, h, s.w.Theme.Style)
}

// head is what the run is and how it stands.
func (s *Run) head(w int) string {
	th, r := s.w.Theme, s.now()
	back := th.Paint(theme.Dim, " "+th.Glyph("‹", "<")+" ")
	left := back + th.Paint(theme.Dim, run.Short(s.id)) + "  " + th.Paint(theme.Strong, widget.Plain(phrase.Title(r.Row)))
	if r.ID == "" {
		return widget.Fit(left, w, th.Style)
	}
	held := phrase.Held(r)
	parts := []string{s.w.Lang.Status(r.Status, held)}
	switch {
	case r.Status == run.Queued && r.QueuePosition != nil:
		parts[0] += " " + s.w.Lang.Ordinal(*r.QueuePosition, text.Ordinal(*r.QueuePosition))
	case r.Status.Active() && r.CancelRequestedAt != nil:
		parts[0] = stopping(s.w, r)
	}
	if where := phrase.Where(r.Row); where != "" && r.CancelRequestedAt == nil {
		parts[0] = s.w.Lang.F("%s on %s", parts[0], where)
	}
	if took := phrase.Took(r.Row, s.w.Now()); took > 0 {
		parts = append(parts, text.Age(took))
	}
	if r.PID != nil {
		parts = append(parts, "pid "+strconv.Itoa(*r.PID))
	}
	mark := th.Paint(theme.Of(text.MarkColour(r.Status, held)), th.Style.Mark(r.Status, held))
	dot := th.Glyph(" · ", " - ")
	for len(parts) > 1 && text.Cells(strings.Join(parts, dot))+4 > w/2 {
		parts = parts[:len(parts)-1]
	}
	return widget.Sides(left, mark+" "+strings.Join(parts, dot)+" ", w, th.Style)
}

func (s *Run) tabs(w int) string {
	var b strings.Builder
	for i, name := range tabNames() {
		label := strconv.Itoa(i+1) + " " + s.w.Lang.T(name)
		if w < 76 && i != s.tab {
			label = strconv.Itoa(i + 1)
		}
		b.WriteString(" ")
		if i == s.tab {
			b.WriteString(s.w.Theme.PaintOn(true, theme.Accent, " "+label+" "))
		} else {
			b.WriteString(s.w.Theme.Paint(theme.Dim, " "+label+" "))
		}
	}
	return widget.Fit(b.String(), w, s.w.Theme.Style)
}

// clickTab chooses the tab at a cell.
func (s *Run) clickTab(x int) {
	at := 0
	for i, name := range tabNames() {
		width := text.Cells(s.w.Lang.T(name)) + 5
		if x >= at && x < at+width {
			s.tab = i
			return
		}
		at += width
	}
}
