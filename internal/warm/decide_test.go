package warm_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cdui/internal/warm"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// asked is a device that --warm keeps one spare for, learned one that is kept
// warm after a run of ago.
func asked(device string) warm.Slot {
	return warm.Slot{Device: device, Recipe: device + "/script", Keep: 1, Lasting: true}
}

func learned(device string, ago time.Duration) warm.Slot {
	return warm.Slot{Device: device, Recipe: device + "/script", Keep: 1, Used: noon.Add(-ago), IdleSince: noon.Add(-ago)}
}

func with(s warm.Slot, change func(*warm.Slot)) warm.Slot {
	change(&s)
	return s
}

func standing(id, device string, age time.Duration) warm.Spare {
	return warm.Spare{ID: id, Device: device, Key: device + "/script", Started: noon.Add(-age)}
}

// Proves K-04: when a spare is started, kept and ended.
func TestDecide(t *testing.T) {
	cases := []struct {
		name  string
		state warm.State
		// start are the devices that get one, end the spares that go.
		start, end string
		// next is when to look again, from noon on; 0 is not before a change.
		next time.Duration
	}{
		{name: "nobody wants one", state: warm.State{Slots: []warm.Slot{{Device: "cpu", Keep: 1}}}},
		{name: "one is asked for and nothing has run yet", state: warm.State{Slots: []warm.Slot{asked("cuda:0")}}, start: "cuda:0"},
		{
			name:  "two are asked for, one is there",
			state: warm.State{Slots: []warm.Slot{with(asked("cpu"), func(s *warm.Slot) { s.Keep = 3 })}, Spares: []warm.Spare{standing("a", "cpu", time.Minute)}},
			start: "cpu cpu", next: 29 * time.Minute,
		},
		{
			name:  "it stays while a run is there",
			state: warm.State{Slots: []warm.Slot{with(asked("cpu"), func(s *warm.Slot) { s.Busy = true })}, Spares: []warm.Spare{standing("a", "cpu", time.Minute)}},
			next:  29 * time.Minute,
		},
		{name: "none is started while a run is there", state: warm.State{Slots: []warm.Slot{with(asked("cpu"), func(s *warm.Slot) { s.Busy = true })}}},
		{
			name:  "the slot has not been idle for long enough",
			state: warm.State{Slots: []warm.Slot{with(asked("cpu"), func(s *warm.Slot) { s.IdleSince = noon.Add(-2 * time.Second) })}},
			next:  3 * time.Second,
		},
		{
			name:  "it has",
			state: warm.State{Slots: []warm.Slot{with(asked("cpu"), func(s *warm.Slot) { s.IdleSince = noon.Add(-5 * time.Second) })}},
			start: "cpu",
		},
		{name: "a run imported torch and ended", state: warm.State{Slots: []warm.Slot{learned("cuda:1", 5*time.Second)}}, start: "cuda:1", next: 30*time.Minute - 5*time.Second},
		{name: "a run imported torch a moment ago", state: warm.State{Slots: []warm.Slot{learned("cuda:1", time.Second)}}, next: 4 * time.Second},
		{name: "the last run that did is long ago", state: warm.State{Slots: []warm.Slot{learned("cuda:1", 30*time.Minute)}}},
		{
			name:  "nobody came for the one of a run long ago",
			state: warm.State{Slots: []warm.Slot{learned("cuda:1", 30*time.Minute)}, Spares: []warm.Spare{standing("a", "cuda:1", 20*time.Minute)}},
			end:   "a",
		},
		{
			name:  "after half an hour it is exchanged",
			state: warm.State{Slots: []warm.Slot{asked("cpu")}, Spares: []warm.Spare{standing("a", "cpu", 30*time.Minute)}},
			end:   "a", start: "cpu",
		},
		{
			name: "the environment has changed",
			state: warm.State{Slots: []warm.Slot{asked("cpu")}, Spares: []warm.Spare{
				{ID: "a", Device: "cpu", Key: "cpu/script", Started: noon.Add(-time.Minute), Stale: true},
			}},
			end: "a", start: "cpu",
		},
		{
			name: "runs there need another one",
			state: warm.State{Slots: []warm.Slot{with(learned("cpu", 6*time.Second), func(s *warm.Slot) { s.Recipe = "cpu/graph" })}, Spares: []warm.Spare{
				standing("a", "cpu", time.Minute),
			}},
			end: "a", start: "cpu", next: 30*time.Minute - 6*time.Second,
		},
		{
			name:  "drained",
			state: warm.State{Closed: true, Slots: []warm.Slot{asked("cpu"), asked("cuda:0")}, Spares: []warm.Spare{standing("a", "cpu", time.Minute)}},
			end:   "a",
		},
		{
			name:  "on a card whose memory is shared none stands by",
			state: warm.State{Slots: []warm.Slot{with(asked("cuda:0"), func(s *warm.Slot) { s.Shared = true })}, Spares: []warm.Spare{standing("a", "cuda:0", time.Minute)}},
			end:   "a",
		},
		{name: "the device is gone", state: warm.State{Spares: []warm.Spare{standing("a", "cuda:0", time.Minute)}}, end: "a"},
		{
			name:  "one too many: the younger goes",
			state: warm.State{Slots: []warm.Slot{asked("cpu")}, Spares: []warm.Spare{standing("a", "cpu", 2*time.Minute), standing("b", "cpu", time.Minute)}},
			end:   "b", next: 28 * time.Minute,
		},
		{
			name:  "the last one failed",
			state: warm.State{Slots: []warm.Slot{with(asked("cpu"), func(s *warm.Slot) { s.FailedAt = noon.Add(-time.Minute) })}},
			next:  9 * time.Minute,
		},
		{
			name:  "the last one failed a while ago",
			state: warm.State{Slots: []warm.Slot{with(asked("cpu"), func(s *warm.Slot) { s.FailedAt = noon.Add(-10 * time.Minute) })}},
			start: "cpu",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			actions, next := warm.Decide(c.state, noon)
			var start, end []string
			for _, a := range actions {
				if a.ID == "" {
					start = append(start, a.Device)
				} else if end = append(end, a.ID); a.Why == "" {
					t.Errorf("%s goes without a reason", a.ID)
				}
			}
			if got := strings.Join(start, " "); got != c.start {
				t.Errorf("started on %q, want %q", got, c.start)
			}
			if got := strings.Join(end, " "); got != c.end {
				t.Errorf("ended %q, want %q", got, c.end)
			}
			var wait time.Duration
			if !next.IsZero() {
				wait = next.Sub(noon)
			}
			if wait != c.next {
				t.Errorf("looks again after %s, want %s", wait, c.next)
			}
		})
	}
}

