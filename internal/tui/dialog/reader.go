package dialog

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/cli/text"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
)

// Reader shows text; any key that doesn't scroll closes it.
type Reader struct {
	w     *ui.World
	title string
	make  func(width int) []string
	top   int
	lines int
	room  int
}

// NewReader makes the dialog. lines gives the text, broken for a width.
func NewReader(w *ui.World, title string, lines func(width int) []string) *Reader {
	return &Reader{w: w, title: title, make: lines}
}

// NewHelp shows the keys of a screen, as they are bound.
func NewHelp(w *ui.World, title string, groups []keymap.Group) *Reader {
	return NewReader(w, w.Lang.F("keys: %s", title), func(width int) []string {
		const column = 34
		columns := max(1, min(width/column, 3))
		var cells []string
		for _, g := range groups {
			cells = append(cells, w.Theme.Paint(theme.Accent, w.Lang.T(g.Title)))
			for _, b := range g.Bindings {
				cells = append(cells, "  "+text.Pad(b.Shown(), 11, false)+w.Theme.Paint(theme.Dim, w.Lang.T(b.Does())))
			}
			cells = append(cells, "")
		}
		return columned(cells, columns, column)
	})
}

// columned lays cells out from top to bottom in columns.
func columned(cells []string, columns, width int) []string {
	rows := (len(cells) + columns - 1) / columns
	out := make([]string, rows)
	for i, c := range cells {
		row, col := i%rows, i/rows
		if missing := col*width - cellsOf(out[row]); missing > 0 {
			out[row] += strings.Repeat(" ", missing)
		}
		out[row] += c
	}
	return out
}

// Update implements ui.Dialog.
func (d *Reader) Update(msg tea.Msg) (tea.Cmd, bool) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		k := msg.String()
		switch {
		case keymap.Up.Is(k):
			d.top--
		case keymap.Down.Is(k):
			d.top++
		case keymap.PageUp.Is(k):
			d.top -= d.room
		case keymap.PageDown.Is(k), keymap.Mark.Is(k):
			d.top += d.room
		default:
			return nil, true
		}
	case tea.MouseWheelMsg:
		if msg.Button == tea.MouseWheelUp {
			d.top--
		} else {
			d.top++
		}
	case tea.MouseClickMsg:
		return nil, true
	}
	return nil, false
}

// View implements ui.Dialog.
func (d *Reader) View(w, h int) []string {
	lines := d.make(w - 4)
	d.lines, d.room = len(lines), max(1, h-2)
	d.top = max(0, min(d.top, d.lines-d.room))
	note := ""
	if d.lines > d.room {
		note = d.w.Lang.T("↓ more")
		if d.top+d.room >= d.lines {
			note = d.w.Lang.T("end")
		}
		if !d.w.Theme.Style.Unicode {
			note = strings.TrimPrefix(note, "↓ ")
		}
	}
	return frame(d.w, d.title, note, lines[d.top:min(d.lines, d.top+d.room)], 40, w, h)
}
