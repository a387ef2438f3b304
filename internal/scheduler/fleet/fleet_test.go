package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/device"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/scheduler/fleet"
)

func ptr[T any](v T) *T { return &v }

// card writes "cuda:0=GPU-a", "cpu", "mps:0".
func card(text string) device.Device {
	name, uuid, has := strings.Cut(text, "=")
	d := device.Device{Device: name, Kind: device.Kind(name), Index: device.Index(name)}
	if has {
		d.UUID = &uuid
	}
	return d
}

func machine(cards ...string) fleet.Machine {
	m := fleet.Machine{Connected: true}
	for _, c := range cards {
		m.Inventory = append(m.Inventory, card(c))
	}
	return m
}

func slot(worker, d string) scheduler.Slot { return scheduler.Slot{Worker: worker, Device: d} }

// Proves CARD-04, CARD-07, CARD-08, CARD-15, CARD-16: what is one card and what
// is not.
func TestSlotsThatAreOneCard(t *testing.T) {
	on := func(m fleet.Machine, id string, same bool) fleet.Machine {
		m.MachineID, m.SameMachine = id, same
		return m
	}
	for name, c := range map[string]struct {
		machines map[string]fleet.Machine
		of       scheduler.Slot
		same     []string
	}{
		"a worker on the server's machine": {map[string]fleet.Machine{
			"local": machine("cpu", "cuda:0=A", "cuda:1=B"), "w": on(machine("cpu", "cuda:0=B"), "m", true),
		}, slot("w", "cuda:0"), []string{"local"}},
		"its cpu": {map[string]fleet.Machine{
			"local": machine("cpu"), "w": on(machine("cpu"), "m", true),
		}, slot("w", "cpu"), []string{"local"}},
		"a worker that only says it is on that machine": {map[string]fleet.Machine{
			"local": on(machine("cpu"), "m", false), "w": on(machine("cpu"), "m", false),
		}, slot("w", "cpu"), nil},
		"two agents on one machine": {map[string]fleet.Machine{
			"a": on(machine("cpu", "mps:0"), "m", false), "b": on(machine("cpu", "mps:0"), "m", false),
		}, slot("a", "mps:0"), []string{"b"}},
		"two agents that offer one card under two numbers": {map[string]fleet.Machine{
			"a": machine("cuda:0=A"), "b": machine("cuda:0=B", "cuda:1=A"),
		}, slot("b", "cuda:1"), []string{"a"}},
		"cards without a UUID": {map[string]fleet.Machine{
			"a": on(machine("cuda:0"), "m", false), "b": on(machine("cuda:0"), "m", false),
		}, slot("a", "cuda:0"), nil},
		"machines that don't say which they are": {map[string]fleet.Machine{
			"a": machine("cpu"), "b": machine("cpu"),
		}, slot("a", "cpu"), nil},
	} {
		f := fleet.New(scheduler.Limits{GPU: 1, CPU: 2})
		for n, m := range c.machines {
			f.Set(n, m)
		}
		if got := scheduler.Standings(f.Snapshot(), c.of.Worker)[c.of.Device].SameCard; !slices.Equal(got, c.same) {
			t.Errorf("%s: the same card as %v, want %v", name, got, c.same)
		}
	}
}

// Proves CARD-11: the server's limit for a card holds for a worker on its machine.
func TestAWorkerOnTheServersMachineHasTheServersLimit(t *testing.T) {
	limits := scheduler.Limits{GPU: 1, CPU: 2, Override: map[string]int{"cuda:0": 3, "own/cuda:0": 2}}
	f := fleet.New(limits)
	same := machine("cuda:0=A")
	same.SameMachine = true
	f.Set("w", same)
	f.Set("own", same)
	f.Set("far", machine("cuda:0=B"))
	f.Set(scheduler.Local, machine("cuda:0=A"))
	for worker, want := range map[string]int{"w": 3, "own": 2, "far": 1} {
		if got := f.Snapshot().Slots[slot(worker, "cuda:0")].Cap; got != want {
			t.Errorf("%s takes %d, want %d", worker, got, want)
		}
	}
}

