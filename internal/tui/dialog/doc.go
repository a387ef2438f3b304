// Package dialog holds the boxes that open above a screen and take all keys: a
// question before something can't be undone, the form that queues a run, the
// one that adds a worker, the list of keys, a text to read. A dialog ends by
// saying so; what it decided goes out as a command.
package dialog

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"cdui/internal/cli/text"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

// frame draws a box in the middle-sized part of a screen: as wide as its lines
// need, no wider than want and no larger than the screen.
func frame(w *ui.World, title, note string, lines []string, want, maxW, maxH int) []string {
	inner := 0
	for _, l := range lines {
		inner = max(inner, ansi.StringWidth(l))
	}
	width := min(maxW, max(min(want, maxW), min(inner+4, maxW)))
	height := min(len(lines)+2, maxH)
	return widget.Box{Title: title, Note: note, Focus: true}.View(lines, width, height, w.Theme)
}

// button is one of the words that end a dialog.
func button(w *ui.World, words string, on bool) string {
	if on {
		return w.Theme.PaintOn(true, theme.Accent, "[ "+words+" ]")
	}
	return "[ " + words + " ]"
}

// wrapped breaks a text into indented lines.
func wrapped(s string, cells int) []string {
	var out []string
	for _, line := range text.Wrap(s, max(cells, 8)) {
		out = append(out, strings.TrimRight(line, " "))
	}
	return out
}

// flow lays words out after a label, in as many lines as they need.
func flow(label string, words []string, room int) []string {
	lines := []string{label}
	for _, word := range words {
		last := len(lines) - 1
		if cellsOf(lines[last])+cellsOf(word)+2 > room && cellsOf(lines[last]) > 9 {
			lines = append(lines, strings.Repeat(" ", 9))
			last++
		}
		lines[last] += word + "  "
	}
	return lines
}
