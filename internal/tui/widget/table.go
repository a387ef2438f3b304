package widget

import (
	"strings"

	"cdui/internal/cli/text"
	"cdui/internal/tui/theme"
)

// Column describes one column of a table. Widths don't depend on the rows, so
// that nothing moves when the table scrolls and ten thousand rows cost what a
// screenful does.
type Column struct {
	ID, Title string
	// Width is how many cells it takes; a column that grows takes Width at least
	// and its share of what is left.
	Width, Grow int
	Right       bool
	// Drop says that it goes where there is no room, higher ones first; 0 keeps
	// it.
	Drop int
}

// Span is a piece of a cell in a look of its own.
type Span struct {
	Text string
	Role theme.Role
}

// Cell is one field. Spans stand for Text where there is more than one look.
type Cell struct {
	Text  string
	Role  theme.Role
	Spans []Span
}

// Rows is what a table shows.
type Rows interface {
	Len() int
	// Cells gives a row, one cell for each column.
	Cells(i int) []Cell
	// Detail gives more lines of the row under the cursor; they may be none.
	Detail(i, width int) []string
	Marked(i int) bool
}

// Table scrolls through rows. Its zero value stands at the top.
type Table struct {
	Columns []Column
	// Sort is the id of the column that the rows are sorted by, Desc that it is
	// from the end.
	Sort string
	Desc bool

	Cursor, top int
	// page is how many rows fitted at the last look.
	page int
}

const columnGap = 2

// Move shifts the cursor, within the rows.
func (t *Table) Move(by, rows int) { t.Cursor = min(max(t.Cursor+by, 0), max(rows-1, 0)) }

// SortBy sorts by a column, the second time from its end, the third not at all.
func (t *Table) SortBy(column string) {
	switch {
	case t.Sort != column:
		t.Sort, t.Desc = column, false
	case !t.Desc:
		t.Desc = true
	default:
		t.Sort, t.Desc = "", false
	}
}

// Page is how many rows a page has.
func (t *Table) Page() int { return max(1, t.page-1) }

// View draws titles and rows into h lines of w cells.
func (t *Table) View(rows Rows, w, h int, th *theme.Theme) []string {
	out := make([]string, 0, h)
	if w <= 0 || h <= 0 {
		return out
	}
	shown, widths := t.fit(w)
	if h > 1 {
		out = append(out, t.titles(shown, widths, w, th))
	}
	n := rows.Len()
	t.Move(0, n)
	room := h - len(out)
	var detail []string
	if n > 0 && room > 2 {
		detail = rows.Detail(t.Cursor, w)
		detail = detail[:min(len(detail), max(0, room/2))]
	}
	t.page = max(1, room-len(detail))
	t.top = max(0, min(t.top, t.Cursor, n-t.page))
	if t.Cursor >= t.top+t.page {
		t.top = t.Cursor - t.page + 1
	}
	for i := t.top; i < n && len(out) < h; i++ {
		on := i == t.Cursor
		out = append(out, t.row(rows.Cells(i), shown, widths, w, on, rows.Marked(i), th))
		if on {
			for _, d := range detail {
				if len(out) < h {
					out = append(out, Fit(d, w, th.Style))
				}
			}
		}
	}
	for len(out) < h {
		out = append(out, strings.Repeat(" ", w))
	}
	return out
}

// At gives the row that line y of the last View shows, -1 for none.
func (t *Table) At(y, rows, details int) int {
	y-- // titles
	i := t.top + y
	if i > t.Cursor {
		i = max(t.Cursor, i-details)
	}
	if y < 0 || i < 0 || i >= rows {
		return -1
	}
	return i
}

// ColumnAt gives the id of the column at cell x, "" for none.
func (t *Table) ColumnAt(x, w int) string {
	shown, widths := t.fit(w)
	at := 1
	for i, c := range shown {
		if x >= at && x < at+widths[i] {
			return t.Columns[c].ID
		}
		at += widths[i] + columnGap
	}
	return ""
}

