package dialog

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// AddWorker makes a one-time token and shows what to run on the other machine.
type AddWorker struct {
	w     *ui.World
	name  textinput.Model
	reply *api.EnrollmentReply
	err   error
	busy  bool
}

// NewAddWorker makes the dialog.
func NewAddWorker(w *ui.World) *AddWorker {
	return &AddWorker{w: w, name: NewInput(w, "", "")}
}

type enrolled struct {
	reply api.EnrollmentReply
	err   error
}

// Update implements ui.Dialog.
func (d *AddWorker) Update(msg tea.Msg) (tea.Cmd, bool) {
	switch msg := msg.(type) {
	case enrolled:
		d.busy, d.err = false, msg.err
		if msg.err == nil {
			d.reply = &msg.reply
		}
	case tea.KeyPressMsg:
		switch k := msg.String(); {
		case k == "esc":
			return nil, true
		case d.reply != nil:
			if k == "y" {
				return ui.Send(ui.Copy{Text: d.reply.Command}), false
			}
			return nil, true
		case k == "enter":
			name := strings.TrimSpace(d.name.Value())
			if name == "" || d.busy {
				return nil, false
			}
			d.busy = true
			w := d.w
			return func() tea.Msg {
				reply, err := w.Act.Workers.AddWorker(w.Context, name, 0)
				return enrolled{reply, err}
			}, false
		}
		return typed(&d.name, msg), false
	case tea.PasteMsg:
		return typed(&d.name, msg), false
	}
	return nil, false
}

// View implements ui.Dialog.
func (d *AddWorker) View(w, h int) []string {
	l, room := d.w.Lang, min(w-4, 92)
	dim := func(s string) string { return d.w.Theme.Paint(theme.Dim, s) }
	if d.reply != nil {
		hours := text.Age(d.reply.ExpiresAt.Sub(d.w.Now()) + time.Minute)
		lines := wrapped(l.F("On %s, run this (good for %s, once; it is not shown again):", widget.Plain(d.name.Value()), hours), room)
		lines = append(lines, "")
		lines = append(lines, chunks("  "+d.reply.Command, room)...)
		lines = append(lines, "", dim(l.T("y copies it, any other key closes")))
		return frame(d.w, l.T("Add a worker"), "", lines, 60, w, h)
	}
	lines := []string{
		dim(text.Pad(l.T("name"), 9, false)) + InputView(d.w, d.name, room-9, true), "",
		dim(text.Pad(l.T("command"), 9, false)) + d.w.Command("workers add "+d.name.Value()),
	}
	if d.err != nil {
		lines = append(lines, "")
		for _, line := range wrapped(widget.Plain(l.Error(d.err)), room) {
			lines = append(lines, d.w.Theme.Paint(theme.Bad, line))
		}
	}
	lines = append(lines, "", dim(l.T("enter makes a token, esc leaves")))
	return frame(d.w, l.T("Add a worker"), "", lines, 60, w, h)
}

// chunks breaks a command where the line ends: it must be copied as it is.
func chunks(s string, cells int) []string {
	var out []string
	for len(s) > cells && cells > 0 {
		out = append(out, s[:cells])
		s = s[cells:]
	}
	return append(out, s)
}
