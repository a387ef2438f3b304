package store

import (
	"sync/atomic"
	"time"
)

// CommitBounds are the upper bounds of Load.Commits, but for its last one.
func CommitBounds() []time.Duration {
	return []time.Duration{
		500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second,
	}
}

const commitBounds = 11

// Load is what a store has done since it was opened.
type Load struct {
	// Commits counts transactions by how long they took, in the buckets of
	// CommitBounds and one beyond; Took is the sum.
	Commits []uint64
	Took    time.Duration
	// Records counts events, flushes of metrics and artifacts.
	Records uint64
}

// load is counted by the writer alone, and read by anybody.
type load struct {
	commits [commitBounds + 1]atomic.Uint64
	took    atomic.Int64
	records atomic.Uint64
}

func (l *load) committed(took time.Duration, records int) {
	at := 0
	for _, bound := range CommitBounds() {
		if took <= bound {
			break
		}
		at++
	}
	l.commits[at].Add(1)
	l.took.Add(int64(took))
	l.records.Add(uint64(records)) //nolint:gosec // a count
}

// Load tells what the store has done so far.
func (s *Store) Load() Load {
	out := Load{Commits: make([]uint64, commitBounds+1), Took: time.Duration(s.load.took.Load()), Records: s.load.records.Load()}
	for i := range s.load.commits {
		out.Commits[i] = s.load.commits[i].Load()
	}
	return out
}
