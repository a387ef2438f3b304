// Package widget holds dumb parts of screens: tables, boxes, bars, charts,
// lines of text. Each is told its size and what to show, and gives lines of
// exactly that many cells. None knows runs, keys or the control plane.
package widget

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/rivo/uniseg"

	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

// Plain makes one safe line of a text that somebody else wrote. Characters that
// are put together of several pictures become the first of them: terminals don't
// agree how wide those are, and a line that is off by one tears the screen.
func Plain(s string) string {
	s = phrase.Clean(s)
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return simple(s)
		}
	}
	return s
}

func simple(s string) string {
	var b strings.Builder
	state := -1
	for s != "" {
		cluster, rest, _, next := uniseg.FirstGraphemeClusterInString(s, state)
		s, state = rest, next
		b.WriteString(simpleCluster(cluster))
	}
	return b.String()
}

// simpleCluster makes what every terminal takes for the same number of cells.
func simpleCluster(cluster string) string {
	first, size := utf8.DecodeRuneInString(cluster)
	switch {
	case first >= 0x1F1E6 && first <= 0x1F1FF: // a flag: its letters
		return strings.Map(func(r rune) rune {
			if r < 0x1F1E6 || r > 0x1F1FF {
				return -1
			}
			return 'A' + r - 0x1F1E6
		}, cluster)
	case size < len(cluster) && first >= 0x2190 && uniseg.StringWidth(cluster) == uniseg.StringWidth(cluster[:size]):
		cluster = cluster[:size] // a picture, whatever was joined to it or tints it
	}
	if uniseg.StringWidth(cluster) != ansi.StringWidth(cluster) || uniseg.StringWidth(cluster) != ansi.StringWidthWc(cluster) {
		return "*"
	}
	return cluster
}

// Fit crops or pads painted text to exactly so many cells.
func Fit(s string, cells int, style text.Style) string {
	if cells <= 0 {
		return ""
	}
	w := ansi.StringWidth(s)
	switch {
	case w > cells:
		s = ansi.Truncate(s, cells, style.Ellipsis())
		w = ansi.StringWidth(s)
	case w == cells:
		return s
	}
	return s + strings.Repeat(" ", max(0, cells-w))
}

// Sides puts one text on the left and one on the right of a line. Where there
// is no room for both the right one goes.
func Sides(left, right string, cells int, style text.Style) string {
	l, r := ansi.StringWidth(left), ansi.StringWidth(right)
	if right == "" || l+1+r > cells {
		if r > 0 && r <= cells/2 {
			return Fit(left, cells-r-1, style) + " " + right
		}
		return Fit(left, cells, style)
	}
	return left + strings.Repeat(" ", cells-l-r) + right
}

// Block makes exactly h lines of w cells.
func Block(lines []string, w, h int, style text.Style) []string {
	out := make([]string, max(h, 0))
	for i := range out {
		if i < len(lines) {
			out[i] = Fit(lines[i], w, style)
		} else {
			out[i] = strings.Repeat(" ", max(w, 0))
		}
	}
	return out
}

// Overlay lays a block over lines, its corner at x, y.
func Overlay(lines, block []string, x, y int) []string {
	for i, b := range block {
		at := y + i
		if at < 0 || at >= len(lines) {
			continue
		}
		w := ansi.StringWidth(b)
		line := lines[at]
		total := ansi.StringWidth(line)
		left, right := ansi.Truncate(line, x, ""), ansi.Cut(line, x+w, max(total, x+w))
		if ansi.StringWidth(right) > total-x-w { // the first character lies half under the block
			right = ansi.Cut(line, x+w+1, max(total, x+w+1))
		}
		if gap := x - ansi.StringWidth(left); gap > 0 {
			left += strings.Repeat(" ", gap) // a wide character was cut
		}
		if gap := total - x - w - ansi.StringWidth(right); gap > 0 {
			right = strings.Repeat(" ", gap) + right
		}
		lines[at] = left + "\x1b[m" + b + "\x1b[m" + right
	}
	return lines
}

// Line makes a line of output fit a screen: tabs become spaces, and characters
// that terminals don't agree on become simpler ones. Colours stay.
func Line(s string) string {
	s = strings.ReplaceAll(s, "\t", "    ")
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return simple(s)
		}
	}
	return s
}

// Bare is a line without its colours.
func Bare(s string) string { return ansi.Strip(s) }

// Chop breaks a painted line into pieces of at most so many cells.
func Chop(s string, cells int) []string {
	if cells <= 0 || ansi.StringWidth(s) <= cells {
		return []string{s}
	}
	return strings.Split(ansi.Hardwrap(s, cells, true), "\n")
}
