package widget

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"cdui/internal/cli/text"
	"cdui/internal/tui/theme"
)

// Box is a frame with texts in its edges.
type Box struct {
	// Title and Note stand in the upper edge, Foot in the lower one.
	Title, Note, Foot string
	// Focus says that the keys act on it.
	Focus bool
}

// View draws the box around lines, w by h cells with its edges.
func (b Box) View(lines []string, w, h int, th *theme.Theme) []string {
	if w < 4 || h < 2 {
		return Block(lines, w, h, th.Style)
	}
	corner := []string{"┌", "┐", "└", "┘", "─", "│"}
	if !th.Style.Unicode {
		corner = []string{"+", "+", "+", "+", "-", "|"}
	}
	edge, title := theme.Border, theme.Strong
	if b.Focus {
		edge, title = theme.Accent, theme.Accent
	}
	out := make([]string, 0, h)
	out = append(out, b.edge(th, corner[0], corner[1], corner[4], b.Title, b.Note, edge, title, w))
	side := th.Paint(edge, corner[5])
	for _, line := range Block(lines, w-4, h-2, th.Style) {
		out = append(out, side+" "+line+" "+side)
	}
	return append(out, b.edge(th, corner[2], corner[3], corner[4], "", b.Foot, edge, title, w))
}

func (Box) edge(th *theme.Theme, left, right, rule, title, note string, edge, strong theme.Role, w int) string {
	room := w - 2
	head, tail := "", ""
	if title != "" && room > 4 {
		title = th.Style.Crop(title, room-3)
		head = " " + title + " "
	}
	if note != "" && ansi.StringWidth(head)+ansi.StringWidth(note)+4 <= room {
		tail = " " + note + " "
	}
	fill := max(0, room-ansi.StringWidth(head)-ansi.StringWidth(tail))
	end := min(1, fill)
	if tail == "" {
		end = 0
	}
	return th.Paint(edge, left) + th.Paint(strong, head) + th.Paint(edge, strings.Repeat(rule, fill-end)) +
		th.Paint(theme.Dim, tail) + th.Paint(edge, strings.Repeat(rule, end)+right)
}

// Rule is a line across the screen.
func Rule(w int, th *theme.Theme) string {
	return th.Paint(theme.Border, strings.Repeat(th.Glyph("─", "-"), max(0, w)))
}

// Bar draws a fraction, the filled part in the accent.
func Bar(fraction float64, cells int, on bool, th *theme.Theme) string {
	return PromisedBar(fraction, 0, cells, on, th)
}

// PromisedBar shows what is used and, behind it, what is promised beyond that.
func PromisedBar(used, promised float64, cells int, on bool, th *theme.Theme) string {
	bar := th.Style.Bar(used, cells)
	full := strings.TrimRight(bar, "▁.")
	kept := strings.TrimRight(th.Style.Bar(promised, cells), "▁.")
	more := max(0, text.Cells(kept)-text.Cells(full))
	rest := max(0, cells-text.Cells(full)-more)
	return th.PaintOn(on, theme.Bar, full) + th.PaintOn(on, theme.Bar, strings.Repeat(th.Glyph("▒", "="), more)) +
		th.PaintOn(on, theme.Dim, strings.Repeat(th.Glyph("▁", "."), rest))
}
