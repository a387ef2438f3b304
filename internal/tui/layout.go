package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/widget"
)

// The least size that screens are made for.
const (
	leastWidth  = 40
	leastHeight = 10
	brand       = " cdui  "
)

func cells(s string) int { return ansi.StringWidth(s) }

// body is where the screen lies between head and foot.
func (m *model) body() (top, height int) {
	if m.h < 16 {
		return 1, m.h - 2
	}
	return 2, m.h - 4
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "cdui"
	v.MouseMode = tea.MouseModeCellMotion
	if in, ok := m.current().(interface{ InLog() bool }); ok && in.InLog() && m.dialog == nil {
		v.MouseMode = tea.MouseModeNone
	}
	return v
}

// lines are the whole screen.
func (m *model) lines() []string {
	if m.w <= 0 || m.h <= 0 {
		return nil
	}
	if m.w < leastWidth || m.h < leastHeight {
		return m.tooSmall()
	}
	top, height := m.body()
	lines := []string{m.head()}
	if top > 1 {
		lines = append(lines, widget.Rule(m.w, m.world.Theme))
	}
	lines = append(lines, m.middle(height)...)
	if top > 1 {
		lines = append(lines, widget.Rule(m.w, m.world.Theme))
	}
	lines = append(lines, m.foot())
	if m.dialog != nil {
		box := m.dialog.View(m.w-2, m.h-2)
		if len(box) > 0 {
			lines = widget.Overlay(lines, box, max(0, (m.w-cells(box[0]))/2), max(0, (m.h-len(box))/2))
		}
	}
	if !m.world.Theme.Style.Unicode {
		for i := range lines {
			lines[i] = toASCII.Replace(lines[i])
		}
	}
	return lines
}

// toASCII replaces the signs in our own words, cell by cell.
//
//nolint:gochecknoglobals // a table
var toASCII = strings.NewReplacer("…", "~", "↑", "^", "↓", "v", "←", "<", "→", ">", "×", "x", "·", "-", "•", "*")

func (m *model) middle(height int) []string {
	if !m.world.Board.Whole() && m.lost != nil && len(m.opened) == 0 {
		out := []string{""}
		for _, line := range text.Wrap(widget.Plain(m.world.Lang.Error(m.lost)), m.w-4) {
			out = append(out, "  "+line)
		}
		out = append(out, "", "  "+m.world.Theme.Paint(theme.Dim, m.world.Lang.T("It is tried again all the time; q quits.")))
		return widget.Block(out, m.w, height, m.world.Theme.Style)
	}
	return m.current().View(m.w, height)
}

// tooSmall is what fits wherever there is a cell.
func (m *model) tooSmall() []string {
	l := m.world.Lang
	words := []string{l.F("too small: %d×%d", m.w, m.h), l.F("%d×%d at least", leastWidth, leastHeight), l.T("q quits")}
	if !m.world.Theme.Style.Unicode {
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "×", "x")
		}
	}
	return widget.Block(words, m.w, m.h, m.world.Theme.Style)
}

// head is where a person is, how things stand, and whether that is so now.
func (m *model) head() string {
	th, l := m.world.Theme, m.world.Lang
	var names []string
	for _, i := range m.named() {
		role := theme.Dim
		if i == m.at {
			role = theme.Strong
		}
		names = append(names, th.Paint(role, l.T(m.lists[i].Title())))
	}
	left := th.Paint(theme.Accent, brand) + m.context() + strings.Join(names, "  ") + "  "
	right := m.link() + " "
	if m.w < 60 || m.w >= 90 { // between them how things stand needs the room
		right = m.link() + "  " + m.cfg.Now().Local().Format("15:04") + " "
	}
	room := m.w - cells(left) - cells(right) - 2
	middle := ""
	for _, part := range m.standing() {
		next := part
		if middle != "" {
			next = middle + th.Glyph(" · ", " - ") + part
		}
		if cells(next) > room {
			break
		}
		middle = next
	}
	return widget.Sides(left+" "+middle, right, m.w, th.Style)
}

// context is what the control plane is called, where it is: before all else, so
// that it is never left out for want of room.
func (m *model) context() string {
	if m.cfg.Context == "" {
		return ""
	}
	return m.world.Theme.Paint(theme.Strong, widget.Plain(m.cfg.Context)) + "  "
}

// named are the lists whose names the head has room for: all, or from the one
// that is shown on.
func (m *model) named() []int {
	const link = 16
	total := len(brand) + cells(m.context())
	for _, s := range m.lists {
		total += cells(m.world.Lang.T(s.Title())) + 2
	}
	var out []int
	for i := range m.lists {
		if total+link <= m.w || i >= m.at {
			out = append(out, i)
		}
	}
	return out
}

