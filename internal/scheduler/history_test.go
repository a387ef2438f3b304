package scheduler_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cdui/internal/run"
	"cdui/internal/scheduler"
)

// histories is how many random histories are gone through; CDUI_HISTORIES asks
// for more.
func histories() int {
	if n, err := strconv.Atoi(os.Getenv("CDUI_HISTORIES")); err == nil {
		return n
	}
	return 1000
}

// TestRandomHistories submits, ends, connects, drains, cordons and fills cards
// at random. At each step it holds the plan against a slow one that looks at
// every place anew: no card over its limit or its memory, no head waits beside
// a place that it may have, sets are neither starved nor deadlocked, every
// reason is true, and a plan made from the same facts told in another order is
// the same.
// Proves, SCHED-05, SCHED-07, SCHED-09, SET-02, SET-04,
// CARD-05, CARD-09, MEM-03, ROLE-18.
func TestRandomHistories(t *testing.T) {
	for seed := range histories() {
		h := newHistory(uint64(seed)) //nolint:gosec // a loop counter
		for step := range 25 {
			h.step()
			if fault := h.plan(); fault != "" {
				t.Fatalf("history %d, step %d: %s\n%s", seed, step, fault, h)
			}
		}
		if fault := h.drainAll(); fault != "" {
			t.Fatalf("history %d at its end: %s\n%s", seed, fault, h)
		}
	}
}

type history struct {
	*rand.Rand
	*world
	seq  int64
	held map[string][]scheduler.Slot
	asks map[string]*scheduler.Ask
	last scheduler.Plan
}

var wishes = []string{
	"cpu", "cuda:0", "cuda:1", "cuda:0,cuda:1", "a/cuda", "a/cuda:0", "a/cuda:0,cuda:1", "a/cuda mem=3000", "a/cuda mem=9000",
	"b/cuda:0", "b/cpu", "b/cuda mem=6000", "b/cuda:0,cuda:1 mem=2000", "any/cuda", "any/cuda mem=5000", "any/cuda mem=30000", "any/cpu program",
	"any/cuda:0,cuda:1", "any/cuda storage=data", "any/cuda pool", "c/cuda",
}

func newHistory(seed uint64) *history {
	h := &history{
		Rand: rand.New(rand.NewPCG(seed, 1)), held: map[string][]scheduler.Slot{}, asks: map[string]*scheduler.Ask{}, //nolint:gosec // repeatable on purpose
		world: newWorld("cpu", "cuda:0", "cuda:1", "a/cpu", "a/cuda:0", "a/cuda:1", "b/cpu", "b/cuda:0", "b/cuda:1", "c/cuda:0"),
	}
	for name := range h.Slots {
		h.caps(1+h.IntN(2), name.Name())
	}
	switch h.IntN(4) {
	case 0: // a worker on the server's machine
		h.one("cpu", "cpu", "a/cpu").one("g0", "cuda:0", "a/cuda:0").one("g1", "cuda:1", "a/cuda:1")
	case 1: // two agents on one machine, their cards in another order
		h.one("cpus", "a/cpu", "b/cpu").one("g0", "a/cuda:0", "b/cuda:1").one("g1", "a/cuda:1", "b/cuda:0")
	}
	for _, name := range []string{"a/cuda:0", "a/cuda:1", "b/cuda:0", "b/cuda:1"} {
		if h.IntN(2) == 0 {
			h.shared(name, 10000, 10000)
		}
	}
	if h.IntN(3) == 0 {
		h.worker("c").OneShot = &scheduler.OneShot{}
	}
	h.worker("b").Storage = []string{"data"}
	return h
}

func (h *history) String() string {
	return fmt.Sprintf("workers %+v\nslots %+v\ncards %+v\nqueues %+v\nplan %v", h.Workers, h.Slots, h.Cards, h.Queues, told(h.last))
}

// step changes the world in one way.
func (h *history) step() {
	w := &h.Workers[h.IntN(len(h.Workers))]
	switch h.IntN(10) {
	case 0:
		w.Connected = !w.Connected
	case 1:
		w.Draining = !w.Draining
	case 2:
		w.Incomplete = !w.Incomplete
	case 3:
		s := slices.SortedFunc(mapKeys(h.Slots), scheduler.CompareSlots)[h.IntN(len(h.Slots))]
		why := []scheduler.Closed{{}, {}, {Code: run.ReasonCordoned}, {Code: run.ReasonCardUnhealthy, Why: "x"}, {Code: run.ReasonCardInUse, Why: "y"}}
		h.change(s.Name(), func(st *scheduler.SlotState) { st.Closed = why[h.IntN(len(why))] })
	case 4:
		for _, id := range slices.Sorted(mapKeys(h.Cards)) {
			h.card(id, func(c *scheduler.Card) { c.Memory.FreeMiB = h.Int64N(c.Memory.TotalMiB + 1) })
		}
	case 5, 6:
		if len(h.held) > 0 {
			h.end(slices.Sorted(mapKeys(h.held))[h.IntN(len(h.held))])
		}
	default:
		for range 1 + h.IntN(4) {
			h.submit(wishes[h.IntN(len(wishes))])
		}
	}
}

