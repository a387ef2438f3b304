package scheduler_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/device"
	"cdui/internal/run"
	"cdui/internal/scheduler"
)

func TestDecideWorkers(t *testing.T) {
	type slots = map[scheduler.Slot]scheduler.SlotState
	slot := func(w, d string) scheduler.Slot { return scheduler.Slot{Worker: w, Device: d} }
	busy := scheduler.SlotState{Cap: 1, Holders: []string{"x"}}
	free := scheduler.SlotState{Cap: 1}
	box := scheduler.Worker{Name: "box", Connected: true, Devices: []string{"cpu", "cuda:0", "cuda:1"}}
	box2 := scheduler.Worker{Name: "box2", Connected: true, Devices: []string{"cpu", "cuda:0"}}
	off, drain, lacks := box, box, box
	off.Connected, drain.Draining, lacks.Incomplete = false, true, true
	kind := func(worker, kind string) scheduler.Ask { return scheduler.Ask{Worker: worker, Kind: kind} }
	set := func(worker string, devices ...string) scheduler.Ask {
		return scheduler.Ask{Worker: worker, Devices: devices}
	}
	program := func(a scheduler.Ask) scheduler.Ask { a.Program = true; return a }
	all := slots{
		slot("box", "cpu"): free, slot("box", "cuda:0"): free, slot("box", "cuda:1"): free,
		slot("box2", "cpu"): free, slot("box2", "cuda:0"): free, slot("local", "cpu"): free, slot("local", "cuda:0"): free, slot("local", "cuda:1"): free,
	}
	with := func(changed slots) slots {
		out := slots{}
		maps.Copy(out, all)
		maps.Copy(out, changed)
		return out
	}
	none := scheduler.Worker{}
	cases := []struct {
		name    string
		ask     scheduler.Ask
		workers []scheduler.Worker
		slots   slots
		takes   []scheduler.Slot
		reason  string
		text    string
	}{
		{"TGT-07: the first free device of the kind", kind("box", "cuda"), []scheduler.Worker{box}, with(slots{slot("box", "cuda:0"): busy}), []scheduler.Slot{slot("box", "cuda:1")}, "", ""},
		{"TGT-07: a set", set("box", "cuda:1", "cuda:0"), []scheduler.Worker{box}, all, []scheduler.Slot{slot("box", "cuda:1"), slot("box", "cuda:0")}, "", ""},
		{"all devices of the kind are busy", kind("box", "cuda"), []scheduler.Worker{box}, with(slots{slot("box", "cuda:0"): busy, slot("box", "cuda:1"): busy}), nil, run.ReasonSlotBusy, "box/cuda is busy with x"},
		{"a worker that is away", kind("box", "cuda"), []scheduler.Worker{off}, all, nil, run.ReasonWorkerOffline, "waiting for worker box to reconnect"},
		{"a worker nobody has seen", kind("box", "cuda"), []scheduler.Worker{box2}, all, nil, run.ReasonWorkerOffline, "waiting for worker box to reconnect"},
		{"a draining worker", kind("box", "cuda"), []scheduler.Worker{drain}, all, nil, run.ReasonWorkerDraining, "worker box is draining"},
		{"a card that went away", set("box2", "cuda:0", "cuda:1"), []scheduler.Worker{box2}, all, nil, run.ReasonNoDevice, "waiting for a worker that offers cuda:0, cuda:1"},
		{"TGT-08: workers in the order of names, the server last", kind("any", "cuda"), []scheduler.Worker{box2, box}, all, []scheduler.Slot{slot("box", "cuda:0")}, "", ""},
		{"TGT-08: the server last", kind("any", "cpu"), []scheduler.Worker{drain}, all, []scheduler.Slot{slot("local", "cpu")}, "", ""},
		{"TGT-09: a worker that lacks types is left out", kind("any", "cuda"), []scheduler.Worker{lacks, box2}, all, []scheduler.Slot{slot("box2", "cuda:0")}, "", ""},
		{"a program needs no types", program(kind("any", "cuda")), []scheduler.Worker{lacks, box2}, all, []scheduler.Slot{slot("box", "cuda:0")}, "", ""},
		{"TGT-10: the server takes cuda:0 alone", set("any", "cuda:1"), []scheduler.Worker{box2}, all, nil, run.ReasonNoDevice, ""},
		{"TGT-10: no CUDA set on the server", set("any", "cuda:0", "cuda:1"), []scheduler.Worker{drain}, all, nil, run.ReasonAllDraining, "waiting for a worker that offers cuda:0, cuda:1: box is draining"},
		{"RSN-05: the kind, then the draining ones", kind("any", "mps"), []scheduler.Worker{{Name: "m", Connected: true, Draining: true, Devices: []string{"mps:0"}}}, all, nil, run.ReasonAllDraining, "waiting for a worker that offers mps: m is draining"},
		{"only workers without the types", set("any", "cuda:1"), []scheduler.Worker{lacks}, all, nil, run.ReasonNodeTypes, ""},
		{"nobody connected offers it", kind("any", "mps"), []scheduler.Worker{none}, all, nil, run.ReasonNoDevice, "waiting for a worker that offers mps"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := scheduler.Decide(scheduler.Snapshot{Slots: c.slots, Workers: c.workers, Queues: []scheduler.Queue{
				{Key: "k", Waiting: []scheduler.Waiting{{RunID: "a", Seq: 1, Ask: &c.ask}}},
			}})
			var takes []scheduler.Slot
			for _, s := range p.Starts {
				takes = append(takes, s.Slots...)
			}
			if !slices.Equal(takes, c.takes) || p.Reasons["k"].Code != c.reason {
				t.Errorf("takes %v with reason %+v, want %v, %s", takes, p.Reasons["k"], c.takes, c.reason)
			}
			if c.text != "" && p.Reasons["k"].Text != c.text {
				t.Errorf("says %q, want %q", p.Reasons["k"].Text, c.text)
			}
		})
	}
}

