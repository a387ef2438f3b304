package dialog

import (
	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
)

func cellsOf(s string) int { return ansi.StringWidth(s) }

// NewInput makes a line that a person types into.
func NewInput(w *ui.World, prompt, value string) textinput.Model {
	in := textinput.New()
	in.Prompt = prompt
	in.SetValue(value)
	in.CursorEnd()
	in.CharLimit = 4096
	in.SetStyles(textinput.Styles{}) // no colours of its own
	in.SetVirtualCursor(true)
	in.Focus()
	_ = w
	return in
}

// InputView draws a line in so many cells, with a cursor where it has the focus.
func InputView(w *ui.World, in textinput.Model, cells int, on bool) string {
	value := []rune(in.Value())
	at := min(in.Position(), len(value))
	room := max(1, cells-cellsOf(in.Prompt)-1)
	start := 0
	for start < at && cellsOf(string(value[start:at])) >= room {
		start++
	}
	end := len(value)
	for end > at && cellsOf(string(value[start:end])) > room {
		end--
	}
	head, tail := string(value[start:at]), string(value[at:end])
	if !on {
		return in.Prompt + head + tail
	}
	under := " "
	if tail != "" {
		r := []rune(tail)
		under, tail = string(r[:1]), string(r[1:])
	}
	return w.Theme.Paint(theme.Accent, in.Prompt) + head + "\x1b[7m" + under + "\x1b[m" + tail
}

// typed passes a key on to a line.
func typed(in *textinput.Model, msg tea.Msg) tea.Cmd {
	next, cmd := in.Update(msg)
	*in = next
	return cmd
}
