// Package theme is what the screens look like: which role has which colour, and
// which marks there are where a terminal has no more than ASCII. Roles are the
// same in every theme; nothing else in the program names a colour.
//
// A theme holds no data and asks no terminal.
package theme

import (
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"

	"cdui/internal/cli/text"
)

// Role is what a piece of text is for.
type Role int

// The roles. One accent; the colours of states belong to marks alone.
const (
	Plain Role = iota
	// Dim is what matters least: units, ages, hints.
	Dim
	// Strong is what a person looks for.
	Strong
	// Accent marks what the keys act on.
	Accent
	// Title is the title of a column or a box.
	Title
	// Border is lines.
	Border
	// Bar is the filled part of a bar.
	Bar
	// Good, Bad, Warn and Busy are states.
	Good
	Bad
	Warn
	Busy
	// Curve1 and the roles after it tell curves of one chart apart.
	Curve1
	Curve2
	Curve3
	Curve4
	Curve5
	Curve6
	roles
)

// Curves are the roles of the curves of a chart, in their order.
func Curves() []Role { return []Role{Curve1, Curve2, Curve3, Curve4, Curve5, Curve6} }

// Names lists the themes.
func Names() []string { return []string{"dark", "light", "none"} }

// Theme paints.
type Theme struct {
	Name string
	// Style says what the terminal can show; its Width is unused.
	Style text.Style

	open   [roles]string
	cursor string
}

// New makes a theme. rich says that the terminal has 256 colours or more;
// without, the 16 that every terminal has are all that is used.
func New(name string, unicode, rich bool) *Theme {
	t := &Theme{Name: name, Style: text.Style{Unicode: unicode, Colour: name != "none"}}
	plain := lipgloss.NewStyle()
	styles := [roles]lipgloss.Style{Strong: plain.Bold(true), Title: plain, Accent: plain.Bold(true)}
	fore := func(r Role, c color.Color) { styles[r] = styles[r].Foreground(c) }
	t.cursor = "\x1b[7m"
	switch name {
	case "none":
		styles[Dim], styles[Title] = plain, plain.Bold(true)
	case "light":
		accent := color.Color(lipgloss.Blue)
		if rich {
			accent = lipgloss.ANSIColor(25)
			t.cursor = "\x1b[48;5;254m"
		}
		fore(Accent, accent)
		fore(Bar, accent)
		fore(Busy, accent)
		fore(Dim, lipgloss.BrightBlack)
		fore(Title, lipgloss.BrightBlack)
		fore(Border, lipgloss.BrightBlack)
		fore(Good, lipgloss.Green)
		fore(Bad, lipgloss.Red)
		fore(Warn, lipgloss.Magenta)
		if rich {
			fore(Dim, lipgloss.ANSIColor(243))
			fore(Title, lipgloss.ANSIColor(243))
			fore(Border, lipgloss.ANSIColor(250))
			fore(Good, lipgloss.ANSIColor(28))
			fore(Bad, lipgloss.ANSIColor(160))
			fore(Warn, lipgloss.ANSIColor(130))
		}
		curves(fore, rich, 25, 130, 28, 162, 91, 240)
	default:
		accent := color.Color(lipgloss.Cyan)
		if rich {
			accent = lipgloss.ANSIColor(80)
			t.cursor = "\x1b[48;5;237m"
		}
		fore(Accent, accent)
		fore(Bar, accent)
		fore(Busy, accent)
		fore(Dim, lipgloss.BrightBlack)
		fore(Title, lipgloss.BrightBlack)
		fore(Border, lipgloss.BrightBlack)
		fore(Good, lipgloss.Green)
		fore(Bad, lipgloss.Red)
		fore(Warn, lipgloss.Yellow)
		if rich {
			fore(Dim, lipgloss.ANSIColor(245))
			fore(Title, lipgloss.ANSIColor(245))
			fore(Border, lipgloss.ANSIColor(239))
			fore(Good, lipgloss.ANSIColor(114))
			fore(Bad, lipgloss.ANSIColor(203))
			fore(Warn, lipgloss.ANSIColor(215))
		}
		curves(fore, rich, 80, 215, 114, 211, 141, 250)
	}
	for r, s := range styles {
		open, _, _ := strings.Cut(s.Inline(true).Render("\x01"), "\x01")
		t.open[r] = open
	}
	return t
}

// curves gives the curves their colours: those of a rich terminal, or the ones
// that every terminal has.
func curves(fore func(Role, color.Color), rich bool, colours ...int) {
	plain := []color.Color{lipgloss.Cyan, lipgloss.Yellow, lipgloss.Green, lipgloss.Magenta, lipgloss.Blue, lipgloss.BrightBlack}
	for i, r := range Curves() {
		fore(r, plain[i])
		if rich {
			fore(r, lipgloss.ANSIColor(colours[i]))
		}
	}
}

const reset = "\x1b[m"

// Paint gives text its role's look.
func (t *Theme) Paint(r Role, s string) string {
	if s == "" || t.open[r] == "" {
		return s
	}
	return t.open[r] + s + reset
}

// PaintOn is Paint in the line under the cursor, when on is set.
func (t *Theme) PaintOn(on bool, r Role, s string) string {
	if !on || s == "" {
		return t.Paint(r, s)
	}
	if t.cursor == "\x1b[7m" && (r == Dim || r == Border || r == Title) {
		r = Plain // grey on a reversed line can't be read
	}
	return t.cursor + t.open[r] + s + reset
}

// Of gives the role of a colour that text names.
func Of(c text.Colour) Role {
	switch c {
	case text.Red:
		return Bad
	case text.Green:
		return Good
	case text.Yellow:
		return Warn
	case text.Cyan, text.Blue:
		return Busy
	case text.Grey:
		return Dim
	case text.Bold:
		return Strong
	case text.Plain:
	}
	return Plain
}

// Glyph picks a sign that the terminal can show.
func (t *Theme) Glyph(unicode, ascii string) string {
	if t.Style.Unicode {
		return unicode
	}
	return ascii
}
