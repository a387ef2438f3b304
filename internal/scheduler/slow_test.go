package scheduler_test

import (
	"slices"

	"cdui/internal/device"
	"cdui/internal/run"
	"cdui/internal/scheduler"
)

// slowPlan is what decideSlowly answers.
type slowPlan struct {
	starts []scheduler.Start
}

// decideSlowly says the same as Decide by the plainest means: it offers heads in
// the order of submission and looks at every place anew each time.
func decideSlowly(s scheduler.Snapshot) slowPlan {
	var out slowPlan
	var taken []scheduler.Holder
	type reservation struct {
		slot scheduler.Slot
		mib  int64
	}
	var kept []reservation
	lines := map[string][]scheduler.Waiting{}
	for _, q := range s.Queues {
		lines[q.Key] = q.Waiting
	}
	free := func(w scheduler.Waiting, at scheduler.Slot) bool {
		id := s.CardOf(at)
		c, ok := s.Cards[id]
		if !ok {
			c.Slots = []scheduler.Slot{at}
		}
		holders := slices.Clone(c.Holders)
		for _, h := range taken {
			if s.CardOf(h.Slot) == id {
				holders = append(holders, h)
			}
		}
		sets, promised, bare := 0, int64(0), false
		for _, k := range kept {
			if s.CardOf(k.slot) == id {
				sets++
				promised += k.mib
				bare = bare || k.mib == 0
			}
		}
		if isClosed(s, at.Name()).Code != "" {
			return false
		}
		need := w.Ask.BudgetMiB + scheduler.ContextMiB
		if w.Ask.BudgetMiB > 0 && c.Memory.TotalMiB > 0 && need > c.Memory.TotalMiB {
			return false
		}
		if !shared(s, c) {
			for _, other := range c.Slots {
				holds := slices.ContainsFunc(c.Holders, func(h scheduler.Holder) bool { return h.Slot == other })
				if (other == at || holds || online(s, other.Worker)) && len(holders)+sets >= s.Slots[other].Cap {
					return false
				}
			}
			return true
		}
		if w.Ask.BudgetMiB == 0 {
			return len(holders) == 0 && sets == 0
		}
		a, b := c.Memory.TotalMiB-promised, c.Memory.FreeMiB-promised
		for _, h := range holders {
			if h.BudgetMiB == 0 {
				return false
			}
			a -= h.BudgetMiB + scheduler.ContextMiB
			b -= max(0, h.BudgetMiB+scheduler.ContextMiB-h.MeasuredMiB)
		}
		return !bare && need <= a && need <= b
	}
	for {
		var heads []scheduler.Waiting
		keys := map[string]string{}
		for key, line := range lines {
			if len(line) > 0 {
				heads = append(heads, line[0])
				keys[line[0].RunID] = key
			}
		}
		if len(heads) == 0 {
			return out
		}
		slices.SortFunc(heads, compareSeq)
		w := heads[0]
		key := keys[w.RunID]
		sets := candidates(s, w)
		i := slices.IndexFunc(sets, func(set []scheduler.Slot) bool {
			return !slices.ContainsFunc(set, func(at scheduler.Slot) bool { return !free(w, at) })
		})
		if i >= 0 {
			for _, at := range sets[i] {
				taken = append(taken, scheduler.Holder{RunID: w.RunID, Slot: at, BudgetMiB: w.Ask.BudgetMiB})
			}
			out.starts = append(out.starts, scheduler.Start{RunID: w.RunID, Slots: sets[i]})
			lines[key] = lines[key][1:]
			continue
		}
		// A set that only waits for others keeps its slots. What nothing that is
		// there could take lets those behind it go.
		var open [][]scheduler.Slot
		waits := false
		for _, set := range sets {
			closed, inUse, small := false, false, false
			for _, at := range set {
				code := isClosed(s, at.Name()).Code
				inUse = inUse || code == run.ReasonCardInUse
				closed = closed || code != "" && code != run.ReasonCardInUse
				total := s.Cards[s.CardOf(at)].Memory.TotalMiB
				small = small || w.Ask.BudgetMiB > 0 && total > 0 && w.Ask.BudgetMiB+scheduler.ContextMiB > total
			}
			if !closed && !small {
				waits = true
				if !inUse {
					open = append(open, set)
				}
			}
		}
		if len(open) > 0 && len(open[0]) > 1 && w.Ask.Worker != scheduler.Any {
			for _, at := range open[0] {
				k := reservation{slot: at}
				if w.Ask.BudgetMiB > 0 {
					k.mib = w.Ask.BudgetMiB + scheduler.ContextMiB
				}
				kept = append(kept, k)
			}
		}
		hopeless := slices.ContainsFunc(sets, func(set []scheduler.Slot) bool {
			return slices.ContainsFunc(set, func(at scheduler.Slot) bool {
				total := s.Cards[s.CardOf(at)].Memory.TotalMiB
				return w.Ask.BudgetMiB > 0 && total > 0 && w.Ask.BudgetMiB+scheduler.ContextMiB > total
			})
		})
		if !waits && (w.Ask.Worker == scheduler.Any || hopeless) {
			lines[key] = lines[key][1:]
			continue
		}
		lines[key] = nil
	}
}

