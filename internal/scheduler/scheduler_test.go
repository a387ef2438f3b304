package scheduler_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/run"
	"cdui/internal/scheduler"
)

func local(devices ...string) []scheduler.Slot {
	out := make([]scheduler.Slot, len(devices))
	for i, d := range devices {
		out[i] = scheduler.Slot{Worker: scheduler.Local, Device: d}
	}
	return out
}

func starts(p scheduler.Plan) []string {
	out := []string{}
	for _, s := range p.Starts {
		out = append(out, s.RunID)
	}
	return out
}

// SCHED-01, SCHED-06, SCHED-07, E: first in first out by key; the earliest head goes first; without room it stays.
func TestDecide(t *testing.T) {
	wait := func(id string, seq int64, devices ...string) scheduler.Waiting {
		return scheduler.Waiting{RunID: id, Seq: seq, Slots: local(devices...)}
	}
	slots := func(state map[string]scheduler.SlotState) map[scheduler.Slot]scheduler.SlotState {
		out := map[scheduler.Slot]scheduler.SlotState{}
		for d, s := range state {
			out[local(d)[0]] = s
		}
		return out
	}
	cases := []struct {
		name    string
		slots   map[string]scheduler.SlotState
		queues  []scheduler.Queue
		starts  []string
		reasons map[string]string
	}{
		{
			name:  "a cap fills in order",
			slots: map[string]scheduler.SlotState{"cpu": {Cap: 2}},
			queues: []scheduler.Queue{
				{Key: "cpu", Waiting: []scheduler.Waiting{wait("a", 1, "cpu"), wait("b", 2, "cpu"), wait("c", 3, "cpu")}},
			},
			starts: []string{"a", "b"}, reasons: map[string]string{"cpu": run.ReasonSlotBusy},
		},
		{
			name:  "accelerators never delay the cpu",
			slots: map[string]scheduler.SlotState{"cpu": {Cap: 1}, "cuda:0": {Cap: 1, Holders: []string{"x"}}},
			queues: []scheduler.Queue{
				{Key: "cuda:0", Waiting: []scheduler.Waiting{wait("a", 1, "cuda:0")}},
				{Key: "cpu", Waiting: []scheduler.Waiting{wait("b", 2, "cpu")}},
			},
			starts: []string{"b"}, reasons: map[string]string{"cuda:0": run.ReasonSlotBusy},
		},
		{
			name:  "SET-03: a set at its turn reserves, so traffic on one card can't starve it",
			slots: map[string]scheduler.SlotState{"cuda:0": {Cap: 1}, "cuda:1": {Cap: 1, Holders: []string{"x"}}},
			queues: []scheduler.Queue{
				{Key: "cuda:0,cuda:1", Waiting: []scheduler.Waiting{wait("set", 1, "cuda:0", "cuda:1")}},
				{Key: "cuda:0", Waiting: []scheduler.Waiting{wait("one", 2, "cuda:0")}},
			},
			starts: []string{}, reasons: map[string]string{"cuda:0,cuda:1": run.ReasonSetWait, "cuda:0": run.ReasonSlotBusy},
		},
		{
			name:  "an earlier single run goes before a later set",
			slots: map[string]scheduler.SlotState{"cuda:0": {Cap: 1}, "cuda:1": {Cap: 1}},
			queues: []scheduler.Queue{
				{Key: "cuda:0,cuda:1", Waiting: []scheduler.Waiting{wait("set", 2, "cuda:0", "cuda:1")}},
				{Key: "cuda:0", Waiting: []scheduler.Waiting{wait("one", 1, "cuda:0")}},
			},
			starts: []string{"one"}, reasons: map[string]string{"cuda:0,cuda:1": run.ReasonSetWait},
		},
		{
			name:  "a device that went away is named",
			slots: map[string]scheduler.SlotState{"cpu": {Cap: 1}},
			queues: []scheduler.Queue{
				{Key: "cuda:0", Waiting: []scheduler.Waiting{wait("a", 1, "cuda:0")}},
			},
			starts: []string{}, reasons: map[string]string{"cuda:0": run.ReasonNoDevice},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := scheduler.Decide(scheduler.Snapshot{Slots: slots(c.slots), Queues: c.queues})
			if got := starts(p); !slices.Equal(got, c.starts) {
				t.Errorf("starts %v, want %v", got, c.starts)
			}
			codes := map[string]string{}
			for k, r := range p.Reasons {
				codes[k] = r.Code
			}
			if !reflect.DeepEqual(codes, c.reasons) {
				t.Errorf("reasons %v, want %v", codes, c.reasons)
			}
		})
	}
}

