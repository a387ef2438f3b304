package tui_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	tea "charm.land/bubbletea/v2"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/run"
	"cdui/internal/tui"
	"cdui/internal/tui/ui"
)

// Proves U1: sizes from 1x1 to 400x120 in a storm, a click in every cell, lists
// that are empty or huge: no panic, each line as wide as the screen, and q always
// ends the program.
func TestU1_ResizeStormWithClicksEverywhere(t *testing.T) {
	frames := map[string]api.LiveFrame{"empty": none(), "small": small(), "huge": huge(500), "nothing yet": {}}
	for name, f := range frames {
		for _, p := range places {
			if p.once && name != "small" {
				continue
			}
			t.Run(name+" "+p.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(1, uint64(len(p.name)))) //nolint:gosec // repeats
					s := newScreen(t, 120, 40, f)
					s.press(p.keys...)
					storm := []size{{1, 1}, {400, 120}, {2, 1}, {1, 120}, {400, 1}, {39, 10}, {40, 9}, {40, 10}, {3, 3}, {80, 24}}
					for range 10 {
						storm = append(storm, size{1 + r.IntN(400), 1 + r.IntN(120)})
					}
					for _, z := range storm {
						s.resize(z.w, z.h)
						s.text()
						s.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown, X: r.IntN(z.w), Y: r.IntN(z.h)})
					}
					clicked := []size{{40, 10}, {80, 24}}
					if name != "small" {
						clicked = clicked[:1]
					}
					for _, z := range clicked {
						s.resize(z.w, z.h)
						for y := range z.h {
							for x := range z.w {
								s.m.Update(tea.MouseClickMsg{Button: tea.MouseLeft, X: x, Y: y})
							}
							s.text()
						}
					}
					s.text()
				})
			})
		}
	}
}

func TestU1_QuitAlwaysWorks(t *testing.T) {
	for _, z := range []size{{1, 1}, {40, 10}, {400, 120}} {
		for _, p := range places {
			synctest.Test(t, func(t *testing.T) {
				s := newScreen(t, z.w, z.h, small())
				s.press(p.keys...)
				s.press("ctrl+c")
				if !s.quit {
					t.Errorf("%dx%d %s: ctrl-c does not quit", z.w, z.h, p.name)
				}
				s = newScreen(t, 80, 24, small())
				s.press(p.keys...)
				s.resize(z.w, z.h)
				if z.w >= tui.LeastWidth { // a dialog is left first
					s.press("esc", "esc")
				}
				s.press("q")
				if !s.quit {
					t.Errorf("%dx%d %s: q does not quit", z.w, z.h, p.name)
				}
			})
		}
	}
}

// Any keys in any order, while frames come.
func TestU1_AnyKeys(t *testing.T) {
	keys := strings.Fields("up down left right enter esc tab space pgup pgdown home end / : ? l d y s n c h a D f w g G R S N W P L A 1 2 3 4 5 6 7 x ! [ ctrl+d backspace")
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // repeats
			s := newScreen(t, 90, 30, small())
			for i := range 250 {
				s.press(keys[r.IntN(len(keys))])
				switch {
				case i%40 == 0:
					f := small()
					if i%80 == 0 {
						f = none()
					}
					s.m.Update(tui.Fed(f))
				case i%55 == 0:
					s.m.Update(tui.Lost(errors.New("cut")))
				}
				s.text()
			}
		})
	}
}

func TestActionsShowTheCommandThatDoesTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		did  string
		said []string
	}{
		"cancel":                {[]string{"c"}, "[cancel 81d00200]", []string{"asked to stop; it has 30 s", "cdui cancel 81d00200"}},
		"cancel what is marked": {[]string{"space", "space", "c", "y"}, "[cancel 81d00200 cancel 3f1c9ab2]", []string{"cdui cancel 81d00200 3f1c9ab2"}},
		"hold":                  {[]string{"/", "e", "v", "a", "l", "enter", "h"}, "[hold 0c11d400]", []string{"cdui runs hold 0c11d400"}},
		"release":               {[]string{"/", "l", "a", "t", "e", "r", "enter", "h"}, "[release be1d0000]", []string{"cdui runs release be1d0000"}},
		"delete":                {[]string{"end", "ctrl+d", "y"}, "[delete 44f2b1cc]", []string{"cdui runs rm 44f2b1cc"}},
		"not deleted":           {[]string{"end", "ctrl+d", "enter"}, "[]", nil},
		"what runs is kept":     {[]string{"ctrl+d"}, "[]", []string{"cancel it first"}},
		"queue on": {
			[]string{"s", "right", "down", "right", "space", "enter"},
			"[submit 81d00200 [] on box1 [cuda:0 cuda:1] ]",
			[]string{"queued as fe11", "cdui runs rerun 81d00200 --worker box1 --devices cuda:0,cuda:1"},
		},
		"new run": {append(typedKeys("n", "train.py --lr 3e-4"), "enter"), "[submit train.py [--lr 3e-4] on  [cpu] ]", []string{"cdui run train.py -- --lr 3e-4"}},
		"memory": {
			append(typedKeys("s", ""), "down", "down", "1", "2", "G", "i", "B", "enter"), "[submit 81d00200 [] on local [cpu] 12GiB]",
			[]string{"cdui runs rerun 81d00200 --worker local --device cpu --memory 12GiB"},
		},
		"hold a queue":     {[]string{"tab", "h"}, "[hold queue box1/cuda:0]", []string{"nothing of box1/cuda:0 starts", "cdui queue hold box1/cuda:0"}},
		"release a queue":  {[]string{"tab", "end", "h"}, "[release queue cuda:0]", []string{"cdui queue release cuda:0"}},
		"drain":            {[]string{"tab", "tab", "down", "down", "D"}, "[drain box1]", []string{"box1 takes no new runs; 2 go on there", "cdui workers drain box1"}},
		"undrain":          {[]string{"tab", "tab", "end", "D"}, "[undrain 工作站]", []string{"cdui workers undrain 工作站"}},
		"remove a worker":  {[]string{"tab", "tab", "end", "ctrl+d", "right", "enter"}, "[remove 工作站]", []string{"cdui workers rm 工作站"}},
		"this machine":     {[]string{"tab", "tab", "D"}, "[]", []string{"can't be drained"}},
		"add a worker":     {append(typedKeys("tab", ""), "tab", "a", "b", "o", "x", "9", "enter"), "[add box9]", []string{"--name box9", "once"}},
		"cancel from open": {[]string{"down", "enter", "c"}, "[cancel 3f1c9ab2]", []string{"cdui cancel 3f1c9ab2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScreen(t, 120, 30, small())
				s.press(c.keys...)
				if got := fmt.Sprint(s.src.did); got != c.did {
					t.Errorf("did %s, want %s", got, c.did)
				}
				s.shows(c.said...)
			})
		})
	}
}

// typedKeys is a key and then a text, letter by letter.
func typedKeys(first, text string) []string {
	keys := []string{first}
	for _, r := range text {
		if r == ' ' {
			keys = append(keys, "space")
			continue
		}
		keys = append(keys, string(r))
	}
	return keys
}

func TestARefusalIsShown(t *testing.T) {
	s := newScreen(t, 120, 30, small())
	s.src.err = api.Errorf(api.Conflict, "run 81d00200 is succeeded")
	s.press("c")
	s.shows("run 81d00200 is succeeded", "cdui cancel 81d00200")
	s.press("s")
	s.press("enter")
	s.shows("Queue digits again", "run 81d00200 is succeeded") // the form stays
}

func TestFilter(t *testing.T) {
	s := newScreen(t, 120, 30, small())
	s.press("/")
	s.write("DIGITS|sweep")
	s.shows("digits", "resnet epoch sweep #3")
	s.hides("finetune-7b")
	s.press("enter")
	s.shows("3 of 1,204 runs  /DIGITS|sweep")
	s.press("/", "home")
	s.write("!")
	s.shows("finetune-7b")
	s.hides("resnet epoch")
	s.press("end")
	s.write("(")
	s.shows("missing closing")
	s.press("esc")
	s.shows("finetune-7b", "resnet epoch sweep #3", "12 of 1,204 runs")
	s.press("/")
	s.write("nothing is called so")
	s.press("enter")
	s.shows("Nothing matches /nothing is called so")
	s.press("esc")
	s.shows("12 of 1,204 runs")
}

func TestPalette(t *testing.T) {
	s := newScreen(t, 120, 30, small())
	command := func(text string) {
		s.press(":")
		s.write(text)
		s.press("enter")
	}
	command("workers")
	s.shows("6 machines, 4 cards")
	command("queue")
	s.shows("WHY THE FIRST WAITS")
	command("theme solar")
	s.shows("theme is one of dark, light, none")
	command("lang zh-TW")
	s.shows("佇列", "即時")
	command("lang en")
	command("fly")
	s.shows(`no command "fly"; there are runs, queue`)
	command("run train.py -- --lr 1")
	s.shows("Queue a new run", "cdui run train.py -- --lr 1")
	s.press("esc")
	command("open 9e0a")
	s.shows("9e0a17aa", "overview")
	command("runs")
	s.shows("PROGRESS")
	s.press(":")
	s.write("wor")
	s.press("tab", "enter")
	s.shows("6 machines, 4 cards")
	command("help")
	s.shows("keys: Workers")
	s.press("esc")
	command("quit")
	if !s.quit {
		t.Error("quit does not quit")
	}
}

