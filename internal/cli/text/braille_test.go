package text_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/cli/text"
)

func TestCanvas(t *testing.T) {
	t.Parallel()
	s := text.Series{Values: []float64{1, 0.5, 0.25, math.NaN(), 0.25, 0}}
	got := strings.Join(text.Style{Unicode: true}.Canvas(s, 14, 2), "|")
	if want := "1 ⢣⡀          |0  ⠈⠒⠤⠤⣀⡀  ⠤⠤⣀⡀"; text.Cells(got) != 29 || strings.Count(got, "|") != 1 || !strings.HasPrefix(got, "1 ") {
		t.Errorf("%q, such as %q", got, want)
	}
	ascii := text.Style{}.Canvas(s, 14, 3)
	for _, line := range ascii {
		if strings.Trim(line, "01 *") != "" || len(line) != 14 {
			t.Errorf("%q", line)
		}
	}
}

func TestACanvasIsAlwaysAsLargeAsAsked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64(), 0, 300).Draw(t, "values")
		if rapid.Bool().Draw(t, "odd") {
			values = append(values, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64)
		}
		w, h := rapid.IntRange(0, 60).Draw(t, "w"), rapid.IntRange(0, 12).Draw(t, "h")
		lines := text.Style{Unicode: rapid.Bool().Draw(t, "unicode")}.Canvas(text.Series{Values: values}, w, h)
		if len(lines) != h {
			t.Fatalf("%d lines", len(lines))
		}
		for _, l := range lines {
			if text.Cells(l) != w {
				t.Fatalf("%d cells in %q", text.Cells(l), l)
			}
		}
	})
}
