package screen

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/nodestate"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/widget"
)

// overview is nodes or facts on the left, charts beside them, output below.
func (s *Run) overview(w, h int) []string {
	bottom := max(4, h/3)
	top := h - bottom
	if h < 12 {
		bottom, top = h, 0
	}
	var out []string
	if top > 0 {
		leftW := min(max(w/3, 30), 44)
		if w < 60 {
			leftW = w
		}
		left := s.nodesBox(leftW, top)
		if leftW == w {
			out = left
		} else {
			charts := s.metrics.charts(s.w, w-leftW, top, 30, 2, s.chartsTop)
			for i := range left {
				out = append(out, left[i]+charts[i])
			}
		}
	}
	return append(out, s.consoleBox(w, bottom, false)...)
}

// nodesBox lists the nodes of a graph; a script has none, and shows what is
// known of it.
func (s *Run) nodesBox(w, h int) []string {
	th, room := s.w.Theme, w-4
	nodes := s.nodes.Nodes()
	if r := s.now(); len(nodes) == 0 || r.Options.Script != nil || r.Options.Command != nil {
		var lines []string
		for _, f := range s.summary() {
			lines = append(lines, th.Paint(theme.Dim, text.Pad(f.name, 10, false))+f.text)
		}
		return widget.Box{Title: s.w.Lang.T("run")}.View(lines, w, h, th)
	}
	// What runs is what a person looks for: the list ends with it.
	first := 0
	if len(nodes) > h-2 {
		last := len(nodes) - 1
		for i, n := range nodes {
			if n.Status == nodestate.Running {
				last = i
			}
		}
		first = max(0, min(last-(h-2)/2, len(nodes)-(h-2)))
	}
	var lines []string
	for _, n := range nodes[first:] {
		mark, role := s.nodeMark(n)
		what := ""
		switch {
		case n.Status == nodestate.Failed:
			what = widget.Plain(n.Error)
		case n.Progress.Known():
			what = s.w.Lang.F("epoch %s", progressCount(n.Progress))
		case n.Over() && n.Ended.After(n.Started):
			what = text.Duration(n.Ended.Sub(n.Started))
		}
		name := th.Style.Crop(widget.Plain(n.ID), max(8, room/2))
		lines = append(lines, th.Paint(role, mark)+" "+text.Pad(name, max(8, room/2), false)+" "+th.Paint(theme.Dim, what))
	}
	note := fmt.Sprintf("%d/%d", s.nodes.Over(), len(nodes))
	return widget.Box{Title: s.w.Lang.T("nodes"), Note: note}.View(lines, w, h, th)
}

func progressCount(p nodestate.Progress) string {
	if p.Epochs == 0 {
		return strconv.Itoa(p.Epoch)
	}
	return fmt.Sprintf("%d/%d", p.Epoch, p.Epochs)
}

func (s *Run) nodeMark(n nodestate.Node) (string, theme.Role) {
	status := run.Queued
	switch n.Status {
	case nodestate.Running, nodestate.Progressing:
		status = run.Running
	case nodestate.Completed, nodestate.Cached:
		status = run.Succeeded
	case nodestate.Failed:
		status = run.Failed
	case nodestate.Skipped:
		status = run.Cancelled
	case nodestate.Interrupted:
		status = run.Interrupted
	}
	if status == run.Running && !s.now().Status.Active() {
		status = run.Interrupted // its end was never told
	}
	return s.w.Theme.Style.Mark(status, false), theme.Of(text.MarkColour(status, false))
}