// Proves SET-03, SET-05.
func TestNamedSetsReserveAndAnySetsDoNot(t *testing.T) {
	box := scheduler.Worker{Name: "box", Connected: true, Devices: []string{"cuda:0", "cuda:1"}}
	slots := map[scheduler.Slot]scheduler.SlotState{
		{Worker: "box", Device: "cuda:0"}: {Cap: 1}, {Worker: "box", Device: "cuda:1"}: {Cap: 1, Holders: []string{"x"}},
	}
	for worker, want := range map[string][]string{"box": {}, "any": {"one"}} {
		p := scheduler.Decide(scheduler.Snapshot{Slots: slots, Workers: []scheduler.Worker{box}, Queues: []scheduler.Queue{
			{Key: "set", Waiting: []scheduler.Waiting{{RunID: "set", Seq: 1, Ask: &scheduler.Ask{Worker: worker, Devices: []string{"cuda:0", "cuda:1"}}}}},
			{Key: "one", Waiting: []scheduler.Waiting{{RunID: "one", Seq: 2, Ask: &scheduler.Ask{Worker: "box", Devices: []string{"cuda:0"}}}}},
		}})
		if got := starts(p); !slices.Equal(got, want) || p.Reasons["set"].Code != run.ReasonSetWait {
			t.Errorf("a waiting set of %s lets %v start, want %v (%v)", worker, got, want, p.Reasons)
		}
	}
}

