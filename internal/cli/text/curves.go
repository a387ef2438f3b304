package text

import "math"

// Plot is several series on one canvas.
type Plot struct {
	// Edge is what stands on the left of each line.
	Edge []string
	// Cells has the sign of each cell, Owner the series that it belongs to, -1
	// where there is none. Where several meet the first one owns the cell.
	Cells [][]rune
	Owner [][]int
}

// Curves draws series over one axis of steps, in width times height cells with
// the labels of the edge. Each curve ends in a letter, a for the first; without
// Unicode it is drawn in that letter. Points that aren't finite are left out.
func (s Style) Curves(list []Series, width, height int) Plot {
	p := Plot{Edge: make([]string, max(height, 0))}
	low, high := math.Inf(1), math.Inf(-1)
	from, to := math.Inf(1), math.Inf(-1)
	for _, c := range list {
		for i, v := range c.Values {
			if x := finite(c.Steps[i]); !math.IsNaN(x) && !math.IsNaN(finite(v)) {
				low, high, from, to = min(low, v), max(high, v), min(from, x), max(to, x)
			}
		}
	}
	top, bottom := "", ""
	if low <= high {
		if top, bottom = Float(high), Float(low); low == high {
			low, high = around(low)
			top = ""
		}
	}
	label := max(Cells(top), Cells(bottom))
	if label+1 > width/2 {
		label, top, bottom = 0, "", ""
	}
	for i := range p.Edge {
		edge := ""
		switch i {
		case 0:
			edge = top
		case len(p.Edge) - 1:
			edge = bottom
		}
		if label > 0 {
			p.Edge[i] = Pad(edge, label, true) + " "
		}
	}
	cells := max(0, width-Cells(firstOf(p.Edge)))
	p.Cells, p.Owner = make([][]rune, len(p.Edge)), make([][]int, len(p.Edge))
	for i := range p.Cells {
		p.Cells[i], p.Owner[i] = make([]rune, cells), make([]int, cells)
		for x := range p.Owner[i] {
			p.Cells[i][x], p.Owner[i][x] = ' ', -1
		}
	}
	if cells < 2 || height < 1 || low > high {
		return p
	}
	for i, c := range list {
		s.curve(&p, i, c, [4]float64{low, high, from, to})
	}
	return p
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// curve adds one series. The last column is left for its letter.
func (s Style) curve(p *Plot, at int, c Series, box [4]float64) {
	height, letter := len(p.Cells), rune('a'+at%26)
	g := s.grid(len(p.Cells[0])-1, height)
	points := overSteps(c, box[2], box[3], g.w*g.dx)
	g.draw(points, box[0], box[1])
	for y, row := range g.cells {
		for x, dots := range row {
			if dots == 0 {
				continue
			}
			if p.Owner[y][x] < 0 {
				p.Owner[y][x], p.Cells[y][x] = at, 0x2800
			}
			if g.dx > 1 && p.Cells[y][x] >= 0x2800 {
				p.Cells[y][x] |= rune(dots)
			} else if p.Owner[y][x] == at {
				p.Cells[y][x] = letter
			}
		}
	}
	for x := len(points) - 1; x >= 0; x-- {
		if math.IsNaN(points[x]) {
			continue
		}
		f := min(max(fraction(points[x], box[0], box[1]), 0), 1) // a mean may be off by a rounding
		y := height*g.dy - 1 - int(math.Round(f*float64(height*g.dy-1)))
		// A letter lies over the dots of others, never over another letter.
		if col, row := x/g.dx+1, y/g.dy; p.Owner[row][col] < 0 || p.Cells[row][col] >= 0x2800 {
			p.Owner[row][col], p.Cells[row][col] = at, letter
		}
		return
	}
}

// overSteps gives the value of a series in each of so many columns between two
// steps: means where several points fall into one, straight lines across those
// that none falls into, NaN beyond its ends.
func overSteps(c Series, from, to float64, columns int) []float64 {
	sums, counts := make([]float64, columns), make([]float64, columns)
	for i, v := range c.Values {
		f := 0.0
		if to > from {
			f = fraction(c.Steps[i], from, to)
		}
		if v = finite(v); math.IsNaN(v) || math.IsNaN(f) || f < 0 || f > 1 {
			continue
		}
		x := int(math.Round(f * float64(columns-1)))
		counts[x]++
		sums[x] += v/counts[x] - sums[x]/counts[x]
	}
	before := -1
	for x := range sums {
		if counts[x] == 0 {
			sums[x] = math.NaN()
			continue
		}
		for gap := before + 1; before >= 0 && gap < x; gap++ {
			f := float64(gap-before) / float64(x-before)
			sums[gap] = sums[before]*(1-f) + sums[x]*f
		}
		before = x
	}
	return sums
}
