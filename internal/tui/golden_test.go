package tui_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/tui/lang"
)

type size struct{ w, h int }

var sizes = []size{{40, 10}, {80, 24}, {120, 40}, {200, 60}}

// places are the screens and how to get there from the first one.
var places = []struct {
	name string
	keys []string
	// once: the data makes no difference.
	once bool
}{
	{name: "runs"},
	{name: "queue", keys: []string{"tab", "down", "enter"}},
	{name: "workers", keys: []string{"tab", "tab", "down", "down"}},
	{name: "sweeps", keys: toSweeps},
	{name: "actions", keys: []string{"5", "down"}},
	{name: "run", keys: []string{"enter"}, once: true},
	{name: "run-charts", keys: []string{"enter", "2"}, once: true},
	{name: "run-console", keys: []string{"enter", "3"}, once: true},
	{name: "run-events", keys: []string{"enter", "4"}, once: true},
	{name: "run-outputs", keys: []string{"enter", "5"}, once: true},
	{name: "run-files", keys: []string{"enter", "6"}, once: true},
	{name: "run-facts", keys: []string{"enter", "7"}, once: true},
	{name: "help", keys: []string{"?"}, once: true},
	{name: "queue-on", keys: []string{"s"}, once: true},
	{name: "new-run", keys: []string{"n"}, once: true},
	{name: "add-worker", keys: []string{"tab", "tab", "a", "b", "o", "x", "enter"}, once: true},
	{name: "delete", keys: []string{"end", "ctrl+d"}, once: true},
	{name: "sweep", keys: sweepKeys("enter", "down", "down", "down", "down")},
	{name: "curves", keys: sweepKeys("enter", "v"), once: true},
	{name: "study", keys: sweepKeys("down", "enter")},
	{name: "new-sweep", keys: append(typedKeys("S", "lr.yaml"), "down", "right", "right"), once: true},
	{name: "new-study", keys: append(append(sweepKeys(), typedKeys("T", "train.py")...), "down", "right"), once: true},
	{name: "cordon", keys: append([]string{"3", "down", "down", "down"}, typedKeys("x", "fan is loud")...), once: true},
	{name: "action", keys: []string{"5", "down", "d"}, once: true},
	{name: "file", keys: []string{"enter", "6", "end", "enter"}, once: true},
	{name: "cancel-sweep", keys: sweepKeys("c"), once: true},
	{name: "describe", keys: []string{"tab", "tab", "down", "down", "d"}, once: true},
}

func data() map[string]api.LiveFrame {
	return map[string]api.LiveFrame{"empty": none(), "small": small(), "huge": huge(10000)}
}

// Proves T-02 and T-04: what each screen looks like at each size, empty, with
// everything in it, and with ten thousand runs and 64 cards.
func TestScreens(t *testing.T) {
	frames := data()
	for _, p := range places {
		for _, name := range []string{"small", "empty", "huge"} {
			if p.once && name != "small" {
				continue
			}
			t.Run(p.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var all strings.Builder
					for _, z := range sizes {
						s := newScreen(t, z.w, z.h, frames[name])
						s.press(p.keys...)
						fmt.Fprintf(&all, "%dx%d\n%s\n", z.w, z.h, s.text())
					}
					clitest.Golden(t, p.name+"-"+name, all.String())
				})
			})
		}
	}
}

// The looks: escape sequences and all.
func TestThemes(t *testing.T) {
	for _, name := range []string{"dark", "light", "none"} {
		synctest.Test(t, func(t *testing.T) {
			var all strings.Builder
			for _, p := range places[:6] {
				s := newScreen(t, 80, 24, small(), themed(name))
				s.press(p.keys...)
				s.text()
				all.WriteString(strings.ReplaceAll(strings.Join(s.m.Lines(), "\n"), "\x1b", "^[") + "\n")
			}
			if name == "none" && strings.Contains(all.String(), "[3") {
				t.Error("a colour in a theme without")
			}
			clitest.Golden(t, "theme-"+name, all.String())
		})
	}
}

// Proves T-04: a terminal of 16 colours is sent no others.
func TestSixteenColours(t *testing.T) {
	for _, name := range []string{"dark", "light"} {
		synctest.Test(t, func(t *testing.T) {
			for _, p := range places {
				s := newScreen(t, 120, 40, small(), themed(name))
				s.send(tea.ColorProfileMsg{Profile: colorprofile.ANSI})
				s.press(p.keys...)
				s.text()
				if all := strings.Join(s.m.Lines(), "\n"); strings.Contains(all, "8;5;") || strings.Contains(all, "8;2;") {
					t.Errorf("%s %s: %q", name, p.name, all)
				}
			}
		})
	}
}

// A terminal without Unicode gets none from us; what others named stays.
func TestASCII(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all strings.Builder
		for _, p := range places {
			s := newScreen(t, 80, 24, small(), ascii(), themed("none"))
			s.press(p.keys...)
			all.WriteString(s.text() + "\n")
		}
		for _, r := range "─│┌●○✓✗▇▁⠉…·◐‖⊘×↓" {
			if strings.ContainsRune(strings.ReplaceAll(all.String(), "訓練 ✓", ""), r) {
				t.Errorf("%q is shown", r)
			}
		}
		clitest.Golden(t, "ascii", all.String())
	})
}

// Proves T-05.
func TestChinese(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all strings.Builder
		for _, p := range places {
			s := newScreen(t, 80, 24, small(), speaking(lang.Chinese))
			s.press(p.keys...)
			all.WriteString(s.text() + "\n")
		}
		clitest.Golden(t, "chinese", all.String())
	})
}