func (s *Run) consoleBox(w, h int, focus bool) []string {
	th, o := s.w.Theme, s.output
	note := ""
	switch {
	case o.ended:
		note = s.w.Lang.T("ended")
	case o.follow:
		note = s.w.Lang.T("following")
	default:
		note = s.w.Lang.T("paused, f follows")
	}
	if o.size > 0 {
		note += th.Glyph(" · ", " - ") + text.Bytes(o.size)
	}
	if o.dropped > 0 {
		note += th.Glyph(" · ", " - ") + s.w.Lang.F("%s lines let go", text.Count(o.dropped))
	}
	if o.missed > 0 {
		note += th.Glyph(" · ", " - ") + s.w.Lang.F("%s bytes skipped", text.Count(int(o.missed)))
	}
	if w < 60 || focus {
		// No frame: a person reads, and marks text with the mouse.
		lines := o.view(s.w, w, h-1)
		dash := th.Glyph("─", "-")
		rule := th.Paint(theme.Border, strings.Repeat(dash, max(0, w-text.Cells(note)-4))) + th.Paint(theme.Dim, " "+note+" ") + th.Paint(theme.Border, dash+dash)
		return append([]string{widget.Fit(rule, w, th.Style)}, lines...)
	}
	return widget.Box{Title: s.w.Lang.T("console"), Note: note, Focus: focus}.View(o.view(s.w, w-4, h-2), w, h, th)
}

// shownEvents are those that the filter lets through.
func (s *Run) shownEvents() []api.Event {
	if s.eventFilter.re == nil {
		return s.events
	}
	var out []api.Event
	for _, e := range s.events {
		if s.eventFilter.lets(e.Type + " " + string(e.Payload)) {
			out = append(out, e)
		}
	}
	return out
}

type eventRows struct {
	s    *Run
	list []api.Event
}

func (r eventRows) Len() int                 { return len(r.list) }
func (eventRows) Marked(int) bool            { return false }
func (r eventRows) Detail(i, w int) []string { return r.s.eventDetail(r.list[i], w) }

func (r eventRows) Cells(i int) []widget.Cell {
	e := r.list[i]
	role := theme.Plain
	if e.Type == run.EventRunWarning || e.Type == run.EventExecutionError {
		role = theme.Warn
	}
	return []widget.Cell{
		{Text: strconv.FormatInt(e.Cursor, 10), Role: theme.Dim},
		{Text: e.TS.Local().Format("15:04:05.000"), Role: theme.Dim},
		{Text: widget.Plain(e.Type), Role: role},
		{Text: widget.Plain(text.Compact(e.Payload[:min(len(e.Payload), 1<<10)])), Role: theme.Dim},
	}
}

// eventDetail is the whole payload of the event under the cursor.
func (s *Run) eventDetail(e api.Event, w int) []string {
	payload := widget.Plain(text.Compact(e.Payload[:min(len(e.Payload), 8<<10)]))
	if text.Cells(payload) < w-50 {
		return nil
	}
	var out []string
	for _, line := range widget.Chop(payload, max(8, w-4)) {
		out = append(out, "    "+s.w.Theme.Paint(theme.Dim, line))
	}
	return out[:min(len(out), 6)]
}

func (s *Run) eventList(w, h int) []string {
	rows := eventRows{s, s.shownEvents()}
	if len(rows.list) == 0 {
		return []string{"", "  " + s.w.Theme.Paint(theme.Dim, s.w.Lang.T("no events yet"))}
	}
	s.eventTable.Columns = []widget.Column{
		{Title: "#", Width: 6, Right: true, Drop: 2},
		{Title: s.w.Lang.T("TIME"), Width: 12, Drop: 1},
		{Title: s.w.Lang.T("EVENT"), Width: 18},
		{Title: s.w.Lang.T("PAYLOAD"), Width: 10, Grow: 1},
	}
	if s.eventsFollow {
		s.eventTable.Cursor = len(rows.list) - 1
	}
	return s.eventTable.View(rows, w, h, s.w.Theme)
}

// outputs is the place of what nodes put out.
func (s *Run) outputs(w int) []string {
	l, r := s.w.Lang, s.now()
	words := l.T("No output of a node was recorded for this run. Files that it put out are on 6.")
	if r.Options.Script != nil || r.Options.Command != nil {
		words = l.T("A script has no nodes whose outputs could be recorded. Files that it put out are on 6.")
	}
	return dimmed(s.w, text.Wrap(words, max(10, w-4)), w)
}

type fact struct{ name, text string }