func (h *history) submit(wish string) {
	h.seq++
	id, key := fmt.Sprint("r", h.seq), strings.Fields(wish)[0]
	h.asks[id] = ask(wish)
	i := slices.IndexFunc(h.Queues, func(q scheduler.Queue) bool { return q.Key == key })
	if i < 0 {
		h.Queues = append(h.Queues, scheduler.Queue{Key: key})
		i = len(h.Queues) - 1
	}
	h.Queues[i].Waiting = append(h.Queues[i].Waiting, scheduler.Waiting{RunID: id, Seq: h.seq, Ask: h.asks[id]})
}

func (h *history) end(id string) {
	for _, s := range h.held[id] {
		h.card(h.CardOf(s), func(c *scheduler.Card) {
			c.Holders = slices.DeleteFunc(slices.Clone(c.Holders), func(x scheduler.Holder) bool { return x.RunID == id })
		})
	}
	delete(h.held, id)
}

// plan decides, checks and carries out.
func (h *history) plan() string {
	h.last = scheduler.Decide(h.Snapshot)
	slow := decideSlowly(h.Snapshot)
	if !reflect.DeepEqual(h.last.Starts, slow.starts) {
		return fmt.Sprintf("starts %v, a look at every place starts %v", h.last.Starts, slow.starts)
	}
	shuffled := h.Snapshot
	shuffled.Queues, shuffled.Workers = slices.Clone(h.Queues), slices.Clone(h.Workers)
	h.Shuffle(len(shuffled.Queues), func(i, j int) {
		shuffled.Queues[i], shuffled.Queues[j] = shuffled.Queues[j], shuffled.Queues[i]
	})
	slices.Reverse(shuffled.Workers)
	if again := scheduler.Decide(shuffled); !reflect.DeepEqual(again, h.last) {
		return fmt.Sprintf("told in another order: %v", told(again))
	}
	for _, start := range h.last.Starts {
		h.held[start.RunID] = start.Slots
		for _, s := range start.Slots {
			h.card(h.CardOf(s), func(c *scheduler.Card) {
				if c.Slots == nil {
					c.Slots = []scheduler.Slot{s}
				}
				c.Holders = append(c.Holders, scheduler.Holder{RunID: start.RunID, Slot: s, BudgetMiB: h.asks[start.RunID].BudgetMiB})
			})
		}
		for i := range h.Queues {
			h.Queues[i].Waiting = slices.DeleteFunc(slices.Clone(h.Queues[i].Waiting), func(w scheduler.Waiting) bool { return w.RunID == start.RunID })
		}
	}
	if fault := h.overfull(); fault != "" {
		return fault
	}
	if broken := scheduler.Broken(h.Snapshot, h.last.Starts); broken != "" {
		return "a debug build would say: " + broken
	}
	for _, q := range h.Queues {
		head := true
		for _, w := range q.Waiting {
			reason, aside := h.last.Aside[w.RunID]
			switch {
			case aside:
			case head:
				reason, head = h.last.Reasons[q.Key].Reason(), false
			default:
				continue
			}
			if fault := h.falseReason(w, reason, aside); fault != "" {
				return fmt.Sprintf("%s on %s says %+v: %s", w.RunID, q.Key, reason, fault)
			}
		}
	}
	return ""
}

// overfull looks for a card on which the last plan put more than it takes.
func (h *history) overfull() string {
	fresh := map[string]bool{}
	for _, start := range h.last.Starts {
		for _, s := range start.Slots {
			fresh[h.CardOf(s)] = true
		}
	}
	for id, c := range h.Cards {
		if !fresh[id] {
			continue
		}
		if shared(h.Snapshot, c) {
			sum, bare := int64(0), 0
			for _, x := range c.Holders {
				if x.BudgetMiB == 0 {
					bare++
				}
				sum += x.BudgetMiB + scheduler.ContextMiB
			}
			if bare > 0 && len(c.Holders) > 1 || bare == 0 && sum > c.Memory.TotalMiB {
				return fmt.Sprintf("%s promises %d MiB to %v", id, sum, c.Holders)
			}
			continue
		}
		for _, s := range c.Slots {
			if n := h.Slots[s].Cap; online(h.Snapshot, s.Worker) && len(c.Holders) > n {
				return fmt.Sprintf("%s holds %v, %s takes %d", id, c.Holders, s.Name(), n)
			}
		}
	}
	return ""
}

