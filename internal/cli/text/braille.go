package text

import (
	"math"
	"strings"
)

// Canvas draws a series into width times height cells, with the values of its
// lower and upper edge on the left. Each cell holds two by four dots where the
// style has Unicode, one mark where it doesn't. Values that aren't finite are
// gaps. There are always height lines of width cells.
func (s Style) Canvas(series Series, width, height int) []string {
	lines := make([]string, max(height, 0))
	low, high, n := bounds(series.Values)
	if width <= 0 || height <= 0 {
		return lines
	}
	if n == 0 {
		for i := range lines {
			lines[i] = strings.Repeat(" ", width)
		}
		return lines
	}
	top, bottom := Float(high), Float(low)
	if low == high {
		low, high = around(low)
		top, bottom = "", Float(series.Values[len(series.Values)-1])
		if !strings.ContainsAny(bottom, "0123456789") {
			bottom = ""
		}
	}
	label := max(Cells(top), Cells(bottom))
	if label+1 > width/2 {
		label, top, bottom = -1, "", ""
	}
	grid := s.grid(width-label-1, height)
	grid.draw(series.Values, low, high)
	for i := range lines {
		edge := ""
		switch i {
		case 0:
			edge = top
		case height - 1:
			edge = bottom
		}
		if label >= 0 {
			lines[i] = Pad(edge, label, true) + " "
		}
		lines[i] += grid.line(i)
	}
	return lines
}

// grid is dots in cells; dx and dy are how many one cell has.
type grid struct {
	cells  [][]byte
	dx, dy int
	w, h   int
}

func (s Style) grid(width, height int) *grid {
	g := &grid{dx: 1, dy: 1, w: width, h: height}
	if s.Unicode {
		g.dx, g.dy = 2, 4
	}
	g.cells = make([][]byte, height)
	for i := range g.cells {
		g.cells[i] = make([]byte, width)
	}
	return g
}

// draw joins the points by straight lines.
func (g *grid) draw(values []float64, low, high float64) {
	columns, rows := g.w*g.dx, g.h*g.dy
	points := resample(values, columns)
	before := -1
	for x, v := range points {
		f := fraction(v, low, high)
		if math.IsNaN(f) {
			before = -1
			continue
		}
		y := rows - 1 - int(math.Round(f*float64(rows-1)))
		g.set(x, y)
		for at := before; before >= 0 && at != y; {
			if at < y {
				at++
			} else {
				at--
			}
			// Half of the way belongs to the point before.
			if x0 := x - 1; (at-before)*(at-before) <= (y-at)*(y-at) {
				g.set(x0, at)
			} else {
				g.set(x, at)
			}
		}
		before = y
	}
}

func (g *grid) set(x, y int) {
	if x < 0 || y < 0 || x >= g.w*g.dx || y >= g.h*g.dy {
		return
	}
	// The order of the dots in U+2800 to U+28FF.
	dots := [4][2]byte{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}
	g.cells[y/g.dy][x/g.dx] |= dots[y%g.dy][x%g.dx]
}

func (g *grid) line(i int) string {
	var b strings.Builder
	for _, dots := range g.cells[i] {
		switch {
		case dots == 0:
			b.WriteByte(' ')
		case g.dx == 1:
			b.WriteByte('*')
		default:
			b.WriteRune(0x2800 + rune(dots))
		}
	}
	return b.String()
}
