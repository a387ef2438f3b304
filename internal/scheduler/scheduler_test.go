package scheduler_test

import (
	"slices"
	"strings"
	"testing"

	"cdui/internal/run"
	"cdui/internal/scheduler"
)

type planCase struct {
	name  string
	world *world
	want  string // told, joined by "; "
	text  string // of the only reason, where it matters
}

func check(t *testing.T, cases []planCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := scheduler.Decide(c.world.Snapshot)
			if got := strings.Join(told(p), "; "); got != c.want {
				t.Errorf("plan\n  %s, want\n  %s", got, c.want)
			}
			if got := reasonOf(p).Text; c.text != "" && got != c.text {
				t.Errorf("says %q, want %q", got, c.text)
			}
		})
	}
}

// Proves SCHED-01, SCHED-05, SCHED-06, SCHED-07, SCHED-09, E: first in first
// out by key; the earliest head goes first; without room it stays.
func TestHeadsGoInTheOrderOfSubmission(t *testing.T) {
	check(t, []planCase{
		{"a cap fills in order", newWorld("cpu").caps(2, "cpu").wait("a=> cpu", "b=> cpu", "c=> cpu"), "a on cpu; b on cpu; cpu: slot_busy", ""},
		{"accelerators never delay the cpu", newWorld("cpu", "cuda:0").hold("cuda:0", "x").wait("a=> cuda:0", "b=> cpu"), "b on cpu; cuda:0: slot_busy", ""},
		{
			"a long line doesn't starve a short one",
			newWorld("box/cuda:0").caps(3, "box/cuda:0").wait("a=> any/cuda", "b=> any/cuda", "c=> box/cuda:0", "d=> any/cuda"),
			"a on box/cuda:0; b on box/cuda:0; c on box/cuda:0; any/cuda: slot_busy", "",
		},
		{"a device that went away is named", newWorld("cpu").wait("a=> cuda:0"), "cuda:0: no_worker_offers", "waiting for a worker that offers cuda:0"},
		{"holders are named", newWorld("box/cuda:0", "box/cuda:1").hold("box/cuda:0", "x").hold("box/cuda:1", "y").wait("a=> box/cuda"), "box/cuda: slot_busy", "box/cuda is busy with x, y"},
	})
}

// Proves SET-01, SET-02, SET-03, SET-05, SET-06.
func TestSetsTakeAllTheirSlotsAndKeepThemAtTheirTurn(t *testing.T) {
	two := func() *world { return newWorld("box/cuda:0", "box/cuda:1") }
	check(t, []planCase{
		{"all at once", two().wait("s=> box/cuda:0,cuda:1"), "s on box/cuda:0,box/cuda:1", ""},
		{"or none", two().hold("box/cuda:1", "x").wait("s=> box/cuda:0,cuda:1"), "box/cuda:0,cuda:1: set_waiting", "waits for all of its devices: box/cuda:1 busy with x"},
		{
			"traffic on one card can't starve it",
			two().hold("box/cuda:1", "x").wait("s=> box/cuda:0,cuda:1", "a=> box/cuda:0", "b=> any/cuda"),
			"any/cuda: slot_busy; box/cuda:0,cuda:1: set_waiting; box/cuda:0: slot_busy", "",
		},
		{
			"an earlier single run goes first",
			two().wait("a=> box/cuda:0", "s=> box/cuda:0,cuda:1"),
			"a on box/cuda:0; box/cuda:0,cuda:1: set_waiting", "",
		},
		{
			"a set for any keeps nothing",
			two().hold("box/cuda:1", "x").wait("s=> any/cuda:0,cuda:1", "a=> box/cuda:0"),
			"a on box/cuda:0; any/cuda:0,cuda:1: set_waiting", "",
		},
		{
			"a set with a closed card keeps nothing",
			two().close("box/cuda:1", run.ReasonCardUnhealthy, "Xid 79").wait("s=> box/cuda:0,cuda:1", "a=> box/cuda:0"),
			"a on box/cuda:0; box/cuda:0,cuda:1: card_unhealthy", "",
		},
		{"on the server too", newWorld("cuda:0", "cuda:1").hold("cuda:0", "x").wait("s=> cuda:0,cuda:1", "a=> cuda:1"), "cuda:0,cuda:1: set_waiting; cuda:1: slot_busy", ""},
	})
	p := scheduler.Decide(two().hold("box/cuda:1", "x").wait("set=> box/cuda:0,cuda:1", "a=> box/cuda:0").Snapshot)
	if got := p.Reasons["box/cuda:0"].Reason().Text; got != "box/cuda:0 is kept for set, which waits for all of its devices" {
		t.Errorf("a kept slot says %q", got)
	}
}