// candidates are the sets of slots of machines that take runs such as w now.
func candidates(s scheduler.Snapshot, w scheduler.Waiting) [][]scheduler.Slot {
	var out [][]scheduler.Slot
	workers := slices.Clone(s.Workers)
	slices.SortFunc(workers, func(a, b scheduler.Worker) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	server := scheduler.Worker{Name: scheduler.Local, Connected: true, Storage: []string{w.Ask.Storage}}
	for at := range s.Slots {
		if at.Worker == scheduler.Local {
			server.Devices = append(server.Devices, at.Device)
		}
	}
	slices.Sort(server.Devices)
	for _, m := range append(workers, server) {
		named := w.Ask.Worker == m.Name
		switch {
		case !named && w.Ask.Worker != scheduler.Any, !m.Connected, m.Draining,
			w.Ask.Pool && m.OneShot == nil, !w.Ask.Pool && m.OneShot != nil && !named,
			m.OneShot != nil && (m.OneShot.Taken || m.OneShot.RunID != "" && m.OneShot.RunID != w.RunID),
			w.Ask.Storage != "" && !slices.Contains(m.Storage, w.Ask.Storage),
			!named && m.Incomplete && !w.Ask.Program:
			continue
		}
		server := m.Name == scheduler.Local && !named
		if w.Ask.Kind != "" {
			for _, d := range m.Devices {
				if device.Kind(d) == w.Ask.Kind && !(server && (w.Ask.BudgetMiB > 0 || w.Ask.Kind == device.CUDA && d != "cuda:0")) {
					out = append(out, []scheduler.Slot{{Worker: m.Name, Device: d}})
				}
			}
			continue
		}
		if slices.ContainsFunc(w.Ask.Devices, func(d string) bool { return !slices.Contains(m.Devices, d) }) ||
			server && (w.Ask.BudgetMiB > 0 || device.Kind(w.Ask.Devices[0]) == device.CUDA && !slices.Equal(w.Ask.Devices, []string{"cuda:0"})) {
			continue
		}
		out = append(out, scheduler.SlotsOf(m.Name, w.Ask.Devices))
	}
	return out
}

func online(s scheduler.Snapshot, machine string) bool {
	return machine == scheduler.Local || slices.ContainsFunc(s.Workers, func(w scheduler.Worker) bool { return w.Name == machine && w.Connected })
}

// shared: all workers that are there and offer the card share it.
func shared(s scheduler.Snapshot, c scheduler.Card) bool {
	n := 0
	for _, at := range c.Slots {
		if at.Worker == scheduler.Local || len(c.Slots) > 1 && !online(s, at.Worker) {
			continue
		}
		if !s.Slots[at].Shared {
			return false
		}
		n++
	}
	return n > 0 && c.Memory.TotalMiB > 0
}

func isClosed(s scheduler.Snapshot, name string) scheduler.Closed {
	at := slot(name)
	c, ok := s.Cards[s.CardOf(at)]
	if !ok {
		c.Slots = []scheduler.Slot{at}
	}
	for _, other := range c.Slots {
		if st := s.Slots[other].Closed; st.Code == run.ReasonCordoned || st.Code != "" && online(s, other.Worker) {
			return st
		}
	}
	return scheduler.Closed{}
}
