package screen

import (
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/study"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// group is a sweep or a study: runs that belong together.
type group struct {
	sweep *api.SweepSummary
	study *api.StudySummary
}

func (g group) id() string {
	if g.sweep != nil {
		return g.sweep.SweepID
	}
	return g.study.StudyID
}

// kind is the word for it, and the command that is about it.
func (g group) kind() string {
	if g.sweep != nil {
		return "sweep"
	}
	return "study"
}

func (g group) name() string {
	if g.sweep != nil {
		return widget.Plain(g.sweep.Name)
	}
	return widget.Plain(g.study.Name)
}

func (g group) state() string {
	if g.sweep != nil {
		return string(g.sweep.State)
	}
	return string(g.study.State)
}

func (g group) status() run.Status {
	if g.sweep != nil {
		return phrase.SweepStatus(*g.sweep)
	}
	return phrase.StudyStatus(*g.study)
}

func (g group) created() time.Time {
	if g.sweep != nil {
		return g.sweep.CreatedAt
	}
	return g.study.CreatedAt
}

func (g group) user() string {
	if g.sweep != nil {
		return g.sweep.User
	}
	return g.study.User
}

// progress counts the runs that are through, and all of them.
func (g group) progress() (done, all int) {
	if g.sweep != nil {
		return phrase.SweepProgress(*g.sweep)
	}
	done = g.study.Repetitions - g.study.Counts[study.Waiting] - g.study.Counts[study.Going]
	return max(0, done), g.study.Repetitions
}

// left is the part of its runs that isn't through.
func (g group) left() float64 {
	done, all := g.progress()
	return 1 - float64(done)/float64(max(all, 1))
}

// best is what came out so far.
func (g group) best(w *ui.World) string {
	if g.sweep != nil {
		return phrase.SweepBest(*g.sweep)
	}
	return phrase.StudyResult(w.Theme.Style, *g.study)
}

// counts says how many runs stand how.
func (g group) counts(w *ui.World) string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+w.Lang.T(what))
		}
	}
	if g.sweep != nil {
		for _, s := range append(run.Statuses(), "missing") {
			add(g.sweep.Counts[s], string(s))
		}
	} else {
		for _, o := range study.Outcomes() {
			add(g.study.Counts[o], strings.ReplaceAll(string(o), "_", " "))
		}
	}
	return strings.Join(parts, ", ")
}

// command is a line of the command line that is about the group.
func (g group) command(w *ui.World, verb string) string {
	return w.Command(g.kind() + " " + verb + " " + run.Short(g.id()))
}

// over tells whether nothing of it goes on.
func (g group) over() bool { return !g.status().Active() }

// progressCell is a bar and a count.
func (g group) progressCell(w *ui.World, bars int) widget.Cell {
	done, all := g.progress()
	count := strconv.Itoa(done) + "/" + strconv.Itoa(all)
	if bars < 4 || all == 0 {
		return widget.Cell{Text: count}
	}
	bar := w.Theme.Style.Bar(float64(done)/float64(all), bars)
	full := strings.TrimRight(bar, "▁.")
	return widget.Cell{Spans: []widget.Span{{Text: full, Role: theme.Bar}, {Text: bar[len(full):] + " ", Role: theme.Dim}, {Text: count}}}
}

// changed is told to the screens when an action on a group is through.
type changed struct{ id string }

// act does something to a group, says what the command line would, and lets the
// screens read it again.
func (g group) act(command string, do func() (string, error)) tea.Cmd {
	id := g.id()
	return func() tea.Msg {
		words, err := do()
		return tea.BatchMsg{ui.Send(ui.Done{Command: command, Said: words, Err: err}), ui.Send(changed{id})}
	}
}

