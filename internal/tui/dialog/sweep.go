package dialog

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/tui/ui"
)

// NewSweep makes the form that queues a sweep: its file, and where the variants
// run if not where the file says.
func NewSweep(w *ui.World) *Submit {
	d := NewSubmit(w, nil)
	d.form, d.on = formSweep, 0
	d.places = slices.Insert(d.places, 0, place{state: api.WorkerOnline, asFile: true})
	d.known()
	return d
}

// sweepFile is what was typed: one path, whatever is in it.
func (d *Submit) sweepFile() string { return strings.TrimSpace(d.what.Value()) }

// target is the place as the flags of cdui sweep run have it.
func (d *Submit) target() (worker string, devices []string) {
	p := d.places[d.on]
	switch {
	case p.asFile:
		return "", nil
	case p.worker == "":
		return "local", d.chosen()
	}
	return p.worker, d.chosen()
}

func (d *Submit) sweepCommand() string {
	words := []string{"sweep", "run"}
	worker, devices := d.target()
	if worker != "" {
		words = append(words, "--worker", worker)
	}
	if len(devices) > 0 {
		words = append(words, "--devices", strings.Join(devices, ","))
	}
	if file := d.sweepFile(); file != "" {
		words = append(words, ui.Quote(file))
	}
	return d.w.Command(strings.Join(words, " "))
}

func (d *Submit) submitSweep() tea.Cmd {
	if d.busy || d.sweepFile() == "" {
		return nil
	}
	d.busy, d.err = true, nil
	w, command, sub := d.w, d.command(), ui.Submission{File: d.sweepFile()}
	sub.Worker, sub.Devices = d.target()
	return func() tea.Msg {
		reply, err := w.Act.SubmitSweep(w.Context, sub)
		said := ""
		if err == nil {
			said = w.Lang.F("queued as %s", run.Short(reply.SweepID))
		}
		return submitted{command, said, err}
	}
}
