package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/run"
	"cdui/internal/tui/dialog"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/lang"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
)

// entry is a command of the palette.
type entry struct {
	name string
	// args are what may follow, for completion; free takes anything.
	args func(m *model) []string
	do   func(m *model, rest string) tea.Cmd
}

// palette lists the commands of the line that : opens.
func palette() []entry {
	list := func(at int) func(m *model, _ string) tea.Cmd {
		return func(m *model, _ string) tea.Cmd {
			m.show(at)
			return nil
		}
	}
	return []entry{
		{name: "runs", do: list(0)},
		{name: "queue", do: list(1)},
		{name: "workers", do: list(2)},
		{name: "sweeps", do: list(3)},
		{name: "actions", do: list(4)},
		{name: "open", args: shortIDs, do: openRun},
		{name: "logs", args: shortIDs, do: func(m *model, rest string) tea.Cmd { return openTab(m, rest, "console") }},
		{name: "run", do: func(m *model, rest string) tea.Cmd {
			m.dialog = dialog.NewSubmit(m.world, nil).Naming(rest)
			return nil
		}},
		{name: "sweep", do: func(m *model, rest string) tea.Cmd {
			m.dialog = dialog.NewSweep(m.world).Naming(rest)
			return nil
		}},
		{name: "study", do: func(m *model, rest string) tea.Cmd {
			m.dialog = dialog.NewStudy(m.world).Naming(rest)
			return nil
		}},
		{name: "add", do: func(m *model, _ string) tea.Cmd {
			m.dialog = dialog.NewAddWorker(m.world)
			return nil
		}},
		{name: "theme", args: func(*model) []string { return theme.Names() }, do: func(m *model, rest string) tea.Cmd {
			if !slices.Contains(theme.Names(), rest) {
				return m.wrong(m.world.Lang.F("theme is one of %s", strings.Join(theme.Names(), ", ")))
			}
			m.paint(rest)
			return nil
		}},
		{name: "lang", args: func(*model) []string { return lang.Names() }, do: func(m *model, rest string) tea.Cmd {
			if !slices.Contains(lang.Names(), rest) {
				return m.wrong(m.world.Lang.F("lang is one of %s", strings.Join(lang.Names(), ", ")))
			}
			m.speak(rest)
			return nil
		}},
		{name: "help", do: func(m *model, _ string) tea.Cmd {
			return m.key(tea.KeyPressMsg{Text: keymap.Help.Keys()[0], Code: '?'})
		}},
		{name: "quit", do: func(*model, string) tea.Cmd { return tea.Quit }},
	}
}

func shortIDs(m *model) []string {
	var ids []string
	for _, r := range m.world.Board.Runs() {
		if len(ids) == 200 {
			break
		}
		ids = append(ids, run.Short(r.ID))
	}
	return ids
}

func openRun(m *model, rest string) tea.Cmd { return openTab(m, rest, "") }

// openTab opens the run that a short id or a name means.
func openTab(m *model, rest, tab string) tea.Cmd {
	if rest == "" {
		return m.wrong(m.world.Lang.T("which run? Give its id"))
	}
	for _, r := range m.world.Board.Runs() {
		if strings.HasPrefix(r.ID, rest) || r.Name == rest {
			return m.world.Shell.Open(r.ID, tab)
		}
	}
	return m.wrong(m.world.Lang.F("no run %q", rest))
}

func (m *model) wrong(text string) tea.Cmd {
	m.say(ui.Done{Said: text})
	return nil
}

// command carries out what was typed after ":".
func (m *model) command(text string) tea.Cmd {
	verb, rest := words(text)
	if verb == "" {
		return nil
	}
	var near []entry
	for _, e := range palette() {
		if e.name == verb {
			return e.do(m, rest)
		}
		if strings.HasPrefix(e.name, verb) {
			near = append(near, e)
		}
	}
	if len(near) == 1 || len(near) > 1 && verb == "q" {
		return near[len(near)-1].do(m, rest)
	}
	var names []string
	for _, e := range palette() {
		names = append(names, e.name)
	}
	return m.wrong(m.world.Lang.F("no command %q; there are %s", verb, strings.Join(names, ", ")))
}

// completions lists what the line could become.
func completions(m *model, text string) []string {
	verb, rest, more := strings.Cut(text, " ")
	var out []string
	for _, e := range palette() {
		if !more && strings.HasPrefix(e.name, verb) {
			out = append(out, e.name)
		}
		if more && e.name == verb && e.args != nil {
			for _, a := range e.args(m) {
				if strings.HasPrefix(a, rest) {
					out = append(out, e.name+" "+a)
				}
			}
		}
	}
	return out
}
