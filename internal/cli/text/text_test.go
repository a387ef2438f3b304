package text_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"cdui/internal/cli/text"
	"cdui/internal/run"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-1: "0s", 0: "0s", 437 * time.Millisecond: "0.43s", 2570 * time.Millisecond: "2.5s", 12 * time.Second: "12s", 18*time.Minute + 4*time.Second: "18m 04s",
		3*time.Hour + 7*time.Minute: "3h 07m", 53 * time.Hour: "2d 5h",
	} {
		if got := text.Duration(d); got != want {
			t.Errorf("%d = %q, want %q", d, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "now", 5 * time.Second: "5s", 18 * time.Minute: "18m", 47 * time.Hour: "47h", 216 * time.Hour: "9d",
	} {
		if got := text.Age(d); got != want {
			t.Errorf("%s = %q, want %q", d, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"0.123456": "0.1235", "1e-3": "0.001", "1.0e-5": "1e-5", "2.5e-12": "2.5e-12", "null": "-", "": "-", "7": "7",
		"123456789012345678901234567890": "123456789012345678901234567890", "9007199254740993": "9007199254740993",
		"12345.678": "12346", "1.5e9": "1.5e9", "-0.0": "-0", "1e400": "1e400", "0.97841": "0.9784",
	} {
		if got := text.Number(json.RawMessage(raw)); got != want {
			t.Errorf("%s = %q, want %q", raw, got, want)
		}
	}
}

func TestSmallFormats(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		text.Bytes(512): "512 B", text.Bytes(1536): "1.5 KiB", text.Bytes(44 << 20): "44 MiB", text.MiB(6246): "6.1 GiB",
		text.Count(1204): "1,204", text.Count(-1234567): "-1,234,567", text.Count(7): "7",
		text.Plural(1, "training"): "1 training", text.Plural(2, "training"): "2 trainings",
		text.Ordinal(1): "1st", text.Ordinal(2): "2nd", text.Ordinal(3): "3rd", text.Ordinal(11): "11th", text.Ordinal(112): "112th", text.Ordinal(21): "21st",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCropCountsCells(t *testing.T) {
	t.Parallel()
	s := text.Style{Unicode: true}
	for _, c := range []struct {
		in    string
		cells int
		want  string
	}{
		{"resnet", 6, "resnet"},
		{"resnet", 4, "res…"},
		{"訓練模型", 5, "訓練…"},
		{"訓練模型", 4, "訓…"},
		{"👩‍👩‍👧‍👦 family", 4, "👩‍👩‍👧‍👦 …"},
		{"x", 0, ""},
	} {
		if got := s.Crop(c.in, c.cells); got != c.want {
			t.Errorf("Crop(%q, %d) = %q, want %q", c.in, c.cells, got, c.want)
		}
	}
}

func TestCropAndWrapNeverExceedTheirWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "text")
		cells := rapid.IntRange(2, 40).Draw(t, "cells")
		if got := (text.Style{Unicode: true}).Crop(in, cells); text.Cells(got) > cells {
			t.Errorf("Crop gives %d cells of %d", text.Cells(got), cells)
		}
		for _, line := range text.Wrap(in, cells) {
			// A single character that is wider than the line can't be broken.
			if text.Cells(line) > cells && uniseg.GraphemeClusterCount(line) > 1 {
				t.Errorf("Wrap gives %q, %d cells of %d", line, text.Cells(line), cells)
			}
		}
	})
}

func TestWrapGoesOnAfterACharacterWiderThanTheLine(t *testing.T) {
	t.Parallel()
	if got := text.Wrap("AःःA b", 2); !slices.Equal(got, []string{"Aःः", "A", "b"}) {
		t.Errorf("got %q", got)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	var unicode, ascii strings.Builder
	for _, status := range run.Statuses() {
		unicode.WriteString(text.Style{Unicode: true}.Mark(status, false))
		ascii.WriteString(text.Style{}.Mark(status, false))
	}
	if unicode.String() != "○●◐✓✗⊘!" || ascii.String() != "o*~+x-!" {
		t.Errorf("marks are %s and %s", unicode.String(), ascii.String())
	}
	if got := (text.Style{Unicode: true}).Mark(run.Queued, true); got != "‖" {
		t.Errorf("held is %s", got)
	}
}

func sample() *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Title: ""},
		{Title: "RUN"},
		{Title: "NAME", Flex: true, Min: 6},
		{Title: "WHERE", Drop: 1},
		{Title: "RESULT", Flex: true, Min: 8, Drop: 2},
		{Title: "AGE", Right: true},
	}}
	t.Add(text.Text("●", "3f1c9ab2", "resnet epoch sweep #3", "cuda:0", "loss 0.1235  lr 1e-3", "18m")...)
	t.Add(text.Text("○", "5b90cc12", "訓練 finetune-7b", "cuda:0", "1st  cuda:0 is busy with 3f1c9ab2", "2m")...)
	t.Add(text.Text("✗", "44f2b1cc", "🚀 wide-unet", "cuda:1", "out of memory: asked 9.5 GiB, 3.1 free", "5h")...)
	return t
}