// summary is the few facts that stand where a graph has its nodes.
func (s *Run) summary() []fact {
	l, r := s.w.Lang, s.now()
	list := []fact{{l.T("status"), l.Status(r.Status, phrase.Held(r))}}
	add := func(name, value string) {
		if value != "" {
			list = append(list, fact{l.T(name), widget.Plain(value)})
		}
	}
	if r.Status == run.Queued {
		add("why", waits(s.w, r))
		add("", frees(s.w, r))
	} else if !r.Status.Active() && r.Status != run.Succeeded {
		add("why", failure(s.w, r))
	}
	add("where", phrase.Where(r.Row))
	add("command", phrase.What(r.Options))
	if p, ok := progressOf(s.w.Board.Progress(s.id)); ok {
		add("epoch", p.count())
	}
	for _, m := range phrase.FinalMetrics(r.FinalMetrics) {
		name, value, _ := strings.Cut(m, " ")
		list = append(list, fact{s.w.Theme.Style.Crop(name, 9), value})
	}
	return list
}

// facts is everything that is known of the run.
func (s *Run) facts(w, h int) []string {
	th, l, r := s.w.Theme, s.w.Lang, s.now()
	o := r.Options
	var list []fact
	add := func(name, value string) {
		if value = widget.Plain(value); value != "" {
			list = append(list, fact{l.T(name), value})
		}
	}
	moment := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.Local().Format(time.DateTime) + "  " + l.F("%s ago", text.Age(s.w.Now().Sub(*t)))
	}
	add("id", r.ID)
	add("status", l.Status(r.Status, phrase.Held(r)))
	if r.Status == run.Queued {
		add("why", waits(s.w, r))
	} else if !r.Status.Active() && r.Status != run.Succeeded {
		add("why", failure(s.w, r))
		add("end class", string(r.EndClass))
	}
	add("metrics", strings.Join(phrase.FinalMetrics(r.FinalMetrics), ", "))
	add("where", phrase.Where(r.Row))
	add("submitted", moment(&r.CreatedAt))
	add("started", moment(r.StartedAt))
	add("ended", moment(r.FinishedAt))
	if took := phrase.Took(r.Row, s.w.Now()); took > 0 {
		add("took", text.Duration(took))
	}
	switch {
	case o.Script != nil:
		add("script", strings.Join(append([]string{o.Script.Path}, o.Script.Args...), " "))
		add("folder", o.Script.Cwd)
		add("python", o.Script.Interpreter)
	case o.Command != nil:
		add("command", strings.Join(o.Command.Argv, " "))
		add("folder", o.Command.Cwd)
	}
	if code, ok := phrase.ExitCode(r.Row); ok && !r.Status.Active() {
		add("exit code", strconv.Itoa(code))
	}
	add("peak memory", phrase.PeakMemory(r.Row))
	add("isolation", phrase.Isolation(r.Row))
	add("left over", strings.Join(phrase.Leftovers(r.Row), ", "))
	add("tags", strings.Join(o.Tags, ", "))
	add("note", o.Note)
	add("git", r.GitCommit)
	add("user", r.User)
	if r.RerunOf != "" {
		add("copy of", run.Short(r.RerunOf))
	}
	if r.Attempt > 1 {
		add("attempt", strconv.Itoa(r.Attempt))
	}
	var lines []string
	for _, f := range list {
		for i, line := range text.Wrap(f.text, max(10, w-18)) {
			name := f.name
			if i > 0 {
				name = ""
			}
			lines = append(lines, "  "+th.Paint(theme.Dim, text.Pad(name, 14, false))+line)
		}
	}
	if tail := phrase.OutputTail(r.Row); tail != "" && r.Status != run.Succeeded {
		lines = append(lines, "", "  "+th.Paint(theme.Dim, l.T("last output")))
		for line := range strings.SplitSeq(strings.TrimRight(tail, "\n"), "\n") {
			lines = append(lines, "    "+widget.Line(widget.Bare(line)))
		}
	}
	lines = append(lines, "", "  "+th.Paint(theme.Dim, s.w.Command("runs show "+run.Short(s.id))))
	s.factsTop = max(0, min(s.factsTop, len(lines)-h))
	return lines[s.factsTop:]
}
