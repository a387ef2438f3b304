package screen

import (
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// each does one thing to several runs and says what the command line would.
func each(w *ui.World, verb string, list []api.Run, do func(ctx context.Context, id string) error) tea.Cmd {
	ids := make([]string, len(list))
	short := make([]string, len(list))
	for i, r := range list {
		ids[i], short[i] = r.ID, run.Short(r.ID)
	}
	command := w.Command(verb + " " + strings.Join(short, " "))
	return func() tea.Msg {
		for _, id := range ids {
			if err := do(w.Context, id); err != nil {
				return ui.Done{Command: command, Err: err}
			}
		}
		return ui.Done{Command: command}
	}
}

// cancelRuns asks the runs to stop and tells how long they have.
func cancelRuns(w *ui.World, list []api.Run) tea.Cmd {
	list = keep(list, func(r api.Run) bool { return r.Status.Active() })
	if len(list) == 0 {
		return said(w.Lang.T("nothing to cancel: it has ended"))
	}
	if len(list) > 1 {
		return w.Shell.Ask(dialog.NewConfirm(w, w.Lang.F("Cancel %d runs?", len(list)), titles(list), w.Lang.T("cancel them"), doCancel(w, list)))
	}
	return doCancel(w, list)
}

func doCancel(w *ui.World, list []api.Run) tea.Cmd {
	if len(list) > 1 {
		return each(w, "cancel", list, func(ctx context.Context, id string) error {
			_, err := w.Act.Runs.Cancel(ctx, id, api.CancelRequest{})
			return err
		})
	}
	r := list[0]
	command := w.Command("cancel " + run.Short(r.ID))
	return func() tea.Msg {
		reply, err := w.Act.Runs.Cancel(w.Context, r.ID, api.CancelRequest{})
		if err != nil {
			return ui.Done{Command: command, Err: err}
		}
		words := w.Lang.T("cancelled")
		switch {
		case !reply.Cancelled:
			words = w.Lang.F("it had ended: %s", w.Lang.Status(reply.Status, false))
		case reply.GraceS > 0 && reply.Status.Active():
			words = w.Lang.F("asked to stop; it has %g s", reply.GraceS)
		}
		return ui.Done{Command: command, Said: words}
	}
}

// holdRuns holds what waits, and releases what is held.
func holdRuns(w *ui.World, list []api.Run) tea.Cmd {
	held := keep(list, func(r api.Run) bool {
		return r.Status == run.Queued && (r.Options.Hold || r.QueueReasonCode == run.ReasonAfter)
	})
	waits := keep(list, func(r api.Run) bool { return r.Status == run.Queued && !r.Options.Hold })
	switch {
	case len(held) > 0 && len(held) == len(list):
		return each(w, "runs release", held, func(ctx context.Context, id string) error {
			_, err := w.Act.Runs.Release(ctx, id)
			return err
		})
	case len(waits) > 0:
		return each(w, "runs hold", waits, func(ctx context.Context, id string) error {
			_, err := w.Act.Runs.Hold(ctx, id)
			return err
		})
	}
	return said(w.Lang.T("only a waiting run can be held or released"))
}

// holdKey keeps all runs of a queue key from starting, or lets them go.
func holdKey(w *ui.World, k api.LiveKey) tea.Cmd {
	verb, words := "hold", w.Lang.F("nothing of %s starts until it is released", k.Key)
	do := func() error {
		_, err := w.Act.Queue.HoldQueue(w.Context, k.Key, "")
		return err
	}
	if k.Held != nil {
		verb, words = "release", w.Lang.F("%s starts runs again", k.Key)
		do = func() error {
			_, err := w.Act.Queue.ReleaseQueue(w.Context, k.Key)
			return err
		}
	}
	command := w.Command("queue " + verb + " " + k.Key)
	return func() tea.Msg { return ui.Done{Command: command, Said: words, Err: do()} }
}

// deleteRuns asks before it deletes.
func deleteRuns(w *ui.World, list []api.Run) tea.Cmd {
	ended := keep(list, func(r api.Run) bool { return !r.Status.Active() })
	if len(ended) == 0 {
		return said(w.Lang.T("only a run that has ended can be deleted: cancel it first"))
	}
	question := w.Lang.N(len(ended), "Delete this run?", "Delete %d runs?", counted(len(ended))...)
	lines := append(titles(ended), "", w.Lang.T("Events, metrics, console and files go with it."))
	do := each(w, "runs rm", ended, func(ctx context.Context, id string) error { return w.Act.Runs.Delete(ctx, id) })
	return w.Shell.Ask(dialog.NewConfirm(w, question, lines, w.Lang.T("delete"), do))
}

// queueOn opens the dialog that queues a copy of a run somewhere else.
func queueOn(w *ui.World, list []api.Run) tea.Cmd {
	if len(list) == 0 {
		return w.Shell.Ask(dialog.NewSubmit(w, nil))
	}
	return w.Shell.Ask(dialog.NewSubmit(w, &list[0]))
}

func said(text string) tea.Cmd { return ui.Send(ui.Done{Said: text}) }

func keep(list []api.Run, ok func(api.Run) bool) []api.Run {
	var out []api.Run
	for _, r := range list {
		if ok(r) {
			out = append(out, r)
		}
	}
	return out
}

// titles names a few runs, a line each.
func titles(list []api.Run) []string {
	var out []string
	for i, r := range list {
		if i == 5 && len(list) > 6 {
			return append(out, fmt.Sprintf("… %d", len(list)-i))
		}
		out = append(out, run.Short(r.ID)+"  "+widget.Plain(r.Name))
	}
	return out
}