// Proves TGT-07, TGT-08, TGT-09, TGT-10, TGT-11, RSN-02, RSN-05, DRN-01.
func TestWhichMachineARunGoesTo(t *testing.T) {
	boxes := func() *world { return newWorld("cpu", "cuda:0", "cuda:1", "b/cpu", "b/cuda:0", "b/cuda:1", "c/cuda:0") }
	with := func(name string, do func(m *scheduler.Worker)) *world {
		w := boxes()
		do(w.worker(name))
		return w
	}
	off := func(m *scheduler.Worker) { m.Connected = false }
	drain := func(m *scheduler.Worker) { m.Draining = true }
	lacks := func(m *scheduler.Worker) { m.Incomplete = true }
	check(t, []planCase{
		{"the first free device of the kind", boxes().hold("b/cuda:0", "x").wait("a=> b/cuda"), "a on b/cuda:1", ""},
		{"a set in its own order", boxes().wait("a=> b/cuda:1,cuda:0"), "a on b/cuda:1,b/cuda:0", ""},
		{"a worker that is away", with("b", off).wait("a=> b/cuda"), "b/cuda: worker_offline", "waiting for worker b to reconnect"},
		{"a worker that nobody knows", boxes().wait("a=> d/cuda"), "d/cuda: worker_offline", "waiting for worker d to reconnect"},
		{"a draining worker", with("b", drain).wait("a=> b/cuda"), "b/cuda: worker_draining", "worker b is draining"},
		{"a card that went away", boxes().wait("a=> c/cuda:0,cuda:1"), "c/cuda:0,cuda:1: no_worker_offers", "waiting for a worker that offers cuda:0, cuda:1"},
		{"any: in the order of names", boxes().wait("a=> any/cuda"), "a on b/cuda:0", ""},
		{"any: the next one when the first is full", boxes().hold("b/cuda:0", "x").hold("b/cuda:1", "y").wait("a=> any/cuda"), "a on c/cuda:0", ""},
		{"any: the server last", with("b", drain).wait("a=> any/cpu"), "a on cpu", ""},
		{"any: the server takes cuda:0", boxes().hold("b/cuda:0", "x").hold("b/cuda:1", "x").hold("c/cuda:0", "x").wait("a=> any/cuda", "b=> any/cuda"), "a on cuda:0; any/cuda: slot_busy", ""},
		{"any: and no other card", with("b", drain).wait("a=> any/cuda:1"), "a aside: all_draining", "waiting for a worker that offers cuda:1: b is draining"},
		{"any: nor a set of cards", with("b", drain).wait("a=> any/cuda:0,cuda:1"), "a aside: all_draining", "waiting for a worker that offers cuda:0, cuda:1: b is draining"},
		{"any: types that a worker lacks", with("b", lacks).wait("a=> any/cuda"), "a on c/cuda:0", ""},
		{"any: a program needs none", with("b", lacks).wait("a=> any/cuda program"), "a on b/cuda:0", ""},
		{"any: all lack them", with("b", lacks).wait("a=> any/cuda:1"), "a aside: node_types_missing", ""},
		{"any: nobody offers it", boxes().wait("a=> any/mps"), "a aside: no_worker_offers", "waiting for a worker that offers mps"},
		{"any: only one that is away offers it", with("b", off).wait("a=> any/cuda:1"), "a aside: no_worker_offers", "waiting for a worker that offers cuda:1"},
	})
	w := newWorld("m/mps:0", "n/mps:0")
	w.worker("m").Draining, w.worker("n").Draining = true, true
	check(t, []planCase{{"the kind, then the draining ones", w.wait("a=> any/mps"), "a aside: all_draining", "waiting for a worker that offers mps: m, n are draining"}})
}