// WidthOf gives how wide a column is drawn in a table of w cells, 0 where it
// isn't.
func (t *Table) WidthOf(id string, w int) int {
	shown, widths := t.fit(w)
	for i, c := range shown {
		if t.Columns[c].ID == id {
			return widths[i]
		}
	}
	return 0
}

func (t *Table) titles(shown, widths []int, w int, th *theme.Theme) string {
	var b strings.Builder
	b.WriteByte(' ')
	for i, c := range shown {
		col := t.Columns[c]
		title, role := col.Title, theme.Title
		if col.ID == t.Sort && t.Sort != "" {
			role = theme.Accent
			arrow := th.Glyph("↑", "^")
			if t.Desc {
				arrow = th.Glyph("↓", "v")
			}
			title += arrow
		}
		if i > 0 {
			b.WriteString(strings.Repeat(" ", columnGap))
		}
		b.WriteString(th.Paint(role, text.Pad(th.Style.Crop(title, widths[i]), widths[i], col.Right)))
	}
	return Fit(b.String(), w, th.Style)
}

func (t *Table) row(cells []Cell, shown, widths []int, w int, on, marked bool, th *theme.Theme) string {
	var b strings.Builder
	lead := " "
	if marked {
		lead = th.Glyph("▎", ">")
	}
	b.WriteString(th.PaintOn(on, theme.Accent, lead))
	used := 1
	for i, c := range shown {
		if i > 0 {
			b.WriteString(th.PaintOn(on, theme.Plain, strings.Repeat(" ", columnGap)))
			used += columnGap
		}
		cell := Cell{}
		if c < len(cells) {
			cell = cells[c]
		}
		drawCell(&b, cell, widths[i], t.Columns[c].Right, on, th)
		used += widths[i]
	}
	if used < w {
		b.WriteString(th.PaintOn(on, theme.Plain, strings.Repeat(" ", w-used)))
	}
	if used > w {
		return Fit(b.String(), w, th.Style)
	}
	return b.String()
}

func drawCell(b *strings.Builder, c Cell, width int, right, on bool, th *theme.Theme) {
	spans := c.Spans
	if spans == nil {
		spans = []Span{{c.Text, c.Role}}
	}
	total := 0
	for _, s := range spans {
		total += text.Cells(s.Text)
	}
	free := max(0, width-total)
	if right {
		b.WriteString(th.PaintOn(on, theme.Plain, strings.Repeat(" ", free)))
		free = 0
	}
	left := width
	for _, s := range spans {
		if left <= 0 {
			break
		}
		words := s.Text
		if text.Cells(words) > left {
			words = text.Pad(th.Style.Crop(words, left), left, false)
		}
		left -= text.Cells(words)
		b.WriteString(th.PaintOn(on, s.Role, words))
	}
	b.WriteString(th.PaintOn(on, theme.Plain, strings.Repeat(" ", min(free, max(left, 0)))))
}

// fit chooses the columns that are shown and how wide each is.
func (t *Table) fit(w int) (shown, widths []int) {
	for i := range t.Columns {
		shown = append(shown, i)
	}
	for {
		total, grow := 1, 0
		for i, c := range shown {
			total += t.Columns[c].Width
			if i > 0 {
				total += columnGap
			}
			grow += t.Columns[c].Grow
		}
		if total <= w || len(shown) == 1 {
			return shown, t.widths(shown, w-total, grow)
		}
		at := -1
		for i, c := range shown {
			if d := t.Columns[c].Drop; d > 0 && (at < 0 || d > t.Columns[shown[at]].Drop) {
				at = i
			}
		}
		if at < 0 {
			return shown, t.widths(shown, 0, 0)
		}
		shown = append(shown[:at:at], shown[at+1:]...)
	}
}

// widths hands what is left to the columns that grow.
func (t *Table) widths(shown []int, left, grow int) []int {
	widths := make([]int, len(shown))
	for i, c := range shown {
		col := t.Columns[c]
		widths[i] = col.Width
		if grow > 0 && left > 0 && col.Grow > 0 {
			share := left * col.Grow / grow
			widths[i] += share
			left -= share
			grow -= col.Grow
		}
	}
	return widths
}