func TestSorting(t *testing.T) {
	order := func(s *screen) string {
		var ids []string
		for line := range strings.SplitSeq(s.text(), "\n") {
			if f := strings.Fields(line); len(f) > 2 && len(f[1]) == 8 {
				ids = append(ids, f[1][:2])
			}
		}
		return strings.Join(ids, " ")
	}
	s := newScreen(t, 120, 40, small())
	if got := order(s); got != "81 3f 7a a7 5b 0c c0 be 1d 77 9e 44" {
		t.Errorf("what goes on comes first: %s", got)
	}
	s.press("L")
	if got := order(s); !strings.HasPrefix(got, "81 9e 3f a7 7a") {
		t.Errorf("by loss: %s", got)
	}
	s.press("L")
	if got := order(s); !strings.HasSuffix(got, "7a a7 3f 9e 81") {
		t.Errorf("by loss from its end: %s", got)
	}
	s.press("A")
	if got := order(s); !strings.HasPrefix(got, "be c0 0c 5b") {
		t.Errorf("by age: %s", got)
	}
	s.shows("AGE↑")
	s.send(tea.MouseClickMsg{X: 30, Y: 2})
	s.shows("NAME↑")
}

// The cursor stays on its run while rows come, go and move.
func TestTheCursorStaysOnItsRun(t *testing.T) {
	s := newScreen(t, 120, 30, small())
	s.press("down", "down", "down", "down") // 5b90cc12
	f := api.LiveFrame{Type: api.LiveDelta, Boot: "b", Runs: []api.LiveRun{
		{ID: clitest.ID("aaaa"), Order: 50, Name: "new", Status: run.Running, CreatedAt: clitest.Now()},
	}, GoneRuns: []string{clitest.ID("81d00200"), clitest.ID("7aa01e00")}}
	s.m.Update(tui.Fed(f))
	s.text()
	s.press("y")
	var copied string
	for _, m := range s.sent {
		if c, ok := m.(ui.Copy); ok {
			copied = c.Text
		}
	}
	if copied != clitest.ID("5b90cc12") {
		t.Errorf("copied %q", copied)
	}
}

// Proves T-01: the screen says that the line is lost, and shows no ghost once
// it is back.
func TestALostLineIsSaidAndLeavesNoGhost(t *testing.T) {
	s := newScreen(t, 120, 30, small())
	s.m.Update(tui.Lost(errors.New("the control plane at lab:8000 has stopped")))
	s.shows("link lost", "the control plane at lab:8000 has stopped; trying again", "resnet epoch sweep #3")
	f := none()
	f.Boot = "another"
	f.Runs = []api.LiveRun{{ID: clitest.ID("bb"), Order: 1, Name: "after the restart", Status: run.Running, CreatedAt: clitest.Now()}}
	s.m.Update(tui.Fed(f))
	s.shows("live", "after the restart", "1 of 1 runs")
	s.hides("resnet epoch sweep #3", "link lost")

	// One that was never there.
	s = newScreen(t, 80, 24, api.LiveFrame{})
	s.shows("connecting", "Connecting…")
	s.m.Update(tui.Lost(errors.New("no control plane answers at lab:8000: start one with: cdui start")))
	s.shows("no control plane answers at lab:8000", "It is tried again all the time; q quits.")
}

// Replies of a screen that was left change nothing.
func TestStaleRepliesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 30, small())
		s.press("enter")
		replies := slices.Clone(s.sent)
		s.press("esc", "down", "enter")
		before := s.text()
		for _, m := range replies {
			s.m.Update(m)
		}
		if after := s.text(); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
}

func TestTheMouseIsOffWhereAPersonMarksText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 30, small())
		if s.m.View().MouseMode == tea.MouseModeNone {
			t.Error("off in the list")
		}
		s.press("l")
		if s.m.View().MouseMode != tea.MouseModeNone {
			t.Error("on in the output")
		}
	})
}

func TestOutputIsFollowedUntilAPersonScrolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 20, small())
		s.press("l")
		s.shows("following", "290/469")
		s.press("up", "up")
		s.shows("paused, f follows")
		s.hides("290/469")
		s.press("f")
		s.shows("following", "290/469")
		s.press("/")
		s.write("epoch 3")
		s.press("enter")
		s.shows("epoch 3: loss")
		s.hides("epoch 4")
	})
}