// Proves Q-06: a closed card takes nothing, says why, and holds nobody up who
// doesn't need it.
func TestAClosedCardTakesNothingAndSaysWhy(t *testing.T) {
	ill := func() *world {
		return newWorld("box/cuda:0", "box/cuda:1").close("box/cuda:0", run.ReasonCardUnhealthy, "Xid 79")
	}
	check(t, []planCase{
		{"its own run waits", ill().wait("a=> box/cuda:0"), "box/cuda:0: card_unhealthy", "box/cuda:0 is unhealthy: Xid 79"},
		{"the other card's run starts", ill().wait("a=> box/cuda:0", "b=> box/cuda:1"), "b on box/cuda:1; box/cuda:0: card_unhealthy", ""},
		{"a wish takes the healthy one", ill().wait("a=> box/cuda"), "a on box/cuda:1", ""},
		{"a wish waits for the busy one", ill().hold("box/cuda:1", "x").wait("a=> box/cuda"), "box/cuda: slot_busy", ""},
		{"by hand", newWorld("box/cuda:0").close("box/cuda:0", run.ReasonCordoned, "fan").wait("a=> box/cuda:0"), "box/cuda:0: cordoned", "box/cuda:0 is cordoned: fan"},
		{"for other people", newWorld("box/cuda:0").close("box/cuda:0", run.ReasonCardInUse, "alice has 6 GiB").wait("a=> any/cuda"), "any/cuda: card_in_use_by_others", "box/cuda:0 is in use by others: alice has 6 GiB"},
		{
			"any passes it by", newWorld("box/cuda:0", "other/cuda:0").close("box/cuda:0", run.ReasonCordoned, "").wait("a=> any/cuda"),
			"a on other/cuda:0", "",
		},
		{"it is closed for whoever offers it", newWorld("a/cuda:0", "b/cuda:0").one("gpu", "a/cuda:0", "b/cuda:0").close("a/cuda:0", run.ReasonCordoned, "").wait("r=> b/cuda:0"), "b/cuda:0: cordoned", ""},
	})
}

// Proves Q-03: what nothing could take that is there holds nobody up behind it.
func TestWhatCanNeverRunIsSetAside(t *testing.T) {
	away := newWorld("big/cuda:0", "small/cuda:0").shared("big/cuda:0", 80000, 80000).shared("small/cuda:0", 24000, 24000)
	away.worker("big").Connected = false
	check(t, []planCase{
		{"a wish beyond what is connected", away.wait("a=> any/cuda mem=70000", "b=> any/cuda mem=70000", "c=> any/cuda mem=1000"), "c on small/cuda:0; a aside: memory_wait; b aside: memory_wait", ""},
		{"beyond a named worker's cards", newWorld("s/cuda:0").shared("s/cuda:0", 24000, 24000).wait("a=> s/cuda:0 mem=70000", "b=> s/cuda:0 mem=1000"), "b on s/cuda:0; a aside: memory_wait", ""},
		{"a head that is only short of memory blocks", newWorld("s/cuda:0").shared("s/cuda:0", 24000, 24000).hold("s/cuda:0", "x:20000").wait("a=> s/cuda:0 mem=9000", "b=> s/cuda:0 mem=1000"), "s/cuda:0: memory_wait", ""},
		{"files that nobody reaches", newWorld("s/cuda:0").wait("a=> any/cuda storage=mount:data", "b=> any/cuda"), "b on s/cuda:0; a aside: storage_unreachable", "waits for a worker that reaches the run's files (mount:data): s can't"},
	})
}

// Proves ONE-02 and ONE-03 for placing.
func TestOneShotWorkersTakeTheRunsThatAskForThem(t *testing.T) {
	pooled := func(one scheduler.OneShot) *world {
		w := newWorld("s.1/cuda:0", "box/cuda:0")
		w.worker("s.1").OneShot = &one
		return w
	}
	check(t, []planCase{
		{"they take those", pooled(scheduler.OneShot{}).wait("a=> any/cuda pool"), "a on s.1/cuda:0", ""},
		{"and no others", pooled(scheduler.OneShot{}).hold("box/cuda:0", "x").wait("a=> any/cuda"), "any/cuda: slot_busy", ""},
		{"none is connected", newWorld("box/cuda:0").wait("a=> any/cuda pool"), "a aside: one_shot_start", ""},
		{"it has its run", pooled(scheduler.OneShot{Taken: true}).wait("a=> any/cuda pool"), "a aside: one_shot_taken", ""},
		{"it was started for another", pooled(scheduler.OneShot{RunID: "b"}).wait("a=> any/cuda pool", "b=> any/cuda pool"), "b on s.1/cuda:0; a aside: one_shot_run_id", ""},
		{"it has no such device", pooled(scheduler.OneShot{}).wait("a=> any/mps pool"), "a aside: one_shot_pool", ""},
	})
}

