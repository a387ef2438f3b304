package screen

import (
	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/ui"
)

// card is the device under the cursor and its worker's name as commands have it.
func (r workerRow) card() (worker string, d *api.WorkerDevice) {
	if r.worker == nil {
		return "local", r.device
	}
	return r.worker.Name, r.device
}

// cordon keeps runs from a card, or lets them come again.
func (s *Workers) cordon(r workerRow) tea.Cmd {
	w := s.w
	worker, d := r.card()
	if d == nil {
		return said(w.Lang.T("choose one of its devices first"))
	}
	name := d.Device.Device
	if c := d.Cordon; c != nil && c.Code == run.ReasonCordoned {
		off := false
		return s.policy(w.Command("workers uncordon "+worker+" "+name), worker, name, api.DevicePolicyChange{Cordoned: &off}, w.Lang.F("%s takes runs again", worker+"/"+name))
	}
	command := func(reason string) string {
		if reason != "" {
			reason = " --reason " + ui.Quote(reason)
		}
		return w.Command("workers cordon " + worker + " " + name + reason)
	}
	do := func(reason string) tea.Cmd {
		on := true
		return s.policy(command(reason), worker, name, api.DevicePolicyChange{Cordoned: &on, Reason: &reason},
			w.Lang.F("%s takes no new runs; what runs there goes on", worker+"/"+name))
	}
	return w.Shell.Ask(dialog.NewPrompt(w, w.Lang.F("Keep runs from %s", worker+"/"+name), w.Lang.T("reason"), command, do))
}

// share lets runs share a card by their memory, or not any more.
func (s *Workers) share(r workerRow) tea.Cmd {
	w := s.w
	worker, d := r.card()
	if d == nil {
		return said(w.Lang.T("choose one of its devices first"))
	}
	name, on := d.Device.Device, !d.Shared
	verb, words := "on", w.Lang.F("%s is shared by memory", worker+"/"+name)
	if !on {
		verb, words = "off", w.Lang.F("%s is not shared", worker+"/"+name)
	}
	return s.policy(w.Command("workers share "+worker+" "+name+" "+verb), worker, name, api.DevicePolicyChange{Shared: &on}, words)
}

// policy changes what people decided of a device.
func (s *Workers) policy(command, worker, device string, change api.DevicePolicyChange, words string) tea.Cmd {
	w := s.w
	return func() tea.Msg {
		_, err := w.Act.Workers.SetDevice(w.Context, worker, device, change)
		return ui.Done{Command: command, Said: words, Err: err}
	}
}

// onto opens the form that queues a new run, at the machine under the cursor.
func (s *Workers) onto(r workerRow) tea.Cmd {
	form := dialog.NewSubmit(s.w, nil)
	device := ""
	if r.device != nil {
		device = r.device.Device.Device
	}
	form.At(r.name(), device)
	return s.w.Shell.Ask(form)
}

// logs opens the output of the first run of a card, or of a machine.
func (s *Workers) logs(r workerRow) tea.Cmd {
	var runs []string
	switch {
	case r.device != nil:
		runs = r.device.Runs
	case r.worker != nil:
		runs = r.worker.Runs
	}
	if len(runs) == 0 {
		return said(s.w.Lang.T("nothing runs there"))
	}
	return s.w.Shell.Open(runs[0], "console")
}
