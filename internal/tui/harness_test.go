package tui_test

import (
	"context"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/client/live"
	"cdui/internal/tui"
	"cdui/internal/tui/lang"
	"cdui/internal/tui/ui"
)

// screen is a root that a test hands messages to, without a program: commands
// are carried out one after the other.
type screen struct {
	t    testing.TB
	m    *tui.Model
	src  *source
	w, h int
	quit bool
	// sent are the messages that commands gave and that only the program would
	// understand.
	sent []tea.Msg
}

type option func(*tui.Config)

func themed(name string) option { return func(c *tui.Config) { c.Theme = name } }
func speaking(l string) option  { return func(c *tui.Config) { c.Lang = l } }
func ascii() option             { return func(c *tui.Config) { c.Unicode = false } }

func newScreen(t testing.TB, w, h int, frame api.LiveFrame, options ...option) *screen {
	t.Helper()
	src := sweepRun()
	groupsOf(src, frame)
	actionsOf(src, frame)
	cfg := tui.Config{
		Dial:   func(context.Context, string, int64) (live.Conn, error) { panic("a test dials") },
		Source: src, Sweeps: src, Log: src, Disk: shelf{}, MachineID: "m1",
		Act:   ui.Actions{Runs: src, Workers: src, Queue: src, Sweeps: src, Submit: src.submit, SubmitSweep: src.submitSweep, SubmitStudy: src.submitStudy},
		Theme: "dark", Lang: lang.English, Unicode: true, Place: "lab:8000", Now: clitest.Now,
	}
	for _, o := range options {
		o(&cfg)
	}
	s := &screen{t: t, m: tui.NewModel(context.Background(), cfg), src: src}
	s.send(tea.ColorProfileMsg{Profile: colorprofile.ANSI256})
	s.resize(w, h)
	if frame.Type != "" {
		s.m.Update(tui.Fed(frame)) // its command waits for the next frame
	}
	return s
}

// depth bounds how many commands follow from one message: some go on for ever.
const depth = 6

func (s *screen) send(msg tea.Msg) { s.deliver(msg, depth) }

func (s *screen) deliver(msg tea.Msg, depth int) {
	_, cmd := s.m.Update(msg)
	s.carry(cmd, depth)
}

func (s *screen) carry(cmd tea.Cmd, depth int) {
	if cmd == nil || depth == 0 {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.QuitMsg:
		s.quit = true
	case tea.BatchMsg:
		for _, c := range msg {
			s.carry(c, depth-1)
		}
	default:
		s.sent = append(s.sent, msg)
		s.deliver(msg, depth-1)
	}
}

func (s *screen) resize(w, h int) {
	s.w, s.h = w, h
	s.m.Update(tea.WindowSizeMsg{Width: w, Height: h})
}

// press sends keys, by the names that they have in the key map.
func (s *screen) press(keys ...string) {
	for _, k := range keys {
		s.send(keyMsg(k))
	}
}

// write types a text.
func (s *screen) write(text string) {
	for _, r := range text {
		if r == ' ' {
			s.send(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
			continue
		}
		s.send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

// copied is what was put into the clipboard.
func (s *screen) copied() string {
	var all []string
	for _, m := range s.sent {
		if c, ok := m.(ui.Copy); ok {
			all = append(all, c.Text)
		}
	}
	return strings.Join(all, "; ")
}

func keyMsg(name string) tea.KeyPressMsg {
	codes := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
		"right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "space": tea.KeySpace,
		"backspace": tea.KeyBackspace,
	}
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(rest[0]), Mod: tea.ModCtrl}
	}
	if code, ok := codes[name]; ok {
		msg := tea.KeyPressMsg{Code: code}
		if name == "space" {
			msg.Text = " "
		}
		return msg
	}
	return tea.KeyPressMsg{Code: rune(name[0]), Text: name}
}

// text is what a person sees, without looks; every line is as wide as the
// screen, or the test fails.
func (s *screen) text() string {
	s.t.Helper()
	s.m.Lines()
	s.send(struct{}{}) // what a screen reads because of its size, as with the next tick
	lines := s.m.Lines()
	if len(lines) != s.h {
		s.t.Errorf("%dx%d: %d lines", s.w, s.h, len(lines))
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		if n := ansi.StringWidth(l); n != s.w {
			s.t.Errorf("%dx%d: line %d is %d cells: %q", s.w, s.h, i, n, ansi.Strip(l))
		}
		out[i] = strings.TrimRight(ansi.Strip(l), " ")
	}
	return strings.Join(out, "\n") + "\n"
}

// shows fails unless all words stand on the screen.
func (s *screen) shows(words ...string) {
	s.t.Helper()
	got := s.text()
	for _, w := range words {
		if !strings.Contains(got, w) {
			s.t.Errorf("%q is not on the screen:\n%s", w, got)
		}
	}
}

func (s *screen) hides(words ...string) {
	s.t.Helper()
	got := s.text()
	for _, w := range words {
		if strings.Contains(got, w) {
			s.t.Errorf("%q is on the screen:\n%s", w, got)
		}
	}
}
