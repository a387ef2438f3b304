// Package fifo is the line of runs of one queue key. It is pure.
package fifo

import (
	"slices"
	"sort"

	"cdui/internal/scheduler"
)

// Queue is one FIFO. Its slice is handed to the scheduler as it is: entries are
// only appended, cut from the front or replaced by a fresh slice, so a
// snapshot never sees one change.
type Queue struct {
	Waiting []scheduler.Waiting
}

// Index gives where the run with this sequence number stands, or would.
func (q *Queue) Index(seq int64) (int, bool) {
	i := sort.Search(len(q.Waiting), func(i int) bool { return q.Waiting[i].Seq >= seq })
	return i, i < len(q.Waiting) && q.Waiting[i].Seq == seq
}

// Insert puts a run in line by its sequence number, once.
func (q *Queue) Insert(w scheduler.Waiting) {
	i, there := q.Index(w.Seq)
	switch {
	case there:
	case i == len(q.Waiting):
		q.Waiting = append(q.Waiting, w)
	default:
		q.Waiting = slices.Concat(q.Waiting[:i], []scheduler.Waiting{w}, q.Waiting[i:])
	}
}

// Remove takes a run out, wherever it stands.
func (q *Queue) Remove(seq int64) {
	i, there := q.Index(seq)
	switch {
	case !there:
	case i == 0:
		q.Waiting = q.Waiting[1:]
	default:
		q.Waiting = slices.Concat(q.Waiting[:i], q.Waiting[i+1:])
	}
}
