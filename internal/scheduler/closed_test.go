package scheduler_test

import (
	"slices"
	"testing"

	"cdui/internal/run"
	"cdui/internal/scheduler"
)

// Proves Q-06 for placing: an unhealthy card takes nothing, says why, and holds
// nobody up who doesn't need it.
func TestAClosedSlotTakesNothingAndSaysWhy(t *testing.T) {
	slot := func(w, d string) scheduler.Slot { return scheduler.Slot{Worker: w, Device: d} }
	free := scheduler.SlotState{Cap: 1}
	ill := scheduler.SlotState{Cap: 1, Closed: "Xid 79"}
	busy := scheduler.SlotState{Cap: 1, Holders: []string{"x"}}
	box := scheduler.Worker{Name: "box", Connected: true, Devices: []string{"cuda:0", "cuda:1"}}
	ask := func(worker string, devices ...string) *scheduler.Ask {
		a := &scheduler.Ask{Worker: worker, Devices: devices}
		if len(devices) == 0 {
			a.Kind = "cuda"
		}
		return a
	}
	named := func(devices ...string) scheduler.Waiting {
		return scheduler.Waiting{RunID: "r", Seq: 1, Slots: local(devices...)}
	}
	cases := []struct {
		name         string
		first, other scheduler.SlotState
		waiting      scheduler.Waiting
		starts       bool
		code, text   string
	}{
		{"its own run waits", ill, free, named("cuda:0"), false, run.ReasonCardUnhealthy, "cuda:0 is unhealthy: Xid 79"},
		{"the other card's run starts", ill, free, named("cuda:1"), true, "", ""},
		{"a set waits for all of its cards", free, ill, named("cuda:0", "cuda:1"), false, run.ReasonCardUnhealthy, "cuda:1 is unhealthy: Xid 79"},
		{"a wish takes the healthy one", ill, free, scheduler.Waiting{RunID: "r", Seq: 1, Ask: ask("box")}, true, "", ""},
		{"a wish waits for the busy one", ill, busy, scheduler.Waiting{RunID: "r", Seq: 1, Ask: ask("box")}, false, run.ReasonSlotBusy, "box/cuda is busy with x"},
		{"a wish has only ill ones", ill, ill, scheduler.Waiting{RunID: "r", Seq: 1, Ask: ask("box")}, false, run.ReasonCardUnhealthy, "box/cuda:0 is unhealthy: Xid 79"},
		{"a named set of a worker", ill, free, scheduler.Waiting{RunID: "r", Seq: 1, Ask: ask("box", "cuda:1", "cuda:0")}, false, run.ReasonCardUnhealthy, "box/cuda:0 is unhealthy: Xid 79"},
		{"any takes what is healthy", ill, free, scheduler.Waiting{RunID: "r", Seq: 1, Ask: ask(scheduler.Any, "cuda:1")}, true, "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			later := scheduler.Waiting{RunID: "later", Seq: 2, Slots: local("cpu")}
			plan := scheduler.Decide(scheduler.Snapshot{
				Slots: map[scheduler.Slot]scheduler.SlotState{
					slot("local", "cpu"): free, slot("local", "cuda:0"): c.first, slot("local", "cuda:1"): c.other,
					slot("box", "cuda:0"): c.first, slot("box", "cuda:1"): c.other,
				},
				Workers: []scheduler.Worker{box},
				Queues: []scheduler.Queue{
					{Key: "k", Waiting: []scheduler.Waiting{c.waiting}}, {Key: "cpu", Waiting: []scheduler.Waiting{later}},
				},
			})
			if got := starts(plan); slices.Contains(got, "r") != c.starts || !slices.Contains(got, "later") {
				t.Errorf("starts %v", got)
			}
			if r := plan.Reasons["k"]; r.Code != c.code || r.Text != c.text {
				t.Errorf("reason %+v", r)
			}
		})
	}
}

// An ill card in a set must not keep the set's other cards from everybody.
func TestASetWithAClosedSlotReservesNothing(t *testing.T) {
	one := scheduler.SlotState{Cap: 1}
	for name, set := range map[string]scheduler.Waiting{
		"local":  {RunID: "set", Seq: 1, Slots: local("cuda:0", "cuda:1")},
		"worker": {RunID: "set", Seq: 1, Ask: &scheduler.Ask{Worker: "box", Devices: []string{"cuda:0", "cuda:1"}}},
	} {
		single := scheduler.Waiting{RunID: "single", Seq: 2, Slots: local("cuda:1")}
		if set.Ask != nil {
			single = scheduler.Waiting{RunID: "single", Seq: 2, Ask: &scheduler.Ask{Worker: "box", Devices: []string{"cuda:1"}}}
		}
		plan := scheduler.Decide(scheduler.Snapshot{
			Slots: map[scheduler.Slot]scheduler.SlotState{
				{Worker: "local", Device: "cuda:0"}: {Cap: 1, Closed: "ill"}, {Worker: "local", Device: "cuda:1"}: one,
				{Worker: "box", Device: "cuda:0"}: {Cap: 1, Closed: "ill"}, {Worker: "box", Device: "cuda:1"}: one,
			},
			Workers: []scheduler.Worker{{Name: "box", Connected: true, Devices: []string{"cuda:0", "cuda:1"}}},
			Queues:  []scheduler.Queue{{Key: "set", Waiting: []scheduler.Waiting{set}}, {Key: "one", Waiting: []scheduler.Waiting{single}}},
		})
		if got := starts(plan); !slices.Equal(got, []string{"single"}) {
			t.Errorf("%s: starts %v", name, got)
		}
	}
}