// Whatever the state: once its actions are done nothing is left to do, no
// device has more spares than it should, none stands by where it must not, and
// the next look lies ahead.
func TestDecideSettles(t *testing.T) {
	devices := []string{"cpu", "cuda:0", "cuda:1"}
	rapid.Check(t, func(t *rapid.T) {
		ago := rapid.Custom(func(t *rapid.T) time.Time {
			return noon.Add(-time.Duration(rapid.IntRange(0, 4000).Draw(t, "s")) * time.Second)
		})
		s := warm.State{Closed: rapid.Bool().Draw(t, "closed")}
		for _, d := range devices[:rapid.IntRange(0, 3).Draw(t, "devices")] {
			slot := warm.Slot{
				Device: d, Recipe: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "recipe"), Keep: rapid.IntRange(0, 3).Draw(t, "keep"),
				Shared: rapid.Bool().Draw(t, "shared"), Busy: rapid.Bool().Draw(t, "busy"), Lasting: rapid.Bool().Draw(t, "lasting"),
				Used: ago.Draw(t, "used"), IdleSince: ago.Draw(t, "idle"),
			}
			s.Slots = append(s.Slots, slot)
		}
		for i := range rapid.IntRange(0, 6).Draw(t, "spares") {
			s.Spares = append(s.Spares, warm.Spare{
				ID: string(rune('a' + i)), Device: rapid.SampledFrom(devices).Draw(t, "on"), Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
				Started: ago.Draw(t, "started"), Stale: rapid.Bool().Draw(t, "stale"),
			})
		}
		actions, _ := warm.Decide(s, noon)
		for _, a := range actions {
			if a.ID != "" {
				s.Spares = slices.DeleteFunc(s.Spares, func(sp warm.Spare) bool { return sp.ID == a.ID })
				continue
			}
			i := slices.IndexFunc(s.Slots, func(sl warm.Slot) bool { return sl.Device == a.Device })
			s.Spares = append(s.Spares, warm.Spare{ID: "new", Device: a.Device, Key: s.Slots[i].Recipe, Started: noon})
			if sl := s.Slots[i]; sl.Busy || sl.Shared || s.Closed || noon.Sub(sl.IdleSince) < warm.Settle {
				t.Fatalf("started on %+v", sl)
			}
		}
		again, next := warm.Decide(s, noon)
		if len(again) > 0 {
			t.Fatalf("after %v still to do: %v", actions, again)
		}
		if !next.IsZero() && !next.After(noon) {
			t.Fatalf("looks again at %s", next)
		}
		for _, sl := range s.Slots {
			n := 0
			for _, sp := range s.Spares {
				if sp.Device == sl.Device {
					n++
				}
			}
			if n > sl.Keep || n > 0 && (sl.Shared || s.Closed) {
				t.Fatalf("%d spares on %+v", n, sl)
			}
		}
	})
}
