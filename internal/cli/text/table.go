package text

import (
	"io"
	"strings"
)

// Column describes one column of a table.
type Column struct {
	Title string
	// Right aligns numbers.
	Right bool
	// Flex lets the column shrink to Min cells; Wrap breaks its text into
	// lines instead of cropping it.
	Flex bool
	Wrap bool
	Min  int
	// Drop says that the column may go when there is no room, higher ones
	// first; 0 keeps it.
	Drop int
}

// Cell is one field.
type Cell struct {
	Text   string
	Colour Colour
}

// Text makes cells without colour.
func Text(fields ...string) []Cell {
	cells := make([]Cell, len(fields))
	for i, f := range fields {
		cells[i] = Cell{Text: f}
	}
	return cells
}

// Table is rows under titles.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	// NoTitles leaves the line of titles out.
	NoTitles bool
}

// Add appends a row.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

const gap = 2

// Write lays the table out in a style and prints it.
func (t *Table) Write(w io.Writer, s Style) error {
	shown, widths := t.fit(s.Width)
	var b strings.Builder
	if !t.NoTitles {
		cells := make([]Cell, len(t.Columns))
		for i, c := range t.Columns {
			cells[i] = Cell{Text: c.Title, Colour: Grey}
		}
		t.line(&b, s, shown, widths, cells, false)
	}
	for _, row := range t.Rows {
		t.line(&b, s, shown, widths, row, true)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line writes one row, in as many lines as its wrapped cells need.
func (t *Table) line(b *strings.Builder, s Style, shown, widths []int, row []Cell, wrap bool) {
	parts := make([][]string, len(shown))
	height := 1
	for i, col := range shown {
		text := ""
		if col < len(row) {
			text = row[col].Text
		}
		if wrap && t.Columns[col].Wrap && s.Width > 0 {
			parts[i] = Wrap(text, widths[i])
		} else {
			parts[i] = []string{s.Crop(text, widths[i])}
		}
		height = max(height, len(parts[i]))
	}
	for n := range height {
		var line strings.Builder
		pending := 0
		for i, col := range shown {
			if i > 0 {
				pending += gap
			}
			text := ""
			if n < len(parts[i]) {
				text = parts[i][n]
			}
			free := widths[i] - Cells(text)
			if t.Columns[col].Right {
				pending += free
			}
			if text != "" {
				line.WriteString(strings.Repeat(" ", pending))
				pending = 0
				colour := Plain
				if col < len(row) {
					colour = row[col].Colour
				}
				line.WriteString(s.Paint(colour, text))
			} else {
				pending += Cells(text)
			}
			if !t.Columns[col].Right {
				pending += free
			}
		}
		b.WriteString(line.String())
		b.WriteByte('\n')
	}
}

// fit chooses the columns that are shown and how wide each is.
func (t *Table) fit(width int) (shown, widths []int) {
	for i, c := range t.Columns {
		// What nobody has is no column.
		if c.Drop == 0 || !t.empty(i) {
			shown = append(shown, i)
		}
	}
	for {
		widths = widths[:0]
		total := gap * (len(shown) - 1)
		for _, col := range shown {
			w := t.natural(col)
			widths = append(widths, w)
			total += w
		}
		if width <= 0 || total <= width {
			return shown, widths
		}
		if t.shrink(shown, widths, total-width) {
			return shown, widths
		}
		at := -1
		for i, col := range shown {
			if t.Columns[col].Drop > 0 && (at < 0 || t.Columns[col].Drop > t.Columns[shown[at]].Drop) {
				at = i
			}
		}
		if at < 0 {
			t.force(widths, width)
			return shown, widths
		}
		shown = append(shown[:at:at], shown[at+1:]...)
	}
}

// shrink takes excess cells from flexible columns, widest first, and tells
// whether that was enough.
func (t *Table) shrink(shown, widths []int, excess int) bool {
	room := 0
	for i, col := range shown {
		if c := t.Columns[col]; c.Flex {
			room += max(0, widths[i]-max(c.Min, 1))
		}
	}
	if room < excess {
		return false
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, col := range shown {
			c := t.Columns[col]
			if c.Flex && widths[i] > max(c.Min, 1) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		widths[widest]--
	}
	return true
}

// force narrows whatever is widest: there is nothing left to drop.
func (t *Table) force(widths []int, width int) {
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > width; total-- {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= 1 {
			return
		}
		widths[widest]--
	}
}

func (t *Table) empty(col int) bool {
	for _, row := range t.Rows {
		if col < len(row) && row[col].Text != "" {
			return false
		}
	}
	return len(t.Rows) > 0
}

func (t *Table) natural(col int) int {
	w := 0
	if !t.NoTitles {
		w = Cells(t.Columns[col].Title)
	}
	for _, row := range t.Rows {
		if col < len(row) {
			w = max(w, Cells(row[col].Text))
		}
	}
	return w
}
