// Package fifo is the line of runs of one queue key. It is pure.
package fifo

import (
	"slices"
	"sort"

	"cdui/internal/run"
	"cdui/internal/scheduler"
)

// Queue is one FIFO: the runs in line, and those that the scheduler set aside,
// both in the order of scheduler.CompareWaiting. Its slices are handed to the
// scheduler as they are: entries are only appended, cut from the front or
// replaced by a fresh slice, so a snapshot never sees one change.
type Queue struct {
	Waiting []scheduler.Waiting
	Aside   []scheduler.Waiting
	// Reasons says why, by run id, for those that stand aside.
	Reasons map[string]run.Reason
}

func index(line []scheduler.Waiting, w scheduler.Waiting) (int, bool) {
	i := sort.Search(len(line), func(i int) bool { return scheduler.CompareWaiting(line[i], w) >= 0 })
	return i, i < len(line) && line[i].RunID == w.RunID
}

func insert(line []scheduler.Waiting, w scheduler.Waiting) []scheduler.Waiting {
	i, there := index(line, w)
	switch {
	case there:
		return line
	case i == len(line):
		return append(line, w)
	}
	return slices.Concat(line[:i], []scheduler.Waiting{w}, line[i:])
}

func remove(line []scheduler.Waiting, w scheduler.Waiting) []scheduler.Waiting {
	i, there := index(line, w)
	switch {
	case !there:
		return line
	case i == 0:
		return line[1:]
	}
	return slices.Concat(line[:i], line[i+1:])
}

// Insert puts a run in line, once.
func (q *Queue) Insert(w scheduler.Waiting) { q.Waiting = insert(q.Waiting, w) }

// Remove takes a run out, wherever it stands.
func (q *Queue) Remove(w scheduler.Waiting) {
	q.Waiting, q.Aside = remove(q.Waiting, w), remove(q.Aside, w)
	delete(q.Reasons, w.RunID)
}

// SetAside takes a run out of line for a reason.
func (q *Queue) SetAside(w scheduler.Waiting, why run.Reason) {
	q.Waiting, q.Aside = remove(q.Waiting, w), insert(q.Aside, w)
	if q.Reasons == nil {
		q.Reasons = map[string]run.Reason{}
	}
	q.Reasons[w.RunID] = why
}

// Rejoin puts all runs that stand aside back in line.
func (q *Queue) Rejoin() {
	if len(q.Aside) == 0 {
		return
	}
	q.Waiting = slices.Concat(q.Waiting, q.Aside)
	slices.SortFunc(q.Waiting, scheduler.CompareWaiting)
	q.Aside, q.Reasons = nil, nil
}

// Len counts the runs of the key that wait.
func (q *Queue) Len() int { return len(q.Waiting) + len(q.Aside) }

// Position gives a run's 1-based place among all of the key, and the run before
// it in line. ok is false for a run that isn't there; ahead is empty for the
// first one, and for those that stand aside.
func (q *Queue) Position(w scheduler.Waiting) (position int, ahead string, ok bool) {
	i, inLine := index(q.Waiting, w)
	k, aside := index(q.Aside, w)
	if inLine && i > 0 {
		ahead = q.Waiting[i-1].RunID
	}
	return i + k + 1, ahead, inLine || aside
}
