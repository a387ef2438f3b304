package scheduler_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/scheduler"
)

// SCHED-05, SCHED-07: heads of FIFOs that share a slot go in the order in which
// they were submitted, and a long FIFO doesn't starve a short one.
func TestHeadsGoInTheOrderOfSubmission(t *testing.T) {
	queue := func(key string, seqs ...int64) scheduler.Queue {
		q := scheduler.Queue{Key: key}
		for _, n := range seqs {
			q.Waiting = append(q.Waiting, scheduler.Waiting{RunID: fmt.Sprint("r", n), Seq: n, Slots: local("cuda:0")})
		}
		return q
	}
	for slots, want := range map[int][]string{
		1: {"r1"}, 3: {"r1", "r2", "r3"}, 5: {"r1", "r2", "r3", "r4", "r5"}, 9: {"r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"},
	} {
		p := scheduler.Decide(scheduler.Snapshot{
			Slots:  map[scheduler.Slot]scheduler.SlotState{local("cuda:0")[0]: {Cap: slots}},
			Queues: []scheduler.Queue{queue("long", 2, 3, 5, 6, 7, 8), queue("short", 1, 4)},
		})
		if got := starts(p); !slices.Equal(got, want) {
			t.Errorf("with %d places %v start, want %v", slots, got, want)
		}
	}
}

// SET-01, SET-02, SET-04: a set has all of its slots or none, nobody who came
// later takes one of them before it, and whatever sets overlap, all of them run
// in the end.
func TestOverlappingSetsAllRunInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := []string{"cuda:0", "cuda:1", "cuda:2", "cuda:3"}
		waiting := map[string]scheduler.Waiting{}
		n := rapid.IntRange(1, 10).Draw(t, "runs")
		for i := range n {
			set := rapid.Permutation(devices).Draw(t, "set")[:rapid.IntRange(1, len(devices)).Draw(t, "size")]
			id := fmt.Sprint("r", i)
			waiting[id] = scheduler.Waiting{RunID: id, Seq: int64(i), Slots: local(set...)}
		}
		holders := map[scheduler.Slot][]string{}
		var running []string
		for step := 0; len(waiting)+len(running) > 0; step++ {
			if step > 3*n {
				t.Fatalf("%d runs wait for ever: %v", len(waiting), waiting)
			}
			s := scheduler.Snapshot{Slots: map[scheduler.Slot]scheduler.SlotState{}}
			for _, slot := range local(devices...) {
				s.Slots[slot] = scheduler.SlotState{Cap: 1, Holders: holders[slot]}
			}
			for id, w := range waiting {
				s.Queues = append(s.Queues, scheduler.Queue{Key: id, Waiting: []scheduler.Waiting{w}})
			}
			for _, start := range scheduler.Decide(s).Starts {
				w := waiting[start.RunID]
				delete(waiting, start.RunID)
				if !slices.Equal(start.Slots, w.Slots) {
					t.Fatalf("%s takes %v of %v", start.RunID, start.Slots, w.Slots)
				}
				for _, slot := range start.Slots {
					if len(holders[slot]) > 0 {
						t.Fatalf("%v is given to %s and held by %v", slot, start.RunID, holders[slot])
					}
					holders[slot] = []string{start.RunID}
				}
				for _, other := range waiting {
					if other.Seq < w.Seq && slices.ContainsFunc(other.Slots, func(x scheduler.Slot) bool { return slices.Contains(w.Slots, x) }) {
						t.Fatalf("%s overtakes %s, which waits for one of its slots", w.RunID, other.RunID)
					}
				}
				running = append(running, start.RunID)
			}
			if len(running) == 0 {
				t.Fatalf("all slots are free and nobody starts: %v", waiting)
			}
			done := rapid.IntRange(0, len(running)-1).Draw(t, "ends")
			for slot, held := range holders {
				if slices.Contains(held, running[done]) {
					delete(holders, slot)
				}
			}
			running = slices.Delete(running, done, done+1)
		}
	})
}