// Proves CARD-05, CARD-06, CARD-07, CARD-09, CARD-10, CARD-12.
func TestSlotsOfOneCardCountTogether(t *testing.T) {
	two := func() *world { return newWorld("cuda:0", "box/cuda:0").one("gpu", "cuda:0", "box/cuda:0") }
	agents := func() *world { return newWorld("a/cuda:0", "b/cuda:0").one("gpu", "a/cuda:0", "b/cuda:0") }
	away := agents().caps(3, "a/cuda:0").caps(1, "b/cuda:0")
	away.worker("b").Connected = false
	held := agents().caps(3, "a/cuda:0").caps(1, "b/cuda:0").hold("b/cuda:0", "x")
	held.worker("b").Connected = false
	half := agents().shared("a/cuda:0", 10000, 10000)
	check(t, []planCase{
		{"never both at once", two().wait("a=> cuda:0", "b=> box/cuda:0"), "a on cuda:0; box/cuda:0: slot_busy", "box/cuda:0 is busy with a"},
		{"the other way round", two().hold("box/cuda:0", "x").wait("a=> cuda:0"), "cuda:0: slot_busy", "cuda:0 is busy with x"},
		{"the least limit counts", agents().caps(3, "a/cuda:0").caps(2, "b/cuda:0").wait("a=> a/cuda:0", "b=> a/cuda:0", "c=> a/cuda:0"), "a on a/cuda:0; b on a/cuda:0; a/cuda:0: slot_busy", ""},
		{"but not that of one who is away", away.wait("a=> a/cuda:0", "b=> a/cuda:0"), "a on a/cuda:0; b on a/cuda:0", ""},
		{"unless its run is still there", held.wait("a=> a/cuda:0"), "a/cuda:0: slot_busy", ""},
		{"one ledger", agents().shared("a/cuda:0", 10000, 10000).shared("b/cuda:0", 10000, 10000).hold("a/cuda:0", "x:4000").wait("a=> b/cuda:0 mem=4000", "b=> b/cuda:0 mem=4000"), "a on b/cuda:0; b/cuda:0: memory_wait", ""},
		{"by memory only if all share it", half.hold("a/cuda:0", "x:1000").wait("a=> a/cuda:0 mem=1000"), "a/cuda:0: slot_busy", ""},
		{"the server has no say in that", two().shared("box/cuda:0", 10000, 10000).hold("box/cuda:0", "x:1000").wait("a=> box/cuda:0 mem=1000", "b=> cuda:0"), "a on box/cuda:0; cuda:0: memory_no_budget", ""},
	})
}

// Proves MEM-01, MEM-02, MEM-03, MEM-06, Q-04.
func TestSharedCardsAdmitByMemory(t *testing.T) {
	card := func(free int64) *world { return newWorld("b/cuda:0").shared("b/cuda:0", 10000, free) }
	measured := card(5500).hold("b/cuda:0", "x:4000").card("b/cuda:0", func(c *scheduler.Card) { c.Holders[0].MeasuredMiB = 4400 })
	check(t, []planCase{
		{"several at a time", card(10000).wait("a=> b/cuda:0 mem=4000", "b=> b/cuda:0 mem=4000", "c=> b/cuda:0 mem=4000"), "a on b/cuda:0; b on b/cuda:0; b/cuda:0: memory_wait", "waits for 4.4 GiB on b/cuda:0, 976 MiB can be promised until one of a, b ends"},
		{"the context counts", card(10000).wait("a=> b/cuda:0 mem=9600"), "a aside: memory_wait", "waits for a card with 9.9 GiB; the largest that is there, b/cuda:0, has 9.8 GiB"},
		{"to the last MiB", card(10000).wait("a=> b/cuda:0 mem=9488"), "a on b/cuda:0", ""},
		{"what others use counts", card(3000).wait("a=> b/cuda:0 mem=4000"), "b/cuda:0: memory_wait", "waits for 4.4 GiB on b/cuda:0, 2.9 GiB can be promised: the rest is in use by others"},
		{"what a run uses of its own is not counted twice", measured.wait("a=> b/cuda:0 mem=4800"), "a on b/cuda:0", ""},
		{"without a budget it wants the card empty", card(10000).hold("b/cuda:0", "x:1000").wait("a=> b/cuda:0"), "b/cuda:0: memory_no_budget", "waits for b/cuda:0 to be empty, since it names no --memory: x holds some"},
		{"and closes it", card(10000).wait("a=> b/cuda:0", "b=> b/cuda:0 mem=100"), "a on b/cuda:0; b/cuda:0: memory_wait", ""},
		{"a card that is not shared counts runs", newWorld("b/cuda:0").wait("a=> b/cuda:0 mem=100", "b=> b/cuda:0 mem=100"), "a on b/cuda:0; b/cuda:0: slot_busy", ""},
		{"the card with the most room is named", newWorld("b/cuda:0", "b/cuda:1").shared("b/cuda:0", 10000, 500).shared("b/cuda:1", 10000, 900).wait("a=> b/cuda mem=4000"), "b/cuda: memory_wait", "waits for 4.4 GiB on b/cuda:1, 900 MiB can be promised: the rest is in use by others"},
		{"a set keeps memory", newWorld("b/cuda:0", "b/cuda:1").shared("b/cuda:0", 10000, 10000).hold("b/cuda:1", "x").wait("s=> b/cuda:0,cuda:1 mem=8000", "a=> b/cuda:0 mem=900", "b=> b/cuda:0 mem=900"), "a on b/cuda:0; b/cuda:0,cuda:1: set_waiting; b/cuda:0: memory_wait", ""},
		{"a budget keeps a run from the server", newWorld("cuda:0").wait("a=> any/cuda mem=100"), "a aside: no_worker_offers", ""},
	})
}

