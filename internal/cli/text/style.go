package text

import (
	"math"
	"strings"

	"github.com/rivo/uniseg"

	"cdui/internal/run"
)

// Style says what the place that text is printed to can show.
type Style struct {
	// Width is the number of cells in a line; 0 is no limit.
	Width int
	// Colour allows SGR sequences, Unicode anything beyond ASCII.
	Colour  bool
	Unicode bool
}

// Colour is a foreground colour of the 16 that every terminal has.
type Colour string

// The colours in use. Plain is the terminal's own.
const (
	Plain  Colour = ""
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Blue   Colour = "34"
	Cyan   Colour = "36"
	Grey   Colour = "90"
	Bold   Colour = "1"
)

// Paint colours s where the style allows it.
func (s Style) Paint(c Colour, text string) string {
	if !s.Colour || c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Mark is the sign of a status; held is a queued run that somebody holds.
func (s Style) Mark(status run.Status, held bool) string {
	unicode, ascii, _ := mark(status, held)
	if s.Unicode {
		return unicode
	}
	return ascii
}

// MarkColour is the colour of a status's mark.
func MarkColour(status run.Status, held bool) Colour {
	_, _, c := mark(status, held)
	return c
}

// PaintedMark is Mark in its colour.
func (s Style) PaintedMark(status run.Status, held bool) string {
	return s.Paint(MarkColour(status, held), s.Mark(status, held))
}

func mark(status run.Status, held bool) (unicode, ascii string, c Colour) {
	switch status {
	case run.Running:
		return "●", "*", Cyan
	case run.Queued:
		if held {
			return "‖", "=", Yellow
		}
		return "○", "o", Plain
	case run.Disconnected:
		return "◐", "~", Yellow
	case run.Succeeded:
		return "✓", "+", Green
	case run.Failed:
		return "✗", "x", Red
	case run.Cancelled:
		return "⊘", "-", Grey
	case run.Interrupted:
		return "!", "!", Yellow
	}
	return "?", "?", Plain
}

// Bar draws fraction (0 to 1) in a number of cells.
func (s Style) Bar(fraction float64, cells int) string {
	if cells <= 0 {
		return ""
	}
	if math.IsNaN(fraction) {
		fraction = 0
	}
	full := int(math.Round(min(max(fraction, 0), 1) * float64(cells)))
	if s.Unicode {
		return strings.Repeat("▇", full) + strings.Repeat("▁", cells-full)
	}
	return strings.Repeat("#", full) + strings.Repeat(".", cells-full)
}

// Ellipsis stands for what was cut off.
func (s Style) Ellipsis() string {
	if s.Unicode {
		return "…"
	}
	return "~"
}

// Dash stands for nothing.
const Dash = "-"

// Cells is the number of cells that s takes.
func Cells(s string) int { return uniseg.StringWidth(s) }

// Crop shortens text to a number of cells and marks the cut.
func (s Style) Crop(text string, cells int) string {
	if cells <= 0 {
		return ""
	}
	if Cells(text) <= cells {
		return text
	}
	end := s.Ellipsis()
	head, _ := split(text, cells-Cells(end))
	return head + end
}

// split cuts text after as many whole characters as fit into cells.
func split(text string, cells int) (head, rest string) {
	used, state, left := 0, -1, text
	for left != "" {
		_, next, width, newState := uniseg.FirstGraphemeClusterInString(left, state)
		if used+width > cells {
			break
		}
		used, state, left = used+width, newState, next
	}
	return text[:len(text)-len(left)], left
}

// Pad fills text with spaces to a number of cells, on its left when right is
// set.
func Pad(text string, cells int, right bool) string {
	n := cells - Cells(text)
	if n <= 0 {
		return text
	}
	if right {
		return strings.Repeat(" ", n) + text
	}
	return text + strings.Repeat(" ", n)
}

// Wrap breaks text into lines of at most cells, between words where it can.
func Wrap(text string, cells int) []string {
	if cells <= 0 {
		return []string{text}
	}
	var lines []string
	for para := range strings.SplitSeq(text, "\n") {
		line := ""
		for word := range strings.FieldsSeq(para) {
			switch {
			case line == "":
				line = word
			case Cells(line)+1+Cells(word) <= cells:
				line += " " + word
			default:
				lines = append(lines, line)
				line = word
			}
			for Cells(line) > cells {
				head, rest := split(line, cells)
				if head == "" { // the first character alone is wider than the line
					head, rest, _, _ = uniseg.FirstGraphemeClusterInString(line, -1)
				}
				if rest == "" {
					break
				}
				lines = append(lines, head)
				line = rest
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// Marked puts parts behind a mark, in as many lines as the style's width takes;
// a part goes into the next line as a whole where it can.
func Marked(s Style, mark string, parts []string) string {
	const between = "   "
	room := 0
	if s.Width > 0 {
		room = max(1, s.Width-2)
	}
	var lines []string
	for _, p := range parts {
		last := len(lines) - 1
		if last >= 0 && (room == 0 || Cells(lines[last])+len(between)+Cells(p) <= room) {
			lines[last] += between + p
			continue
		}
		if room > 0 && Cells(p) > room {
			lines = append(lines, Wrap(p, room)...)
		} else {
			lines = append(lines, p)
		}
	}
	return mark + " " + strings.Join(lines, "\n  ")
}