// Proves CARD-13: an adopted run counts on its card before its worker is back.
func TestAnAdoptedRunHoldsItsCard(t *testing.T) {
	f := fleet.New(scheduler.Limits{GPU: 1, CPU: 2})
	f.Set("other", machine("cuda:0=A"))
	f.Adopt(slot("gone", "cuda:3"), "A")
	f.Take("r", []scheduler.Slot{slot("gone", "cuda:3")}, 0)
	if st := scheduler.Standings(f.Snapshot(), "other")["cuda:0"]; len(st.Holders) != 1 || st.Holders[0].RunID != "r" {
		t.Fatalf("held by %v", st.Holders)
	}
	f.Set("gone", machine("cuda:3=A"))
	f.Release("r", []scheduler.Slot{slot("gone", "cuda:3")})
	if st := scheduler.Standings(f.Snapshot(), "other")["cuda:0"]; len(st.Holders) != 0 || !slices.Equal(st.SameCard, []string{"gone"}) {
		t.Errorf("after its end: %+v", st)
	}
}

// Proves: what closes a card and what doesn't.
func TestWhatClosesACard(t *testing.T) {
	stranger := card("cuda:0=A")
	stranger.Processes = []device.Process{{PID: 7, User: ptr("alice"), Name: ptr("python"), MemoryMiB: ptr(int64(6144))}, {PID: 8, RunID: ptr("mine")}}
	ill := card("cuda:0=A")
	ill.Health = device.Health{Code: "xid", Text: "Xid 79"}
	for name, c := range map[string]struct {
		d      device.Device
		policy fleet.Policy
		closed scheduler.Closed
	}{
		"nothing":            {card("cuda:0=A"), fleet.Policy{}, scheduler.Closed{}},
		"a cordon":           {card("cuda:0=A"), fleet.Policy{Cordon: true, Why: "fan"}, scheduler.Closed{Code: run.ReasonCordoned, Why: "fan"}},
		"ill health":         {ill, fleet.Policy{}, scheduler.Closed{Code: run.ReasonCardUnhealthy, Why: ill.Health.String()}},
		"others, by default": {stranger, fleet.Policy{}, scheduler.Closed{}},
		"others, refused":    {stranger, fleet.Policy{Strangers: fleet.Refuse}, scheduler.Closed{Code: run.ReasonCardInUse, Why: "alice python (pid 7, 6 GiB)"}},
		"others, respected":  {stranger, fleet.Policy{Shared: true}, scheduler.Closed{}},
	} {
		f := fleet.New(scheduler.Limits{GPU: 1})
		f.SetPolicy(slot("w", "cuda:0"), c.policy)
		f.Set("w", machine("cuda:0=A"))
		f.Take("mine", []scheduler.Slot{slot("w", "cuda:0")}, 0)
		f.Set("w", fleet.Machine{Connected: true, Inventory: device.Inventory{c.d}})
		if got := f.Snapshot().Slots[slot("w", "cuda:0")].Closed; got != c.closed {
			t.Errorf("%s: closed by %+v, want %+v", name, got, c.closed)
		}
	}
}

