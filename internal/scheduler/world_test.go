package scheduler_test

import (
	"fmt"
	"slices"
	"strings"

	"cdui/internal/run"
	"cdui/internal/scheduler"
)

// world is a snapshot as tests write it down.
type world struct {
	scheduler.Snapshot
}

func slot(name string) scheduler.Slot {
	worker, device, named := strings.Cut(name, "/")
	if !named {
		return scheduler.Slot{Worker: scheduler.Local, Device: name}
	}
	return scheduler.Slot{Worker: worker, Device: device}
}

func slots(names ...string) []scheduler.Slot {
	var out []scheduler.Slot
	for _, n := range names {
		out = append(out, slot(n))
	}
	return out
}

// newWorld has a slot of one place for each name, and connected workers that
// offer them.
func newWorld(names ...string) *world {
	w := &world{scheduler.Snapshot{Slots: map[scheduler.Slot]scheduler.SlotState{}, Cards: map[string]scheduler.Card{}}}
	for _, n := range names {
		s := slot(n)
		w.Slots[s] = scheduler.SlotState{Cap: 1}
		if s.Worker == scheduler.Local {
			continue
		}
		m := w.worker(s.Worker)
		m.Devices = append(m.Devices, s.Device)
	}
	return w
}

func (w *world) worker(name string) *scheduler.Worker {
	for i := range w.Workers {
		if w.Workers[i].Name == name {
			return &w.Workers[i]
		}
	}
	w.Workers = append(w.Workers, scheduler.Worker{Name: name, Connected: true})
	return &w.Workers[len(w.Workers)-1]
}

func (w *world) change(name string, do func(s *scheduler.SlotState)) *world {
	state := w.Slots[slot(name)]
	do(&state)
	w.Slots[slot(name)] = state
	return w
}

func (w *world) caps(n int, names ...string) *world {
	for _, name := range names {
		w.change(name, func(s *scheduler.SlotState) { s.Cap = n })
	}
	return w
}

func (w *world) close(name, code, why string) *world {
	return w.change(name, func(s *scheduler.SlotState) { s.Closed = scheduler.Closed{Code: code, Why: why} })
}

func (w *world) card(id string, do func(c *scheduler.Card)) *world {
	c := w.Cards[id]
	do(&c)
	w.Cards[id] = c
	return w
}

// one makes one card of several slots.
func (w *world) one(id string, names ...string) *world {
	for _, name := range names {
		w.change(name, func(s *scheduler.SlotState) { s.Card = id })
	}
	return w.card(id, func(c *scheduler.Card) {
		c.Slots = slots(names...)
		slices.SortFunc(c.Slots, scheduler.CompareSlots)
	})
}

// shared makes a slot one that admits by memory.
func (w *world) shared(name string, total, unused int64) *world {
	w.change(name, func(s *scheduler.SlotState) { s.Shared = true })
	return w.card(w.CardOf(slot(name)), func(c *scheduler.Card) {
		if c.Slots == nil {
			c.Slots = slots(name)
		}
		c.Memory = scheduler.Memory{TotalMiB: total, FreeMiB: unused, FreeKnown: true}
	})
}

// hold puts runs onto a slot; a budget stands behind a colon: "x:1000".
func (w *world) hold(name string, ids ...string) *world {
	return w.card(w.CardOf(slot(name)), func(c *scheduler.Card) {
		if c.Slots == nil {
			c.Slots = slots(name)
		}
		for _, id := range ids {
			h := scheduler.Holder{Slot: slot(name)}
			h.RunID, _, _ = strings.Cut(id, ":")
			if _, budget, ok := strings.Cut(id, ":"); ok {
				_, _ = fmt.Sscan(budget, &h.BudgetMiB)
			}
			c.Holders = append(c.Holders, h)
		}
	})
}

// ask reads "box/cuda:0,cuda:1", "any/cuda", "cuda:0", and behind a space
// "mem=1000", "program", "pool", "storage=x".
func ask(text string) *scheduler.Ask {
	fields := strings.Fields(text)
	worker, devices, named := strings.Cut(fields[0], "/")
	if !named {
		worker, devices = scheduler.Local, fields[0]
	}
	a := &scheduler.Ask{Worker: worker}
	if strings.Contains(devices, ":") || devices == "cpu" {
		a.Devices = strings.Split(devices, ",")
	} else {
		a.Kind = devices
	}
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		switch name {
		case "mem":
			_, _ = fmt.Sscan(value, &a.BudgetMiB)
		case "program":
			a.Program = true
		case "pool":
			a.Pool = true
		case "storage":
			a.Storage = value
		}
	}
	return a
}

// wait puts runs into line: the key is the ask's first word, the id what stands
// before the colon-equals.
func (w *world) wait(runs ...string) *world {
	for _, text := range runs {
		id, wish, _ := strings.Cut(text, "=> ")
		key := strings.Fields(wish)[0]
		i := slices.IndexFunc(w.Queues, func(q scheduler.Queue) bool { return q.Key == key })
		if i < 0 {
			w.Queues = append(w.Queues, scheduler.Queue{Key: key})
			i = len(w.Queues) - 1
		}
		seq := int64(1)
		for _, q := range w.Queues {
			seq += int64(len(q.Waiting))
		}
		w.Queues[i].Waiting = append(w.Queues[i].Waiting, scheduler.Waiting{RunID: strings.TrimSpace(id), Seq: seq, Ask: ask(wish)})
	}
	return w
}

// told is a plan as tests write it down: "a on box/cuda:0", "k: code", "b
// aside: code".
func told(p scheduler.Plan) []string {
	out := []string{}
	for _, s := range p.Starts {
		var on []string
		for _, sl := range s.Slots {
			on = append(on, sl.Name())
		}
		out = append(out, s.RunID+" on "+strings.Join(on, ","))
	}
	var why []string
	for key, r := range p.Reasons {
		why = append(why, key+": "+r.Reason().Code)
	}
	for id, r := range p.Aside {
		why = append(why, id+" aside: "+r.Code)
	}
	slices.Sort(why)
	return append(out, why...)
}

func reasonOf(p scheduler.Plan) run.Reason {
	for _, r := range p.Reasons {
		return r.Reason()
	}
	for _, r := range p.Aside {
		return r
	}
	return run.Reason{}
}
