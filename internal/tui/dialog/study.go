package dialog

import (
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/tui/ui"
)

// NewStudy makes the form that queues a study: what is repeated, how often, and
// where.
func NewStudy(w *ui.World) *Submit {
	d := NewSubmit(w, nil)
	d.form = formStudy
	return d
}

// repetitions are what was typed, for the command.
func (d *Submit) repetitions() string {
	if n := strings.TrimSpace(d.times.Value()); n != "" {
		return n
	}
	return "5"
}

func (d *Submit) submitStudy() tea.Cmd {
	file, args := d.words()
	if d.busy || file == "" {
		return nil
	}
	times, err := strconv.Atoi(d.repetitions())
	if err != nil {
		d.err = api.Errorf(api.Invalid, "how often? %q is not a number", d.repetitions())
		return nil
	}
	d.busy, d.err = true, nil
	w, command := d.w, d.command()
	sub := ui.Submission{File: file, Args: args, Worker: d.places[d.on].worker, Devices: d.chosen(), Repetitions: times}
	return func() tea.Msg {
		reply, err := w.Act.SubmitStudy(w.Context, sub)
		said := ""
		if err == nil {
			said = w.Lang.F("queued as %s", run.Short(reply.StudyID))
		}
		return submitted{command, said, err}
	}
}
