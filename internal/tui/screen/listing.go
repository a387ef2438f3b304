package screen

import (
	"slices"

	"cdui/internal/sorting"
	"cdui/internal/tui/keymap"
	"cdui/internal/tui/widget"
)

// listing is the rows of a screen that reads them itself: filtered, sorted, some
// of them marked, with a cursor that stays on its row while others come and go.
type listing[T any] struct {
	table     widget.Table
	filter    filter
	all, rows []T
	marked    map[string]bool
	// at is the row under the cursor.
	at string

	// id tells rows apart, line is what a filter looks at, sorts are what the
	// columns sort by.
	id    func(T) string
	line  func(T) string
	sorts []order[T]
}

// order is a column that rows can be sorted by, and the key that does it.
type order[T any] struct {
	column string
	key    keymap.Binding
	by     func(a, b T) int
}

// take shows other rows.
func (l *listing[T]) take(all []T) {
	l.all = all
	l.sift()
}

// sift filters and sorts.
func (l *listing[T]) sift() {
	l.rows = nil
	for _, r := range l.all {
		if l.filter.re == nil || l.filter.lets(l.line(r)) {
			l.rows = append(l.rows, r)
		}
	}
	for _, o := range l.sorts {
		if o.column == l.table.Sort {
			sorting.Sort(l.rows, func(a, b T) int {
				if l.table.Desc {
					return o.by(b, a)
				}
				return o.by(a, b)
			})
		}
	}
	for i, r := range l.rows {
		if l.id(r) == l.at {
			l.table.Cursor = i
		}
	}
	l.move(0)
}

// SetFilter implements ui.Filtered.
func (l *listing[T]) SetFilter(pattern string) error {
	f, err := newFilter(pattern)
	if err != nil {
		return err
	}
	l.filter = f
	l.sift()
	return nil
}

// FilterText implements ui.Filtered.
func (l *listing[T]) FilterText() string { return l.filter.pattern }

func (l *listing[T]) move(by int) {
	l.table.Move(by, len(l.rows))
	if r, ok := l.current(); ok {
		l.at = l.id(r)
	}
}

// current is the row under the cursor.
func (l *listing[T]) current() (row T, ok bool) {
	if l.table.Cursor >= len(l.rows) {
		return row, false
	}
	return l.rows[l.table.Cursor], true
}

// mark marks the row under the cursor, or takes its mark away.
func (l *listing[T]) mark() {
	r, ok := l.current()
	if !ok {
		return
	}
	id := l.id(r)
	if l.marked[id] {
		delete(l.marked, id)
	} else {
		if l.marked == nil {
			l.marked = map[string]bool{}
		}
		l.marked[id] = true
	}
	l.move(1)
}

// moved takes the keys that move the cursor or sort.
func (l *listing[T]) moved(k string) bool {
	if by, ok := moves(k, l.table.Page(), len(l.rows)); ok {
		l.move(by)
		return true
	}
	for _, o := range l.sorts {
		if o.key.Is(k) {
			l.sortBy(o.column)
			return true
		}
	}
	return false
}

func (l *listing[T]) sortBy(column string) {
	if slices.ContainsFunc(l.sorts, func(o order[T]) bool { return o.column == column }) {
		l.table.SortBy(column)
		l.sift()
	}
}

// click sorts by the title at a cell, or moves to the row; it tells whether the
// cursor was there already.
func (l *listing[T]) click(x, y, width, details int) (again bool) {
	if y == 0 {
		l.sortBy(l.table.ColumnAt(x, width))
		return false
	}
	i := l.table.At(y, len(l.rows), details)
	if i < 0 {
		return false
	}
	again = i == l.table.Cursor
	l.move(i - l.table.Cursor)
	return again
}

// Len implements widget.Rows.
func (l *listing[T]) Len() int { return len(l.rows) }

// Marked implements widget.Rows.
func (l *listing[T]) Marked(i int) bool { return l.marked[l.id(l.rows[i])] }

// sortKeys are the keys that sort, for help.
func (l *listing[T]) sortKeys() keymap.Group {
	g := keymap.Group{Title: "Sort"}
	for _, o := range l.sorts {
		g.Bindings = append(g.Bindings, o.key)
	}
	return g
}
