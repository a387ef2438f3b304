package supervise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cdui/internal/agent/supervise"
)

func key(run string, attempt int) supervise.Key { return supervise.Key{RunID: run, Attempt: attempt} }

func order(run string, attempt int, devices ...string) supervise.Order {
	if len(devices) == 0 {
		devices = []string{"cpu"}
	}
	return supervise.Order{Key: key(run, attempt), Devices: devices}
}

// say describes actions in a line, for comparisons.
func say(actions []supervise.Action) string {
	names := map[supervise.Do]string{
		supervise.Start: "start", supervise.Refuse: "refuse", supervise.Drop: "drop", supervise.Follow: "follow",
		supervise.Cancel: "cancel", supervise.Tidy: "tidy", supervise.Forget: "forget",
	}
	var out []string
	for _, a := range actions {
		line := fmt.Sprintf("%s %s/%d", names[a.Do], a.Key.RunID, a.Key.Attempt)
		switch a.Do {
		case supervise.Refuse:
			line += " " + a.Code
		case supervise.Cancel:
			line += fmt.Sprintf(" %s %v", a.Stop.Grace, a.Stop.Force)
		default:
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

func TestStep(t *testing.T) {
	t.Parallel()
	minute := &supervise.Stop{Grace: time.Minute}
	second := &supervise.Stop{Grace: time.Second}
	force := &supervise.Stop{Force: true}
	offered := []string{"cpu", "cuda:0", "cuda:1"}
	tests := []struct {
		name  string
		state supervise.State
		want  string
	}{
		{name: "nothing"},
		{name: "an order is started", state: supervise.State{Orders: []supervise.Order{order("a", 1, "cuda:1", "cuda:0")}}, want: "start a/1"},
		{
			name:  "a device that is not offered",
			state: supervise.State{Orders: []supervise.Order{order("a", 1, "cuda:0", "cuda:7")}},
			want:  "refuse a/1 device_not_offered",
		},
		{name: "during drain", state: supervise.State{Draining: true, Orders: []supervise.Order{order("a", 1)}}, want: "refuse a/1 worker_is_draining"},
		{
			name: "drain leaves runs alone",
			state: supervise.State{Draining: true, Runs: []supervise.Run{
				{Key: key("a", 1), Phase: supervise.Live, Followed: true}, {Key: key("b", 1), Phase: supervise.Preparing},
			}},
		},
		{
			name:  "a graph without torch",
			state: supervise.State{Orders: []supervise.Order{{Key: key("a", 1), Devices: []string{"cpu"}, NeedsTorch: true}}},
			want:  "refuse a/1 torch_missing",
		},
		{
			name:  "a graph with torch",
			state: supervise.State{Torch: true, Orders: []supervise.Order{{Key: key("a", 1), Devices: []string{"cpu"}, NeedsTorch: true}}},
			want:  "start a/1",
		},
		{
			name: "a second copy of a live run",
			state: supervise.State{
				Orders: []supervise.Order{order("a", 2)},
				Runs:   []supervise.Run{{Key: key("a", 1), Phase: supervise.Live, Followed: true}},
			},
			want: "refuse a/2 already_running",
		},
		{
			name: "a second copy of a run that is being prepared",
			state: supervise.State{
				Orders: []supervise.Order{order("a", 2)},
				Runs:   []supervise.Run{{Key: key("a", 1), Phase: supervise.Preparing}},
			},
			want: "refuse a/2 already_running",
		},
		{
			name: "the same order twice ends nothing",
			state: supervise.State{
				Orders: []supervise.Order{order("a", 1), order("b", 1)},
				Runs: []supervise.Run{
					{Key: key("a", 1), Phase: supervise.Live, Followed: true}, {Key: key("b", 1), Phase: supervise.Ended, Followed: true},
				},
			},
			want: "drop a/1; drop b/1",
		},
		{
			name:  "two attempts of a run in one breath",
			state: supervise.State{Orders: []supervise.Order{order("a", 1), order("a", 2)}},
			want:  "start a/1; refuse a/2 already_running",
		},
		{
			name: "a newer attempt of an ended run clears the way first",
			state: supervise.State{
				Orders: []supervise.Order{order("a", 2)},
				Runs:   []supervise.Run{{Key: key("a", 1), Phase: supervise.Ended, Followed: true}},
			},
			want: "tidy a/1",
		},
		{
			name: "and waits until it is clear",
			state: supervise.State{
				Orders: []supervise.Order{order("a", 2)},
				Runs:   []supervise.Run{{Key: key("a", 1), Phase: supervise.Tidying}},
			},
		},
		{
			name: "an older attempt than the one that ended here",
			state: supervise.State{
				Orders: []supervise.Order{order("a", 1)},
				Runs:   []supervise.Run{{Key: key("a", 2), Phase: supervise.Ended, Followed: true}},
			},
			want: "refuse a/1 already_running",
		},
		{
			name: "a refused attempt does not stand in the way of the next",
			state: supervise.State{
				Orders: []supervise.Order{order("a", 2)},
				Runs:   []supervise.Run{{Key: key("a", 1), Phase: supervise.Refused}},
			},
			want: "start a/2",
		},
		{
			name: "after a restart",
			state: supervise.State{Runs: []supervise.Run{
				{Key: key("blank", 1), Phase: supervise.Blank},
				{Key: key("ended", 1), Phase: supervise.Ended},
				{Key: key("live", 1), Phase: supervise.Live},
			}},
			want: "tidy blank/1; follow ended/1; follow live/1",
		},
		{
			name: "a folder in which nothing was started does not keep its run away",
			state: supervise.State{
				Orders: []supervise.Order{order("a", 1)},
				Runs:   []supervise.Run{{Key: key("a", 1), Phase: supervise.Blank}},
			},
			want: "tidy a/1",
		},
		{
			name: "recorded ends are cleared away",
			state: supervise.State{Runs: []supervise.Run{
				{Key: key("a", 1), Phase: supervise.Ended, Followed: true, Recorded: true},
				{Key: key("b", 1), Phase: supervise.Refused, Recorded: true},
				{Key: key("c", 1), Phase: supervise.Refused},
				{Key: key("d", 1), Phase: supervise.Ended, Followed: true},
				{Key: key("e", 1), Phase: supervise.Live, Followed: true, Recorded: true},
			}},
			want: "tidy a/1; forget b/1",
		},
		{
			name: "a stop is passed on once, a harder one again",
			state: supervise.State{Runs: []supervise.Run{
				{Key: key("a", 1), Phase: supervise.Live, Followed: true, Wanted: minute},
				{Key: key("b", 1), Phase: supervise.Live, Followed: true, Wanted: minute, Told: minute},
				{Key: key("c", 1), Phase: supervise.Live, Followed: true, Wanted: second, Told: minute},
				{Key: key("d", 1), Phase: supervise.Live, Followed: true, Wanted: minute, Told: second},
				{Key: key("e", 1), Phase: supervise.Live, Followed: true, Wanted: force, Told: second},
				{Key: key("f", 1), Phase: supervise.Live, Followed: true, Wanted: second, Told: force},
				{Key: key("g", 1), Phase: supervise.Preparing, Wanted: second},
				{Key: key("h", 1), Phase: supervise.Ended, Followed: true, Wanted: second},
			}},
			want: "cancel a/1 1m0s false; cancel c/1 1s false; cancel e/1 0s true; cancel g/1 1s false",
		},
		{
			name: "a stop of everything",
			state: supervise.State{
				StopAll: second,
				Orders:  []supervise.Order{order("z", 1)},
				Runs: []supervise.Run{
					{Key: key("a", 1), Phase: supervise.Live, Followed: true},
					{Key: key("b", 1), Phase: supervise.Live, Followed: true, Told: second},
					{Key: key("c", 1), Phase: supervise.Live, Followed: true, Wanted: force},
				},
			},
			want: "cancel a/1 1s false; cancel c/1 0s true; refuse z/1 worker_is_draining",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.state.Offered = offered
			if got := say(supervise.Step(tt.state)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// world carries actions out at once, as an ideal agent would.
type world struct {
	state   supervise.State
	refused map[supervise.Key]int
	started map[supervise.Key]int
}

func (w *world) apply(t *rapid.T, a supervise.Action) {
	dropOrder := func() {
		w.state.Orders = slices.DeleteFunc(w.state.Orders, func(o supervise.Order) bool { return o.Key == a.Key })
	}
	at := slices.IndexFunc(w.state.Runs, func(r supervise.Run) bool { return r.Key == a.Key })
	switch a.Do {
	case supervise.Start:
		for _, r := range w.state.Runs {
			if r.RunID == a.Key.RunID && r.Phase != supervise.Refused {
				t.Fatalf("a second copy of %v is started beside %+v", a.Key, r)
			}
		}
		w.started[a.Key]++
		dropOrder()
		w.state.Runs = append(w.state.Runs, supervise.Run{Key: a.Key, Phase: supervise.Live, Followed: true})
	case supervise.Refuse:
		w.refused[a.Key]++
		dropOrder()
		if at < 0 {
			w.state.Runs = append(w.state.Runs, supervise.Run{Key: a.Key, Phase: supervise.Refused})
		}
	case supervise.Drop:
		dropOrder()
	case supervise.Follow:
		w.state.Runs[at].Followed = true
	case supervise.Cancel:
		w.state.Runs[at].Told = &a.Stop
		w.state.Runs[at].Phase = supervise.Ended
	case supervise.Tidy, supervise.Forget:
		w.state.Runs = slices.Delete(w.state.Runs, at, at+1)
	}
}

// TestStepComesToRest: whatever is ordered and found, no run executes twice at
// a time, every order is answered once, and the agent comes to rest.
func TestStepComesToRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{refused: map[supervise.Key]int{}, started: map[supervise.Key]int{}}
		w.state.Offered = []string{"cpu", "cuda:0"}
		w.state.Draining = rapid.Bool().Draw(t, "draining")
		held := map[string]bool{}
		for _, k := range keys(t, "held") {
			if held[k.RunID] {
				continue
			}
			held[k.RunID] = true
			w.state.Runs = append(w.state.Runs, supervise.Run{
				Key:      k,
				Phase:    rapid.SampledFrom([]supervise.Phase{supervise.Live, supervise.Ended, supervise.Blank}).Draw(t, "phase"),
				Recorded: rapid.Bool().Draw(t, "recorded"),
			})
		}
		for _, k := range keys(t, "ordered") {
			w.state.Orders = append(w.state.Orders, supervise.Order{
				Key: k, Devices: []string{rapid.SampledFrom([]string{"cpu", "cuda:0", "cuda:9"}).Draw(t, "device")},
			})
		}
		for range 100 {
			actions := supervise.Step(w.state)
			if len(actions) == 0 {
				if len(w.state.Orders) > 0 {
					t.Fatalf("orders are left: %+v, runs %+v", w.state.Orders, w.state.Runs)
				}
				return
			}
			seen := map[supervise.Key]bool{}
			for _, a := range actions {
				if !seen[a.Key] {
					w.apply(t, a)
				}
				seen[a.Key] = true
			}
		}
		t.Fatalf("no rest: %s", say(supervise.Step(w.state)))
	})
}

func keys(t *rapid.T, name string) []supervise.Key {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) supervise.Key {
		return key(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "run"), rapid.IntRange(1, 3).Draw(t, "attempt"))
	}), 0, 6).Draw(t, name)
}