// cancelGroup asks before it stops all that goes on.
func cancelGroup(w *ui.World, g group) tea.Cmd {
	if g.over() {
		return said(w.Lang.T("nothing to cancel: it has ended"))
	}
	id := g.id()
	do := func() (string, error) {
		if g.sweep == nil {
			_, err := w.Act.Sweeps.CancelStudy(w.Context, id)
			return w.Lang.T("its runs are stopping"), err
		}
		reply, err := w.Act.Sweeps.CancelSweep(w.Context, id)
		return w.Lang.F("%d stopped or stopping, %d had ended", reply.Cancelled, reply.AlreadyFinished), err
	}
	question := w.Lang.T("Cancel this sweep?")
	if g.sweep == nil {
		question = w.Lang.T("Cancel this study?")
	}
	lines := []string{run.Short(id) + "  " + g.name(), g.counts(w), "", w.Lang.T("What has ended stays as it is.")}
	return w.Shell.Ask(dialog.NewConfirm(w, question, lines, w.Lang.T("cancel it"), g.act(g.command(w, "cancel"), do)))
}

// rerunGroup queues again what didn't succeed.
func rerunGroup(w *ui.World, g group) tea.Cmd {
	id := g.id()
	if g.sweep != nil {
		return g.act(g.command(w, "rerun --failed"), func() (string, error) {
			reply, err := w.Act.Sweeps.RerunSweep(w.Context, id)
			n := len(reply.Variants)
			return w.Lang.N(n, "1 queued again", "%d queued again", counted(n)...), err
		})
	}
	return g.act(g.command(w, "resume"), func() (string, error) {
		reply, err := w.Act.Sweeps.ResumeStudy(w.Context, id, api.StudyResumeRequest{})
		return w.Lang.F("%d of %d have a score", reply.Counts[study.Scored], reply.Repetitions), err
	})
}

// describeGroup shows what is known of a group.
func describeGroup(w *ui.World, g group) tea.Cmd {
	l := w.Lang
	list := []fact{{l.T("id"), g.id()}, {l.T("name"), g.name()}, {l.T("state"), l.T(g.state())}, {l.T("runs"), g.counts(w)}}
	add := func(name, value string) {
		if value != "" && value != text.Dash {
			list = append(list, fact{l.T(name), value})
		}
	}
	switch {
	case g.sweep != nil:
		add("method", g.sweep.Method)
		add("best", g.best(w))
		add("objective", l.T(g.sweep.Objective.Direction)+" "+g.sweep.Objective.Metric)
		for _, note := range []*string{g.sweep.ObjectiveWarning, g.sweep.Error} {
			if note != nil {
				add("note", *note)
			}
		}
	default:
		add("times", strconv.Itoa(g.study.Repetitions))
		for _, m := range g.study.Metrics {
			list = append(list, fact{m.Name, phrase.Spread(w.Theme.Style, m) + ", n " + strconv.Itoa(m.N)})
		}
	}
	add("user", g.user())
	add("submitted", g.created().Local().Format(time.DateTime)+"  "+l.F("%s ago", text.Age(w.Now().Sub(g.created()))))
	add("command", g.command(w, "show"))
	return w.Shell.Ask(dialog.NewReader(w, l.T(g.kind())+" "+run.Short(g.id()), func(width int) []string { return factLines(w, list, width) }))
}

// groupHead is a group in one line.
func groupHead(w *ui.World, g group, width int) string {
	th := w.Theme
	left := th.Paint(theme.Dim, " "+th.Glyph("‹", "<")+" "+run.Short(g.id())) + "  " + th.Paint(theme.Strong, g.name())
	done, all := g.progress()
	parts := []string{w.Lang.T(g.state()), strconv.Itoa(done) + "/" + strconv.Itoa(all)}
	if best := g.best(w); best != text.Dash {
		parts = append(parts, best)
	}
	dot := th.Glyph(" · ", " - ")
	for len(parts) > 1 && text.Cells(strings.Join(parts, dot))+4 > width/2 {
		parts = parts[:len(parts)-1]
	}
	status := g.status()
	mark := th.Paint(theme.Of(text.MarkColour(status, false)), th.Style.Mark(status, false))
	return widget.Sides(left, mark+" "+strings.Join(parts, dot)+" ", width, th.Style)
}