// Proves MEM-03, Q-04: the ledger knows what runs use of their own, and what
// others use unless it is told to ignore them.
func TestTheLedgerComesFromTheInventory(t *testing.T) {
	d := card("cuda:0=A")
	d.MemoryTotalMiB, d.MemoryFreeMiB = ptr(int64(10000)), ptr(int64(2000))
	d.Processes = []device.Process{{PID: 1, MemoryMiB: ptr(int64(5000))}, {PID: 2, MemoryMiB: ptr(int64(3000)), RunID: ptr("r")}}
	for policy, room := range map[fleet.Strangers]int64{fleet.Respect: 2000 - 512, fleet.Ignore: 10000 - 3000 - 512} {
		f := fleet.New(scheduler.Limits{GPU: 1})
		f.SetPolicy(slot("w", "cuda:0"), fleet.Policy{Shared: true, Strangers: policy})
		f.Set("w", machine("cuda:0=A"))
		f.Take("r", []scheduler.Slot{slot("w", "cuda:0")}, 3000)
		if change := f.Set("w", fleet.Machine{Connected: true, Inventory: device.Inventory{d}}); !change.Capacity || !change.Room {
			t.Errorf("%s: a card that tells its size changes nothing: %+v", policy, change)
		}
		if st := scheduler.Standings(f.Snapshot(), "w")["cuda:0"]; st.RoomMiB != room || st.PromisedMiB != 3512 {
			t.Errorf("%s: %d can be promised, want %d (%d promised)", policy, st.RoomMiB, room, st.PromisedMiB)
		}
		d.MemoryFreeMiB = ptr(int64(1000))
		if change := f.Set("w", fleet.Machine{Connected: true, Inventory: device.Inventory{d}}); change.Capacity || !change.Room {
			t.Errorf("%s: less free memory is told as %+v", policy, change)
		}
		d.MemoryFreeMiB = ptr(int64(2000))
	}
}

// Proves MEM-02: what a CUDA context takes beside a budget is a setting.
func TestTheContextIsASetting(t *testing.T) {
	for limits, want := range map[int64]int64{0: 512, 300: 300} {
		if got := fleet.New(scheduler.Limits{ContextMiB: limits}).Snapshot().ContextMiB; got != want {
			t.Errorf("%d stands for %d MiB, want %d", limits, got, want)
		}
	}
}

// However machines come, change their cards and go, runs keep counting on the
// card where they are, once, and nothing is left when they have ended.
func TestHoldersStayWithTheirSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := fleet.New(scheduler.Limits{GPU: 2, CPU: 2})
		held := map[string][]scheduler.Slot{}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			worker := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "worker")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				var cards []string
				for n := range rapid.IntRange(0, 3).Draw(t, "cards") {
					cards = append(cards, fmt.Sprintf("cuda:%d%s", n, rapid.SampledFrom([]string{"", "=A", "=B", "=C"}).Draw(t, "uuid")))
				}
				f.Set(worker, machine(cards...))
			case 2:
				f.Remove(worker)
			case 3:
				id := fmt.Sprint("r", i)
				held[id] = []scheduler.Slot{slot(worker, fmt.Sprint("cuda:", rapid.IntRange(0, 2).Draw(t, "device")))}
				f.Take(id, held[id], 0)
			case 4:
				for id, slots := range held {
					f.Release(id, slots)
					delete(held, id)
					break
				}
			}
			s := f.Snapshot()
			counted := map[string]int{}
			for id, c := range s.Cards {
				for _, h := range c.Holders {
					counted[h.RunID]++
					if s.CardOf(h.Slot) != id {
						t.Fatalf("%s is on card %s through %v, which is of card %s", h.RunID, id, h.Slot, s.CardOf(h.Slot))
					}
				}
				for _, at := range c.Slots {
					if s.Slots[at].Card != id {
						t.Fatalf("card %s lists %v, which is of %q", id, at, s.Slots[at].Card)
					}
				}
			}
			for id := range held {
				if counted[id] != 1 {
					t.Fatalf("%s counts %d times", id, counted[id])
				}
			}
			if len(counted) != len(held) {
				t.Fatalf("%v count, %v hold", counted, held)
			}
		}
		for id, slots := range held {
			f.Release(id, slots)
		}
		f.Remove("a")
		f.Remove("b")
		if s := f.Snapshot(); len(s.Slots) != 0 || len(s.Cards) != 0 {
			t.Fatalf("left: %v, %v", s.Slots, s.Cards)
		}
	})
}