// Over random snapshots: no slot over its cap, every key that keeps a head has
// a reason, no head that fits waits unless a set before it reserved a slot,
// and the order of queues doesn't matter.
// Proves, SET-02.
func TestDecideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := []string{"cpu", "cuda:0", "cuda:1", "cuda:2"}
		s := scheduler.Snapshot{Slots: map[scheduler.Slot]scheduler.SlotState{}}
		for _, d := range devices {
			state := scheduler.SlotState{Cap: rapid.IntRange(1, 3).Draw(t, "cap")}
			for i := range rapid.IntRange(0, state.Cap).Draw(t, "held") {
				state.Holders = append(state.Holders, fmt.Sprintf("%s-%d", d, i))
			}
			s.Slots[local(d)[0]] = state
		}
		sets := [][]string{{"cpu"}, {"cuda:0"}, {"cuda:1"}, {"cuda:2"}, {"cuda:0", "cuda:1"}, {"cuda:1", "cuda:2"}, {"cuda:0", "cuda:1", "cuda:2"}}
		byKey := map[string]*scheduler.Queue{}
		for i := range rapid.IntRange(0, 12).Draw(t, "runs") {
			set := sets[rapid.IntRange(0, len(sets)-1).Draw(t, "set")]
			key := fmt.Sprint(set)
			if byKey[key] == nil {
				byKey[key] = &scheduler.Queue{Key: key}
			}
			byKey[key].Waiting = append(byKey[key].Waiting, scheduler.Waiting{RunID: fmt.Sprint("r", i), Seq: int64(i), Slots: local(set...)})
		}
		for _, q := range byKey {
			s.Queues = append(s.Queues, *q)
		}
		p := scheduler.Decide(s)

		used := map[scheduler.Slot]int{}
		for slot, state := range s.Slots {
			used[slot] = len(state.Holders)
		}
		started := map[string]bool{}
		for _, st := range p.Starts {
			started[st.RunID] = true
			for _, slot := range st.Slots {
				used[slot]++
			}
		}
		for slot, n := range used {
			if n > s.Slots[slot].Cap {
				t.Fatalf("%v holds %d, its cap is %d", slot, n, s.Slots[slot].Cap)
			}
		}
		reservedBy := map[scheduler.Slot]int64{}
		waiting := []scheduler.Waiting{}
		for _, q := range s.Queues {
			for _, w := range q.Waiting {
				if started[w.RunID] {
					continue
				}
				if p.Reasons[q.Key].Code == "" {
					t.Fatalf("%s waits on %s without a reason", w.RunID, q.Key)
				}
				waiting = append(waiting, w)
				if len(w.Slots) > 1 {
					for _, slot := range w.Slots {
						if seq, ok := reservedBy[slot]; !ok || w.Seq < seq {
							reservedBy[slot] = w.Seq
						}
					}
				}
				break
			}
		}
		for _, w := range waiting {
			fits, reserved := true, false
			for _, slot := range w.Slots {
				fits = fits && used[slot] < s.Slots[slot].Cap
				seq, ok := reservedBy[slot]
				reserved = reserved || ok && seq < w.Seq
			}
			if fits && !reserved {
				t.Fatalf("%s waits beside an idle slot", w.RunID)
			}
		}
		rand.New(rand.NewSource(1)).Shuffle(len(s.Queues), func(i, j int) { s.Queues[i], s.Queues[j] = s.Queues[j], s.Queues[i] })
		if again := scheduler.Decide(s); !reflect.DeepEqual(again, p) {
			t.Fatalf("the order of queues changed the plan:\n%v\n%v", p, again)
		}
	})
}

// SCHED-09, SCHED-10, E: a limit below one acts as one.
func TestLimits(t *testing.T) {
	l := scheduler.Limits{GPU: 1, CPU: 2, Override: map[string]int{"cuda:0": 3, "box/cuda:0": 4, "cpu": 0}}
	for slot, want := range map[scheduler.Slot]int{
		{Worker: "local", Device: "cuda:0"}: 3, {Worker: "local", Device: "cuda:1"}: 1,
		{Worker: "box", Device: "cuda:0"}: 4, {Worker: "box", Device: "cpu"}: 2, {Worker: "local", Device: "cpu"}: 1,
	} {
		if got := l.Cap(slot); got != want {
			t.Errorf("Cap(%v) = %d, want %d", slot, got, want)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	s := scheduler.Snapshot{Slots: map[scheduler.Slot]scheduler.SlotState{}}
	seq := int64(0)
	for w := range 64 {
		for c := range 8 {
			slot := scheduler.Slot{Worker: fmt.Sprint("box", w), Device: fmt.Sprint("cuda:", c)}
			s.Slots[slot] = scheduler.SlotState{Cap: 1, Holders: []string{"busy"}}
			q := scheduler.Queue{Key: slot.Worker + "/" + slot.Device}
			for range 20 {
				seq++
				q.Waiting = append(q.Waiting, scheduler.Waiting{RunID: fmt.Sprint("r", seq), Seq: seq, Slots: []scheduler.Slot{slot}})
			}
			s.Queues = append(s.Queues, q)
		}
	}
	b.ReportMetric(float64(seq), "queued")
	for b.Loop() {
		scheduler.Decide(s)
	}
}
