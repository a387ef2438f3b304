package widget_test

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"cdui/internal/cli/text"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/widget"
)

func TestPlainTextIsAsWideForEveryTerminal(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"訓練 ok":               "訓練 ok",
		"👩‍🔬 lab":             "👩 lab", // joined: terminals show one picture, or two
		"👍🏽":                  "👍",     // tinted
		"🇹🇼":                  "TW",    // a flag
		"❤️ x":                "* x",   // one cell or two
		"é":                   "é",
		"a\x1b[31mb\nc\u202e": "ab c",
	} {
		if got := widget.Plain(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "訓", "👩", "\u200d", "🔬", "\ufe0f", "❤", "🏽", "🇹", "🇼", "e\u0301", "‖", "\t", "한", "कि"}), 0, 12).Draw(t, "parts")
		s := widget.Plain(strings.Join(parts, ""))
		// The three ways to count that are in use agree.
		if a, b, c := uniseg.StringWidth(s), ansi.StringWidth(s), ansi.StringWidthWc(s); a != b || b != c {
			t.Fatalf("%q is %d, %d or %d cells", s, a, b, c)
		}
	})
}

func TestFitAndOverlayKeepTheWidth(t *testing.T) {
	t.Parallel()
	th := theme.New("dark", true, true)
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"abc", "訓練", "🚀", " ", th.Paint(theme.Accent, "長x"), th.PaintOn(true, theme.Good, "●")})
		w := rapid.IntRange(1, 40).Draw(t, "w")
		lines := make([]string, rapid.IntRange(1, 5).Draw(t, "h"))
		for i := range lines {
			lines[i] = widget.Fit(strings.Join(rapid.SliceOfN(word, 0, 20).Draw(t, "words"), ""), w, th.Style)
			if n := ansi.StringWidth(lines[i]); n != w {
				t.Fatalf("%q is %d cells, not %d", lines[i], n, w)
			}
		}
		bw := rapid.IntRange(1, w).Draw(t, "bw")
		block := []string{widget.Fit("訓練a🚀", bw, th.Style), strings.Repeat("x", bw)}
		out := widget.Overlay(lines, block, rapid.IntRange(0, w-bw).Draw(t, "x"), rapid.IntRange(-1, 5).Draw(t, "y"))
		for _, l := range out {
			if n := ansi.StringWidth(l); n != w {
				t.Fatalf("%q is %d cells, not %d", l, n, w)
			}
		}
	})
}

type rows int

func (r rows) Len() int { return int(r) }
func (rows) Cells(int) []widget.Cell {
	return []widget.Cell{{Text: "訓練 🚀 name"}, {Text: "1.5"}, {Text: "x"}}
}
func (rows) Detail(i, _ int) []string { return make([]string, i%4) }
func (rows) Marked(i int) bool        { return i%3 == 0 }

// However a table is moved and sized, the cursor is in sight, and a click finds
// the row that is drawn there.
func TestTheCursorOfATableIsAlwaysInSight(t *testing.T) {
	t.Parallel()
	th := theme.New("none", true, false)
	rapid.Check(t, func(t *rapid.T) {
		table := widget.Table{Columns: []widget.Column{{Title: "NAME", Width: 6, Grow: 1}, {Title: "N", Width: 4, Right: true, Drop: 1}, {Title: "X", Width: 3, Drop: 2}}}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			n := rows(rapid.IntRange(0, 60).Draw(t, "rows"))
			table.Move(rapid.IntRange(-70, 70).Draw(t, "by"), int(n))
			w, h := rapid.IntRange(1, 60).Draw(t, "w"), rapid.IntRange(2, 20).Draw(t, "h")
			lines := table.View(n, w, h, th)
			if len(lines) != h {
				t.Fatalf("%d lines, not %d", len(lines), h)
			}
			at := -1
			for i, l := range lines {
				if ansi.StringWidth(l) != w {
					t.Fatalf("%q is not %d cells", l, w)
				}
				if strings.Contains(l, "\x1b[7m") {
					at = i
				}
			}
			if n == 0 {
				continue
			}
			if at < 0 {
				t.Fatalf("no cursor in\n%s", strings.Join(lines, "\n"))
			}
			details := len(n.Detail(table.Cursor, w))
			if got := table.At(at, int(n), details); got != table.Cursor {
				t.Fatalf("line %d is row %d, the cursor is on %d", at, got, table.Cursor)
			}
		}
	})
}

func TestABox(t *testing.T) {
	t.Parallel()
	th := theme.New("none", false, false)
	got := strings.Join(widget.Box{Title: "nodes", Note: "3/4", Foot: "end"}.View([]string{"a", text.Pad("b", 40, false)}, 22, 4, th), "\n")
	if want := "+ nodes ------- 3/4 -+\n| a                  |\n| b                ~ |\n+-------------- end -+"; ansi.Strip(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}
