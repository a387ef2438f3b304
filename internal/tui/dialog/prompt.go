package dialog

import (
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"cdui/internal/cli/text"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
)

// Prompt asks for a text before something is done with it; the text may stay
// empty.
type Prompt struct {
	w       *ui.World
	title   string
	label   string
	in      textinput.Model
	command func(text string) string
	do      func(text string) tea.Cmd
}

// NewPrompt makes the dialog. command says what the command line would be, do
// what follows.
func NewPrompt(w *ui.World, title, label string, command func(string) string, do func(string) tea.Cmd) *Prompt {
	return &Prompt{w: w, title: title, label: label, in: NewInput(w, "", ""), command: command, do: do}
}

// Update implements ui.Dialog.
func (d *Prompt) Update(msg tea.Msg) (tea.Cmd, bool) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		switch msg.String() {
		case "esc":
			return nil, true
		case "enter":
			return d.do(d.text()), true
		}
		return typed(&d.in, msg), false
	case tea.PasteMsg:
		return typed(&d.in, msg), false
	}
	return nil, false
}

func (d *Prompt) text() string { return strings.TrimSpace(d.in.Value()) }

// View implements ui.Dialog.
func (d *Prompt) View(w, h int) []string {
	l, room := d.w.Lang, min(w-4, 92)
	dim := func(s string) string { return d.w.Theme.Paint(theme.Dim, s) }
	lines := []string{dim(text.Pad(d.label, 9, false)) + InputView(d.w, d.in, room-9, true), ""}
	for i, line := range wrapped(d.command(d.text()), room-9) {
		head := ""
		if i == 0 {
			head = l.T("command")
		}
		lines = append(lines, dim(text.Pad(head, 9, false))+line)
	}
	lines = append(lines, "", dim(l.T("enter does it, esc leaves")))
	return frame(d.w, d.title, "", lines, 60, w, h)
}
