package text_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/cli/text"
)

// Two curves share an axis of steps: the one that is half way ends in the middle.
func TestCurves(t *testing.T) {
	t.Parallel()
	list := []text.Series{
		{Steps: []float64{0, 10, 20}, Values: []float64{1, 2, 3}},
		{Steps: []float64{0, 10}, Values: []float64{3, 1}},
	}
	plot := text.Style{}.Curves(list, 23, 3)
	var got strings.Builder
	for y := range plot.Cells {
		got.WriteString(plot.Edge[y] + string(plot.Cells[y]) + "|")
	}
	if want := "3 bbb            aaaaaa|     bbaaaaaaaaaa      |1 aaaaa   bbbb         |"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
	// In braille both are drawn in full, and a letter ends each.
	all := ""
	for _, line := range (text.Style{Unicode: true}).Curves(list, 23, 3).Cells {
		all += string(line)
	}
	if strings.Count(all, "a") != 1 || strings.Count(all, "b") != 1 {
		t.Errorf("%q", all)
	}
}

func TestAPlotIsAlwaysAsLargeAsAsked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64}))
		var list []text.Series
		for range rapid.IntRange(0, 5).Draw(t, "series") {
			values := rapid.SliceOfN(value, 0, 100).Draw(t, "values")
			list = append(list, text.Series{Values: values, Steps: rapid.SliceOfN(value, len(values), len(values)).Draw(t, "steps")})
		}
		w, h := rapid.IntRange(0, 60).Draw(t, "w"), rapid.IntRange(0, 12).Draw(t, "h")
		p := text.Style{Unicode: rapid.Bool().Draw(t, "unicode")}.Curves(list, w, h)
		if len(p.Edge) != h || len(p.Cells) != h || len(p.Owner) != h {
			t.Fatalf("%d, %d and %d lines, not %d", len(p.Edge), len(p.Cells), len(p.Owner), h)
		}
		for i := range h {
			if n := text.Cells(p.Edge[i]) + len(p.Cells[i]); n != w || len(p.Owner[i]) != len(p.Cells[i]) {
				t.Fatalf("line %d: %d cells of %d", i, n, w)
			}
			for x, owner := range p.Owner[i] {
				if owner >= len(list) || (owner < 0) != (p.Cells[i][x] == ' ') {
					t.Fatalf("cell %d of line %d holds %q and belongs to %d", x, i, p.Cells[i][x], owner)
				}
			}
		}
	})
}