// TestDecideWorkerProperties: no overcommit, a reason for each key that waits,
// and no dependence on the order of workers or queues.
// Proves.
func TestDecideWorkerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scheduler.Snapshot{Slots: map[scheduler.Slot]scheduler.SlotState{}}
		offered := []string{"cpu", "cuda:0", "cuda:1"}
		for _, name := range []string{"local", "a", "b", "c"} {
			w := scheduler.Worker{
				Name: name, Connected: rapid.Bool().Draw(t, "connected"), Draining: rapid.Bool().Draw(t, "draining"),
				Incomplete: rapid.Bool().Draw(t, "incomplete"), Devices: offered[:rapid.IntRange(0, 3).Draw(t, "devices")],
			}
			for _, d := range offered {
				state := scheduler.SlotState{Cap: rapid.IntRange(1, 2).Draw(t, "cap")}
				for i := range rapid.IntRange(0, state.Cap).Draw(t, "held") {
					state.Holders = append(state.Holders, fmt.Sprint(name, d, i))
				}
				s.Slots[scheduler.Slot{Worker: name, Device: d}] = state
			}
			if name != scheduler.Local {
				s.Workers = append(s.Workers, w)
			}
		}
		asks := []scheduler.Ask{
			{Worker: "a", Kind: "cuda"},
			{Worker: "b", Devices: []string{"cuda:0", "cuda:1"}},
			{Worker: "any", Kind: "cuda"},
			{Worker: "any", Kind: "cpu", Program: true},
			{Worker: "any", Devices: []string{"cuda:0", "cuda:1"}},
			{Worker: "c", Devices: []string{"cpu"}},
		}
		byKey := map[string]*scheduler.Queue{}
		for i := range rapid.IntRange(0, 14).Draw(t, "runs") {
			ask := asks[rapid.IntRange(0, len(asks)-1).Draw(t, "ask")]
			key := fmt.Sprint(ask)
			if byKey[key] == nil {
				byKey[key] = &scheduler.Queue{Key: key}
			}
			byKey[key].Waiting = append(byKey[key].Waiting, scheduler.Waiting{RunID: fmt.Sprint("r", i), Seq: int64(i), Ask: &ask})
		}
		for _, q := range byKey {
			s.Queues = append(s.Queues, *q)
		}
		p := scheduler.Decide(s)
		used, started := map[scheduler.Slot]int{}, map[string]bool{}
		for slot, state := range s.Slots {
			used[slot] = len(state.Holders)
		}
		for _, st := range p.Starts {
			started[st.RunID] = true
			for _, slot := range st.Slots {
				used[slot]++
				i := slices.IndexFunc(s.Workers, func(w scheduler.Worker) bool { return w.Name == slot.Worker })
				if i >= 0 && (!s.Workers[i].Connected || s.Workers[i].Draining || !slices.Contains(s.Workers[i].Devices, slot.Device)) {
					t.Fatalf("%s starts on %v, which takes nothing", st.RunID, slot)
				}
				if i < 0 && device.Kind(slot.Device) == device.CUDA && slot.Device != "cuda:0" {
					t.Fatalf("%s starts on the server's %s", st.RunID, slot.Device)
				}
			}
		}
		for slot, n := range used {
			if n > s.Slots[slot].Cap {
				t.Fatalf("%v holds %d, its cap is %d", slot, n, s.Slots[slot].Cap)
			}
		}
		for _, q := range s.Queues {
			waits := slices.ContainsFunc(q.Waiting, func(w scheduler.Waiting) bool { return !started[w.RunID] })
			if waits != (p.Reasons[q.Key].Code != "") {
				t.Fatalf("%s waits: %v, reason %+v", q.Key, waits, p.Reasons[q.Key])
			}
		}
		slices.Reverse(s.Workers)
		slices.Reverse(s.Queues)
		if again := scheduler.Decide(s); !reflect.DeepEqual(again, p) {
			t.Fatalf("order changed the plan:\n%v\n%v", p, again)
		}
	})
}

func TestRoom(t *testing.T) {
	s := scheduler.Snapshot{
		Slots: map[scheduler.Slot]scheduler.SlotState{
			{Worker: "local", Device: "cpu"}: {Cap: 2}, {Worker: "box", Device: "cpu"}: {Cap: 3},
			{Worker: "box", Device: "cuda:0"}: {Cap: 1}, {Worker: "box", Device: "cuda:1"}: {Cap: 2},
			{Worker: "away", Device: "cpu"}: {Cap: 9},
		},
		Workers: []scheduler.Worker{{Name: "box", Connected: true}, {Name: "away"}},
	}
	for key, want := range map[string]int{
		"cpu": 2, "cuda:0": 0, "box/cpu": 3, "box/cuda": 3, "box/cuda:0,cuda:1": 1, "any/cpu": 5, "any/cuda": 3, "away/cpu": 9,
	} {
		if got := scheduler.Room(s, key); got != want {
			t.Errorf("%s has room for %d, want %d", key, got, want)
		}
	}
}
