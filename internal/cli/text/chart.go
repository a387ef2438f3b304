package text

import (
	"fmt"
	"math"
	"strings"

	"github.com/guptarohit/asciigraph"
)

// Series is one line of a chart. NaN is a gap.
type Series struct {
	Name   string
	Steps  []float64
	Values []float64
}

// Chart draws a series. It is as wide as the style allows and height rows
// high; a series without any finite value gives a sentence instead.
func (s Style) Chart(series Series, height int) string {
	low, high, n := bounds(series.Values)
	title := series.Name
	if n == 0 {
		return title + ": no finite value\n"
	}
	if low == high {
		low, high = around(low)
	}
	last := series.Values[len(series.Values)-1]
	title += "  " + Float(last)
	width := s.Width
	if width <= 0 {
		width = 80
	}
	label := 0
	at := func(f float64) float64 { return low*(1-f) + high*f }
	format := func(f float64) string { return tick(at(f), low, high, height) }
	for i := range height + 1 {
		label = max(label, Cells(format(float64(i)/float64(height))))
	}
	cells := max(width-label-4, 2)
	points := resample(series.Values, cells)
	for i, v := range points {
		points[i] = fraction(v, low, high)
	}
	graph := asciigraph.Plot(points, asciigraph.Height(height),
		asciigraph.LowerBound(0), asciigraph.UpperBound(1),
		asciigraph.YAxisValueFormatter(format), asciigraph.SeriesChars(s.charSet()))
	var b strings.Builder
	b.WriteString(s.Crop(title, width))
	b.WriteByte('\n')
	for line := range strings.SplitSeq(graph, "\n") {
		if !s.Unicode {
			line = strings.NewReplacer("┤", "|", "┼", "+").Replace(line)
		}
		b.WriteString(s.Crop(strings.TrimRight(line, " "), width))
		b.WriteByte('\n')
	}
	if len(series.Steps) > 0 {
		foot := fmt.Sprintf("step %s to %s", Float(series.Steps[0]), Float(series.Steps[len(series.Steps)-1]))
		b.WriteString(s.Crop(strings.Repeat(" ", label+3)+foot, width))
		b.WriteByte('\n')
	}
	return b.String()
}

func (s Style) charSet() asciigraph.CharSet {
	if s.Unicode {
		return asciigraph.DefaultCharSet
	}
	return asciigraph.CharSet{
		Horizontal: "-", VerticalLine: "|", ArcDownRight: "/", ArcDownLeft: "\\",
		ArcUpRight: "\\", ArcUpLeft: "/", EndCap: "-", StartCap: "-", UpRight: "+", DownHorizontal: "+",
	}
}

// bounds gives the least and the greatest finite value and their number.
func bounds(values []float64) (low, high float64, n int) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
			n++
		}
	}
	return low, high, n
}

// tick shows a value of the axis, all of them with the same number of decimals
// where that is short.
func tick(v, low, high float64, height int) string {
	step := (high/2 - low/2) * 2 / float64(height)
	decimals := 1 - int(math.Floor(math.Log10(step)))
	if decimals > 5 || math.Abs(low) >= 1e6 || math.Abs(high) >= 1e6 {
		return Float(v)
	}
	return fmt.Sprintf("%.*f", max(0, decimals), v)
}

// around gives bounds for a line that is level.
func around(v float64) (low, high float64) {
	margin := max(math.Abs(v)/10, 1)
	return max(v-margin, -math.MaxFloat64), min(v+margin, math.MaxFloat64)
}

// fraction places v between low and high; halves keep the difference of the
// largest numbers finite.
func fraction(v, low, high float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.NaN()
	}
	return (v/2 - low/2) / (high/2 - low/2)
}

// resample spreads values over cells: means where there are more values than
// cells, straight lines where there are fewer. A value that isn't finite makes
// a gap wherever it falls.
func resample(values []float64, cells int) []float64 {
	n := len(values)
	out := make([]float64, cells)
	if n >= cells {
		for i := range out {
			from, to := i*n/cells, (i+1)*n/cells
			out[i] = mean(values[from:to])
		}
		return out
	}
	if n == 1 {
		for i := range out {
			out[i] = finite(values[0])
		}
		return out
	}
	for i := range out {
		x := float64(i) * float64(n-1) / float64(cells-1)
		k := min(int(x), n-2)
		f := x - float64(k)
		a, b := finite(values[k]), finite(values[k+1])
		switch {
		case f < 1e-9:
			out[i] = a
		case f > 1-1e-9:
			out[i] = b
		default:
			out[i] = a*(1-f) + b*f
		}
	}
	return out
}

func finite(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += finite(v) / float64(len(values))
	}
	return sum
}
