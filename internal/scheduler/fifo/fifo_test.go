package fifo_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/scheduler/fifo"
)

// A queue holds each run once, in order of priority and submission, whether in
// line or aside, and tells each one's place.
func TestQueueKeepsItsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q fifo.Queue
		model, aside := map[string]scheduler.Waiting{}, map[string]bool{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := rapid.IntRange(0, 9).Draw(t, "run")
			w := scheduler.Waiting{RunID: fmt.Sprint("r", n), Seq: int64(n), Priority: n % 3}
			_, there := model[w.RunID]
			switch what := rapid.IntRange(0, 3).Draw(t, fmt.Sprint("step", i)); {
			case what == 0 && !there:
				q.Insert(w)
				model[w.RunID] = w
			case what == 1:
				q.Remove(w)
				delete(model, w.RunID)
				delete(aside, w.RunID)
			case what == 2 && there && !aside[w.RunID]:
				q.SetAside(w, run.Held())
				aside[w.RunID] = true
			case what == 3:
				q.Rejoin()
				clear(aside)
			}
			all := []scheduler.Waiting{}
			for _, w := range model {
				all = append(all, w)
			}
			slices.SortFunc(all, scheduler.CompareWaiting)
			if q.Len() != len(all) || len(q.Reasons) != len(aside) {
				t.Fatalf("%d wait, %d aside; want %d, %d", q.Len(), len(q.Reasons), len(all), len(aside))
			}
			ahead := ""
			for i, w := range all {
				position, before, ok := q.Position(w)
				want := ahead
				if aside[w.RunID] {
					want = before
				} else {
					ahead = w.RunID
				}
				if !ok || position != i+1 || before != want {
					t.Fatalf("%s stands at %d behind %q (%v), want %d behind %q", w.RunID, position, before, ok, i+1, want)
				}
			}
		}
	})
}
