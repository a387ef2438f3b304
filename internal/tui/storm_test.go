package tui_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	tea "charm.land/bubbletea/v2"
)

// declared are the types of a package that are screens, or dialogs: those with a
// View of lines and the Update that makes one.
func declared(t *testing.T, folder string, dialogs bool) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]int{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Type.Results == nil {
				continue
			}
			recv := f.Recv.List[0].Type
			if star, ok := recv.(*ast.StarExpr); ok {
				recv = star.X
			}
			name, ok := recv.(*ast.Ident)
			if !ok {
				continue
			}
			results := f.Type.Results.NumFields()
			switch {
			case f.Name.Name == "View" && f.Type.Params.NumFields() == 2 && results == 1,
				f.Name.Name == "Update" && f.Type.Params.NumFields() == 1 && (results == 2) == dialogs:
				has[name.Name]++
			}
		}
	}
	var out []string
	for name, n := range has {
		if n == 2 {
			out = append(out, "*"+filepath.Base(folder)+"."+name)
		}
	}
	slices.Sort(out)
	return out
}

// Proves U1: whatever screen or dialog there is, and whatever tab of a run, the
// storm goes over it; one that is added and not listed fails here.
func TestU1_TheStormMissesNoScreen(t *testing.T) {
	seen := map[string]bool{}
	tabs := map[string]bool{}
	for _, p := range places {
		synctest.Test(t, func(t *testing.T) {
			s := newScreen(t, 120, 40, small())
			s.press(p.keys...)
			shown, dialog := s.m.Shown()
			seen[shown], seen[dialog] = true, true
			if strings.HasPrefix(p.name, "run") && p.name != "runs" {
				tabs[strings.Split(s.text(), "\n")[2]+s.look(3)] = true
			}
		})
	}
	for _, name := range slices.Concat(declared(t, "screen", false), declared(t, "screen", true), declared(t, "dialog", true)) {
		if !seen[name] {
			t.Errorf("%s is on none of the places in golden_test.go", name)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(t, 120, 40, small())
		s.press("enter")
		first, n := s.look(3), 0
		for s.press("right"); s.look(3) != first; s.press("right") {
			n++
		}
		if n+1 != len(tabs) {
			t.Errorf("a run has %d tabs, of which places in golden_test.go show %d", n+1, len(tabs))
		}
	})
}

// look is one line of the screen with its colours.
func (s *screen) look(line int) string { return s.m.Lines()[line] }

// Proves U1: every width from 1 to 400 and every height from 1 to 120, and a
// click in every cell, up to 400x120, of every screen and dialog.
func TestU1_TheWholeStorm(t *testing.T) {
	if os.Getenv("CDUI_SOAK") == "" {
		t.Skip("takes minutes; make soak runs it")
	}
	frames := data()
	for _, p := range places {
		for _, name := range []string{"small", "empty", "huge"} {
			if p.once && name != "small" {
				continue
			}
			t.Run(p.name+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rand.New(rand.NewPCG(2, uint64(len(p.name)))) //nolint:gosec // repeats
					fresh := func() *screen {
						s := newScreen(t, 120, 40, frames[name])
						s.press(p.keys...)
						return s
					}
					s := fresh()
					var storm []size
					for w := range 400 {
						storm = append(storm, size{w + 1, 1 + r.IntN(120)}, size{w + 1, 24})
					}
					for h := range 120 {
						storm = append(storm, size{1 + r.IntN(400), h + 1}, size{80, h + 1})
					}
					r.Shuffle(len(storm), func(i, k int) { storm[i], storm[k] = storm[k], storm[i] })
					for _, z := range storm {
						s.resize(z.w, z.h)
						s.text()
						for _, b := range []tea.MouseButton{tea.MouseWheelDown, tea.MouseWheelUp} {
							s.send(tea.MouseWheelMsg{Button: b, X: r.IntN(z.w), Y: r.IntN(z.h)})
						}
					}
					for _, z := range append(slices.Clone(sizes), size{41, 120}, size{400, 120}) {
						s = fresh() // clicks lead elsewhere
						s.resize(z.w, z.h)
						for y := range z.h {
							for x := range z.w {
								s.m.Update(tea.MouseClickMsg{Button: tea.MouseLeft, X: x, Y: y})
								if x%97 == 0 {
									s.text()
								}
							}
							if y%10 == 9 {
								s = fresh()
								s.resize(z.w, z.h)
							}
						}
					}
					s.press("esc", "esc", "esc", "q")
					if !s.quit {
						t.Error(fmt.Sprint(p.name, ": q does not quit"))
					}
				})
			})
		}
	}
}
