package scheduler

import (
	"slices"

	"cdui/internal/device"
	"cdui/internal/run"
)

// filter is one condition on the machine that a run goes to.
type filter struct {
	// check tells whether m may take w.
	check func(w *Waiting, m *Worker) bool
	// explain says why w waits, when these machines came no further than here.
	explain func(w *Waiting, machines []string) run.Reason
}

var (
	offers = filter{
		check: func(w *Waiting, m *Worker) bool {
			return m.Devices == nil && !m.Connected || w.Ask.Fits(m.Name, m.Devices)
		},
		explain: func(w *Waiting, _ []string) run.Reason {
			if w.Ask.Pool {
				return run.OneShotPool(w.Ask.wanted())
			}
			return run.NoDevice(w.Ask.wanted())
		},
	}
	// pool keeps one-shot workers for the runs that ask for them, and those for
	// one-shot workers.
	pool = filter{
		check: func(w *Waiting, m *Worker) bool {
			return w.Ask.Pool == (m.OneShot != nil) || m.OneShot != nil && w.Ask.Worker == m.Name
		},
		explain: func(w *Waiting, _ []string) run.Reason {
			if w.Ask.Pool {
				return run.OneShotStart()
			}
			return run.NoDevice(w.Ask.wanted())
		},
	}
	bound = filter{
		check: func(w *Waiting, m *Worker) bool {
			return m.OneShot == nil || m.OneShot.RunID == "" || m.OneShot.RunID == w.RunID
		},
		explain: func(_ *Waiting, machines []string) run.Reason { return run.OneShotRunID(machines) },
	}
	taken = filter{
		check:   func(_ *Waiting, m *Worker) bool { return m.OneShot == nil || !m.OneShot.Taken },
		explain: func(_ *Waiting, machines []string) run.Reason { return run.OneShotTaken(machines) },
	}
	storage = filter{
		check: func(w *Waiting, m *Worker) bool {
			return w.Ask.Storage == "" || m.Name == Local || slices.Contains(m.Storage, w.Ask.Storage)
		},
		explain: func(w *Waiting, machines []string) run.Reason {
			return run.StorageUnreachable(w.Ask.Storage, machines)
		},
	}
	nodeTypes = filter{
		check:   func(w *Waiting, m *Worker) bool { return w.Ask.Program || !m.Incomplete },
		explain: func(_ *Waiting, machines []string) run.Reason { return run.NodeTypesMissing(machines) },
	}
	connected = filter{
		check: func(_ *Waiting, m *Worker) bool { return m.Connected },
		explain: func(w *Waiting, machines []string) run.Reason {
			switch {
			case w.Ask.Worker != Any:
				return run.WorkerOffline(w.Ask.Worker)
			case w.Ask.Pool:
				return run.OneShotStart()
			}
			return run.NoDevice(w.Ask.wanted())
		},
	}
	undrained = filter{
		check: func(_ *Waiting, m *Worker) bool { return !m.Draining },
		explain: func(w *Waiting, machines []string) run.Reason {
			if w.Ask.Worker != Any {
				return run.WorkerDraining(w.Ask.Worker)
			}
			return run.AllDraining(w.Ask.wanted(), machines)
		},
	}
)

// For a run that names its machine, what concerns the machine as a whole comes
// first. For Any, it comes last, so that the machines that could take the run
// are the ones that a reason names. Which node types a named worker lacks is
// asked when the run is submitted.
var (
	namedFilters = []filter{connected, undrained, offers, pool, bound, taken, storage}
	anyFilters   = []filter{pool, offers, storage, nodeTypes, connected, undrained, bound, taken}
)

// sieve gives the machines that pass all filters, by name. If none does, why
// those that came furthest don't.
func (p *pass) sieve(w *Waiting) ([]*Worker, run.Reason) {
	if w.Ask.Worker != Any {
		m := p.machine(w.Ask.Worker)
		if m == nil {
			return nil, run.WorkerOffline(w.Ask.Worker)
		}
		for _, f := range namedFilters {
			if !f.check(w, m) {
				return nil, f.explain(w, []string{m.Name})
			}
		}
		return []*Worker{m}, run.Reason{}
	}
	var through []*Worker
	furthest, stopped := 0, []string(nil)
	for i := range p.workers {
		m := &p.workers[i]
		at := slices.IndexFunc(anyFilters, func(f filter) bool { return !f.check(w, m) })
		switch {
		case at < 0:
			through = append(through, m)
		case at > furthest:
			furthest, stopped = at, []string{m.Name}
		case at == furthest:
			stopped = append(stopped, m.Name)
		}
	}
	if w.Ask.Fits(Local, p.local.Devices) && !w.Ask.Pool {
		through = append(through, &p.local)
	}
	if len(through) > 0 {
		return through, run.Reason{}
	}
	return nil, anyFilters[furthest].explain(w, stopped)
}

// machine finds a machine by name.
func (p *pass) machine(name string) *Worker {
	if name == Local {
		return &p.local
	}
	i, ok := slices.BinarySearchFunc(p.workers, Worker{Name: name}, compareNames)
	if !ok {
		return nil
	}
	return &p.workers[i]
}

// Fits tells whether a machine that offers these devices could ever take what
// is asked for.
func (a *Ask) Fits(machine string, devices []string) bool {
	if len(a.Devices) == 0 {
		return slices.ContainsFunc(devices, func(d string) bool { return device.Kind(d) == a.Kind && a.means(machine, d) })
	}
	for _, d := range a.Devices {
		if !slices.Contains(devices, d) {
			return false
		}
	}
	return a.means(machine, a.Devices...)
}

// means tells whether a set of devices means the same on this machine as where
// else the run may go. A run on the control plane's machine sees all cards under
// their own numbers and has no budget, so that of CUDA only cuda:0 alone does.
func (a *Ask) means(machine string, set ...string) bool {
	return machine != Local || a.Worker == Local ||
		a.BudgetMiB == 0 && (device.Kind(set[0]) != device.CUDA || len(set) == 1 && set[0] == "cuda:0")
}

// choices lists the sets of slots that a machine with these devices could give,
// the preferred ones first: their slots one after the other, and how many make
// up a set.
func (a *Ask) choices(machine string, devices []string) (slots []Slot, width int) {
	switch {
	case !a.Fits(machine, devices):
		return nil, 0
	case len(a.Devices) > 0:
		return SlotsOf(machine, a.Devices), len(a.Devices)
	}
	for _, d := range devices {
		if device.Kind(d) == a.Kind && a.means(machine, d) {
			slots = append(slots, Slot{Worker: machine, Device: d})
		}
	}
	return slots, 1
}
