package store_test

import (
	"path/filepath"
	"testing"

	"cdui/internal/store"
)

// What is stored is counted, and what is refused isn't.
func TestLoadCountsCommitsAndRecords(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "cdui.db"))
	apply(t, s, store.Change{Insert: newRow(1)}, store.Change{RunID: runID(1), Events: events(0, 30)})
	before := s.Load()
	if before.Records != 30 || before.Took <= 0 || len(before.Commits) != len(store.CommitBounds())+1 {
		t.Fatalf("%+v", before)
	}
	if _, err := s.Apply(t.Context(), store.Change{RunID: runID(2), Events: events(0, 5)}); err == nil {
		t.Fatal("a change of a run that isn't there was taken")
	}
	apply(t, s, store.Change{RunID: runID(1), Events: events(30, 2)})
	after := s.Load()
	commits := func(l store.Load) (n uint64) {
		for _, c := range l.Commits {
			n += c
		}
		return n
	}
	if after.Records != 32 || commits(after) <= commits(before) || after.Took <= before.Took {
		t.Errorf("%+v, then %+v", before, after)
	}
}
