package dialog

import (
	tea "charm.land/bubbletea/v2"

	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// Confirm asks before something that can't be undone. It stands on "no".
type Confirm struct {
	w        *ui.World
	question string
	lines    []string
	verb     string
	do       tea.Cmd
	yes      bool
}

// NewConfirm makes the dialog. verb is what the button says, do what it does.
func NewConfirm(w *ui.World, question string, lines []string, verb string, do tea.Cmd) *Confirm {
	return &Confirm{w: w, question: question, lines: lines, verb: verb, do: do}
}

// Update implements ui.Dialog.
func (d *Confirm) Update(msg tea.Msg) (tea.Cmd, bool) {
	key, ok := msg.(tea.KeyPressMsg)
	if !ok {
		return nil, false
	}
	switch key.String() {
	case "left", "right", "tab", "shift+tab", "h", "l":
		d.yes = !d.yes
	case "y":
		return d.do, true
	case "n", "esc", "q":
		return nil, true
	case "enter":
		if d.yes {
			return d.do, true
		}
		return nil, true
	}
	return nil, false
}

// View implements ui.Dialog.
func (d *Confirm) View(w, h int) []string {
	lines := []string{}
	for _, l := range d.lines {
		lines = append(lines, wrapped(widget.Plain(l), min(w-4, 72))...)
	}
	buttons := button(d.w, d.w.Lang.T("no"), !d.yes) + "   " + button(d.w, d.verb, d.yes)
	lines = append(lines, "", buttons)
	if len(lines) > h-2 { // the buttons stay
		lines = append(lines[:max(0, h-3)], buttons)
	}
	return frame(d.w, d.question, "", lines, 44, w, h)
}