// falseReason holds a reason against the world after the plan.
func (h *history) falseReason(w scheduler.Waiting, r run.Reason, aside bool) string {
	any := w.Ask.Worker == scheduler.Any
	var m scheduler.Worker
	if i := slices.IndexFunc(h.Workers, func(x scheduler.Worker) bool { return x.Name == w.Ask.Worker }); i >= 0 {
		m = h.Workers[i]
	}
	if any && !aside && (r.Code != run.ReasonSlotBusy && r.Code != run.ReasonSetWait && r.Code != run.ReasonMemoryWait && r.Code != run.ReasonMemoryNoBudget && r.Code != run.ReasonCardInUse) {
		return "it blocks others though no machine that is there could take it"
	}
	if aside {
		for _, s := range h.candidates(w) {
			if p := h.prospect(w, s); p {
				return fmt.Sprintf("it is set aside though %v could take it", s)
			}
		}
	}
	switch r.Code {
	case "":
		return "there is none"
	case run.ReasonWorkerOffline:
		return unless(!m.Connected)
	case run.ReasonWorkerDraining:
		return unless(m.Connected && m.Draining)
	case run.ReasonCordoned, run.ReasonCardUnhealthy, run.ReasonCardInUse:
		d, _ := r.Params["device"].(string)
		return unless(isClosed(h.Snapshot, d).Code == r.Code)
	case run.ReasonMemoryNoBudget:
		return unless(w.Ask.BudgetMiB == 0)
	case run.ReasonNoDevice:
		if any {
			for _, s := range h.candidates(w) {
				return fmt.Sprintf("%v offers it", s)
			}
		}
	case run.ReasonSlotBusy, run.ReasonSetWait:
		ids, _ := r.Params["runs"].([]string)
		kept, _ := r.Params["kept_for"].(string)
		if len(ids) == 0 && kept == "" {
			return "it names nobody"
		}
		for _, id := range ids {
			if h.held[id] == nil {
				return id + " holds nothing"
			}
		}
	}
	return ""
}

func unless(ok bool) string {
	if ok {
		return ""
	}
	return "that is not so"
}

// candidates are the sets of slots of machines that would take w.
func (h *history) candidates(w scheduler.Waiting) [][]scheduler.Slot {
	return candidates(h.Snapshot, w)
}

// prospect tells whether time alone could free set for w.
func (h *history) prospect(w scheduler.Waiting, set []scheduler.Slot) bool {
	for _, s := range set {
		c := h.Cards[h.CardOf(s)]
		code := isClosed(h.Snapshot, s.Name()).Code
		if code != "" && code != run.ReasonCardInUse {
			return false
		}
		if w.Ask.BudgetMiB > 0 && c.Memory.TotalMiB > 0 && w.Ask.BudgetMiB+scheduler.ContextMiB > c.Memory.TotalMiB {
			return false
		}
	}
	return true
}

// drainAll opens everything and lets all runs end, one plan after the other:
// what can run must have run then.
func (h *history) drainAll() string {
	for i := range h.Workers {
		w := &h.Workers[i]
		w.Connected, w.Draining, w.Incomplete = true, false, false
	}
	for s := range h.Slots {
		h.change(s.Name(), func(st *scheduler.SlotState) { st.Closed = scheduler.Closed{} })
	}
	for id := range h.Cards {
		h.card(id, func(c *scheduler.Card) { c.Memory.FreeMiB = c.Memory.TotalMiB })
	}
	for range 500 {
		if fault := h.plan(); fault != "" {
			return fault
		}
		if len(h.held) == 0 {
			for _, q := range h.Queues {
				for _, w := range q.Waiting {
					if _, aside := h.last.Aside[w.RunID]; !aside && online(h.Snapshot, w.Ask.Worker) {
						return w.RunID + " waits though everything is idle: " + fmt.Sprint(h.last.Reasons[q.Key].Reason())
					}
				}
			}
			return ""
		}
		h.end(slices.Sorted(mapKeys(h.held))[h.IntN(len(h.held))])
	}
	return "it never ends"
}

func mapKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func compareSeq(a, b scheduler.Waiting) int { return cmp.Compare(a.Seq, b.Seq) }