// standing is the sums of everything.
func (m *model) standing() []string {
	board, l := m.world.Board, m.world.Lang
	var out []string
	if !board.Whole() {
		return append(out, m.cfg.Place)
	}
	cards, busy, online := 0, 0, 0
	count := func(kind string, used int) {
		if kind == "cpu" {
			return
		}
		cards++
		if used > 0 {
			busy++
		}
	}
	for _, d := range board.Machine().Devices {
		count(d.Kind, d.Slots.Used)
	}
	workers := board.Workers()
	for _, w := range workers {
		if w.State == api.WorkerOnline {
			online++
		}
		for _, d := range w.Devices {
			count(d.Kind, d.Slots.Used)
		}
	}
	c := board.Counts()
	out = append(out, l.F("%d running", c.Running), l.F("%d waiting", c.Waiting))
	if cards > 0 {
		out = append(out, l.F("%d/%d cards busy", busy, cards))
	}
	if len(workers) > 0 {
		out = append(out, l.F("%d/%d workers", online, len(workers)))
	}
	return append(out, m.cfg.Place)
}

// link says whether the screen is up to date.
func (m *model) link() string {
	th, l := m.world.Theme, m.world.Lang
	switch {
	case m.lost != nil:
		since := text.Age(m.cfg.Now().Sub(m.lostSince))
		return th.Paint(theme.Warn, th.Glyph("◌ ", "~ ")+l.F("link lost %s", since))
	case !m.world.Board.Whole():
		return th.Paint(theme.Dim, th.Glyph("◌ ", "~ ")+l.T("connecting"))
	}
	return th.Paint(theme.Good, th.Glyph("●", "*")) + " " + l.T("live")
}

// foot is what keys do here, what is typed, or what an action did.
func (m *model) foot() string {
	th, l := m.world.Theme, m.world.Lang
	note := th.Paint(theme.Dim, m.current().Note()) + " "
	switch {
	case m.typing != notTyping:
		return widget.Sides(" "+dialog.InputView(m.world, m.line, m.w*2/3, true), m.aside(), m.w, th.Style)
	case m.cfg.Now().Before(m.toastEnd):
		return widget.Sides(" "+m.said(), "", m.w, th.Style)
	case m.lost != nil && m.world.Board.Whole():
		words := widget.Plain(l.Error(m.lost)) + "; " + l.T("trying again")
		return widget.Sides(" "+th.Paint(theme.Warn, words), "", m.w, th.Style)
	}
	return widget.Sides(m.hints(m.w-cells(note)-2), note, m.w, th.Style)
}

// hints are the keys of the screen that there is room for; the one that shows
// all of them always is.
func (m *model) hints(room int) string {
	th, l := m.world.Theme, m.world.Lang
	hint := func(b keymap.Binding) string {
		return " " + th.Paint(theme.Accent, b.Shown()) + " " + th.Paint(theme.Dim, l.T(b.Does())) + " "
	}
	all := hint(keymap.Help)
	out := ""
	for _, g := range m.current().Keys() {
		for _, b := range g.Bindings {
			if !b.Hint || b.Does() == keymap.Help.Does() {
				continue
			}
			if h := hint(b); cells(out)+cells(h)+cells(all) <= room {
				out += h
			}
		}
	}
	return out + all
}

// aside helps with what is typed.
func (m *model) aside() string {
	th := m.world.Theme
	if m.typing == typingFilter {
		if m.bad != nil {
			return th.Paint(theme.Bad, widget.Plain(m.bad.Error())) + " "
		}
		return th.Paint(theme.Dim, m.world.Lang.T("regular expression, ! turns it around")) + " "
	}
	all := completions(m, m.line.Value())
	more := ""
	if len(all) > 6 {
		all, more = all[:6], " "+th.Style.Ellipsis()
	}
	return th.Paint(theme.Dim, strings.Join(all, "  ")+more) + " "
}

// said is what the last action did, and the command that does the same.
func (m *model) said() string {
	th, d := m.world.Theme, m.toast
	command := ""
	if d.Command != "" {
		command = th.Paint(theme.Dim, d.Command)
	}
	switch {
	case d.Err != nil:
		return th.Paint(theme.Bad, th.Glyph("✗ ", "x ")) + widget.Plain(m.world.Lang.Error(d.Err)) + "   " + command
	case d.Command == "":
		return widget.Plain(d.Said)
	case d.Said == "":
		return th.Paint(theme.Good, th.Glyph("✓ ", "+ ")) + command
	}
	return fmt.Sprintf("%s%s   %s", th.Paint(theme.Good, th.Glyph("✓ ", "+ ")), widget.Plain(d.Said), command)
}