// A higher priority goes first inside its key, and only there; a held key waits
// as a whole.
func TestPriorityAndHoldsAreOfAKey(t *testing.T) {
	w := newWorld("cpu", "cuda:0").wait("a=> cpu", "b=> cpu", "c=> cuda:0")
	w.Queues[0].Waiting[1].Priority = 5
	slices.SortFunc(w.Queues[0].Waiting, scheduler.CompareWaiting)
	held := run.Held()
	h := newWorld("cpu", "cuda:0").wait("a=> cpu", "c=> cuda:0")
	h.Queues[0].Held = &held
	check(t, []planCase{
		{"priority", w, "b on cpu; c on cuda:0; cpu: slot_busy", ""},
		{"hold", h, "c on cuda:0; cpu: held", ""},
	})
}

// Proves SCHED-10, E: a limit below one acts as one.
func TestLimits(t *testing.T) {
	l := scheduler.Limits{GPU: 1, CPU: 2, Override: map[string]int{"cuda:0": 3, "box/cuda:0": 4, "cpu": 0}}
	for name, want := range map[string]int{"cuda:0": 3, "cuda:1": 1, "box/cuda:0": 4, "box/cpu": 2, "cpu": 1} {
		if got := l.Cap(slot(name)); got != want {
			t.Errorf("Cap(%s) = %d, want %d", name, got, want)
		}
	}
}

func TestExplainSaysWhatWouldHappen(t *testing.T) {
	w := newWorld("cpu", "cuda:0").hold("cuda:0", "x").wait("a=> cuda:0")
	for _, c := range []struct{ wish, code string }{
		{"cpu", ""}, {"cuda:0", run.ReasonBehind}, {"any/mps", run.ReasonNoDevice}, {"box/cuda", run.ReasonWorkerOffline}, {"any/cuda", run.ReasonSlotBusy},
	} {
		slots, reason := scheduler.Explain(w.Snapshot, c.wish, scheduler.Waiting{RunID: "new", Seq: 99, Ask: ask(c.wish)})
		if starts := slots != nil; starts != (c.code == "") || reason.Code != c.code {
			t.Errorf("%s: starts %v, %+v", c.wish, starts, reason)
		}
	}
}

func TestStandings(t *testing.T) {
	w := newWorld("cuda:0", "box/cuda:0", "box/cuda:1").one("gpu", "cuda:0", "box/cuda:0").caps(3, "box/cuda:0").shared("box/cuda:1", 10000, 9000).hold("cuda:0", "x").hold("box/cuda:1", "y:4000")
	st := scheduler.Standings(w.Snapshot, "box")
	if s := st["cuda:0"]; s.Limit != 1 || s.LimitedBy != scheduler.Local || len(s.Holders) != 1 || !slices.Equal(s.SameCard, []string{"local"}) {
		t.Errorf("%+v", s)
	}
	if s := st["cuda:1"]; !s.Shared || s.PromisedMiB != 4512 || s.RoomMiB != 4488 {
		t.Errorf("%+v", s)
	}
	for key, want := range map[string]int{"cuda:0": 1, "cpu": 0, "box/cuda": 2, "box/cuda:0,cuda:1": 1, "any/cuda": 3} {
		if got := scheduler.KeyCaps(w.Snapshot)(key); got != want {
			t.Errorf("%s has room for %d, want %d", key, got, want)
		}
	}
}