func TestTableFits(t *testing.T) {
	t.Parallel()
	for width := 24; width < 130; width++ {
		var b strings.Builder
		if err := sample().Write(&b, text.Style{Width: width, Unicode: true}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(b.String(), "\n"), "\n") {
			if text.Cells(line) > width {
				t.Errorf("width %d: %q has %d cells", width, line, text.Cells(line))
			}
		}
	}
}

func TestTableAligns(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := sample().Write(&b, text.Style{Unicode: true}); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"   RUN       NAME                   WHERE   RESULT                                  AGE\n" +
		"●  3f1c9ab2  resnet epoch sweep #3  cuda:0  loss 0.1235  lr 1e-3                    18m\n" +
		"○  5b90cc12  訓練 finetune-7b       cuda:0  1st  cuda:0 is busy with 3f1c9ab2        2m\n" +
		"✗  44f2b1cc  🚀 wide-unet           cuda:1  out of memory: asked 9.5 GiB, 3.1 free   5h\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestTableWraps(t *testing.T) {
	t.Parallel()
	tab := &text.Table{NoTitles: true, Columns: []text.Column{{}, {Flex: true, Wrap: true, Min: 4}}}
	tab.Add(text.Text("cuda:0", "waits for 22 GiB on cuda:1")...)
	var b strings.Builder
	if err := tab.Write(&b, text.Style{Width: 20}); err != nil {
		t.Fatal(err)
	}
	if want := "cuda:0  waits for 22\n        GiB on\n        cuda:1\n"; b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

func TestChartShowsGapsAndFits(t *testing.T) {
	t.Parallel()
	s := text.Series{Name: "loss", Steps: []float64{1, 2, 3, 4, 5}, Values: []float64{2.3, 1, math.NaN(), 0.5, 0.25}}
	for _, style := range []text.Style{{Width: 40, Unicode: true}, {Width: 40}} {
		got := style.Chart(s, 6)
		if !strings.HasPrefix(got, "loss  0.25\n") || !strings.Contains(got, "step 1 to 5") || !strings.Contains(got, "2.30 ") {
			t.Errorf("chart:\n%s", got)
		}
		for line := range strings.SplitSeq(got, "\n") {
			if text.Cells(line) > 40 {
				t.Errorf("%q is too wide", line)
			}
			if !style.Unicode && strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
				t.Errorf("%q is not ASCII", line)
			}
		}
	}
}

func TestChartTakesAnyNumbers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{
			math.NaN(), math.Inf(1), math.MaxFloat64, -math.MaxFloat64, 5e-324, 1e300, 1e9, 1e9 + 1,
		})), 1, 200).Draw(t, "values")
		width := rapid.IntRange(20, 120).Draw(t, "width")
		got := text.Style{Width: width, Unicode: true}.Chart(text.Series{Name: "x", Values: values}, 5)
		if lines := strings.Count(got, "\n"); lines > 8 {
			t.Errorf("%d lines for %v", lines, values)
		}
	})
}

func TestMarkedPartsFillLines(t *testing.T) {
	parts := []string{"run 3f1c  digits", "2 done", "a reason of many words"}
	for width, want := range map[int]string{
		0:  "* run 3f1c  digits   2 done   a reason of many words",
		30: "* run 3f1c  digits   2 done\n  a reason of many words",
		18: "* run 3f1c  digits\n  2 done\n  a reason of many\n  words",
	} {
		if got := text.Marked(text.Style{Width: width}, "*", parts); got != want {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
}
