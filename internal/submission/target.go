package submission

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/graph"
	"cdui/internal/run"
	"cdui/internal/scheduler"
)

// Machines are the places where a run could execute.
type Machines struct {
	// Local is the control plane's own inventory.
	Local device.Inventory
	// ContextMiB is what a CUDA context takes beside a run's budget.
	ContextMiB int64
	// Pools: one-shot workers are started when runs wait for them.
	Pools bool
	// Workers are all that are enrolled or have been connected, by name.
	Workers map[string]Worker
}

// Worker is what a submission needs to know of a worker.
type Worker struct {
	// Devices are those that it last reported, nil when it never did.
	Devices []string
	// TotalMiB is the memory of its cards, as far as it is known.
	TotalMiB map[string]int64
	// Types are the node types that it knows, nil when it told none.
	// Incomplete: they lack some that the server has, or are unknown.
	Types      map[string]string
	Incomplete bool
	// RecordsOutputs: it keeps and serves what a run records.
	RecordsOutputs bool
}

// AskOf gives the place that a run asks for. Of a run for this machine that is
// devices, which were resolved when it was submitted.
func AskOf(o run.Options, devices []string, program graph.Program) *scheduler.Ask {
	t := o.Target
	if t.Local() {
		return &scheduler.Ask{Worker: scheduler.Local, Devices: devices, Program: true}
	}
	ask := &scheduler.Ask{
		Worker: t.Worker, Program: program.Script != nil || program.Command != nil,
		BudgetMiB: t.BudgetMiB(), Raised: t.Raised, Pool: t.Pool != "",
	}
	switch concrete := o.Device == device.CPU || strings.Contains(o.Device, ":"); {
	case len(t.Devices) > 0:
		ask.Devices = t.Devices
	case concrete:
		ask.Devices = []string{o.Device}
	default:
		ask.Kind = o.Device
	}
	return ask
}

// key is the queue of runs that ask for the same place.
func key(ask *scheduler.Ask) string {
	wanted := ask.Kind
	if len(ask.Devices) > 0 {
		wanted = strings.Join(ask.Devices, ",")
	}
	if ask.Worker == scheduler.Local {
		return wanted
	}
	return ask.Worker + "/" + wanted
}

// target checks a run that may execute on a worker, or refuses what could
// never start.
func (c *Checked) target(m Machines) error {
	o := &c.Row.Options
	if o.Lane == Interactive {
		return api.Errorf(api.Invalid, "the interactive lane is on the control plane's machine alone; leave the lane out, or the worker")
	}
	worker, known := m.Workers[o.Target.Worker]
	if o.Target.Worker != scheduler.Any && !known {
		return noWorker(m, o.Target.Worker)
	}
	if len(o.Target.Devices) > 0 {
		o.Device = o.Target.Devices[0]
	}
	if err := c.best(m); err != nil {
		return err
	}
	ask := AskOf(*o, nil, c.Program)
	switch {
	case ask.Pool && o.RecordOutputs:
		return api.Errorf(api.Invalid, "one-shot workers are gone when their run has ended, and what it recorded with them; leave record_outputs out, or the pool")
	case ask.Pool && !m.Pools:
		return api.Errorf(api.Invalid, "this control plane starts no one-shot workers; leave the pool out")
	case ask.Pool:
		// Its workers are started when there are runs for them.
	case o.Target.Worker == scheduler.Any:
		if !m.offer(*ask) {
			return api.Errorf(api.Invalid, "no machine that this control plane knows offers %s to a run for any worker; it offers %s",
				strings.TrimPrefix(key(ask), "any/"), strings.Join(m.all(), ", ")).With("offers", m.all())
		}
	case worker.Devices != nil:
		if !ask.Fits(o.Target.Worker, worker.Devices) {
			return api.Errorf(api.Invalid, "worker %s has no %s; it offers %s", o.Target.Worker,
				strings.TrimPrefix(key(ask), o.Target.Worker+"/"), strings.Join(worker.Devices, ", ")).
				With("worker", o.Target.Worker).With("offers", worker.Devices)
		}
		if o.RecordOutputs && !worker.RecordsOutputs {
			return api.Errorf(api.Invalid, "worker %s can't record outputs; leave record_outputs out, or take another worker", o.Target.Worker).
				With("worker", o.Target.Worker)
		}
	}
	if need := m.tooLarge(*ask); need != "" {
		return api.Errorf(api.Invalid, "target.memory_gib: no card that is known could ever hold it: %s", need).With("memory_gib", o.Target.MemoryGiB)
	}
	c.Row.QueueKey, c.Row.Devices = key(ask), append([]string{}, ask.Devices...)
	return nil
}

// best turns the device auto into the best kind that is offered.
func (c *Checked) best(m Machines) error {
	o := &c.Row.Options
	if o.Device == "" {
		o.Device = device.CPU
	}
	if o.Device != "auto" {
		return nil
	}
	if w, named := m.Workers[o.Target.Worker]; named && w.Devices == nil {
		return api.Errorf(api.Invalid, "worker %s has not told its devices yet; name one in place of auto", o.Target.Worker)
	}
	o.Device = device.CPU
	for _, kind := range []string{device.CUDA, device.MPS} {
		if m.offer(scheduler.Ask{Worker: o.Target.Worker, Kind: kind}) {
			o.Device = kind
			break
		}
	}
	return nil
}

// tooLarge says how a budget is more than every card has that the run could go
// to; "" where one may be large enough.
func (m Machines) tooLarge(ask scheduler.Ask) string {
	if ask.BudgetMiB == 0 || ask.Pool {
		return ""
	}
	need, most, where := ask.BudgetMiB+m.ContextMiB, int64(0), ""
	for _, name := range slices.Sorted(maps.Keys(m.Workers)) {
		w := m.Workers[name]
		if ask.Worker != scheduler.Any && ask.Worker != name {
			continue
		}
		if w.Devices == nil {
			return ""
		}
		for _, d := range w.Devices {
			wanted := slices.Contains(ask.Devices, d) || len(ask.Devices) == 0 && device.Kind(d) == ask.Kind
			switch total := w.TotalMiB[d]; {
			case !wanted:
			case total == 0 || total >= need:
				return ""
			case total > most:
				most, where = total, name+"/"+d
			}
		}
	}
	if where == "" {
		return ""
	}
	return fmt.Sprintf("it asks for %s with what CUDA itself takes, and the largest, %s, has %s", run.MiB(need), where, run.MiB(most))
}

// offer tells whether a machine that is known could give what ask asks for.
func (m Machines) offer(ask scheduler.Ask) bool {
	if ask.Worker == scheduler.Any && ask.Fits(scheduler.Local, m.Local.Names()) {
		return true
	}
	for name, w := range m.Workers {
		if (ask.Worker == scheduler.Any || ask.Worker == name) && ask.Fits(name, w.Devices) {
			return true
		}
	}
	return false
}

// all lists the devices of all machines.
func (m Machines) all() []string {
	out := m.Local.Names()
	for _, name := range slices.Sorted(maps.Keys(m.Workers)) {
		for _, d := range m.Workers[name].Devices {
			out = append(out, name+"/"+d)
		}
	}
	return out
}

func noWorker(m Machines, name string) error {
	if len(m.Workers) == 0 {
		return api.Errorf(api.Invalid, "no worker %q: no workers are enrolled. Leave --worker out to run on this machine", name).With("worker", name)
	}
	known := slices.Sorted(maps.Keys(m.Workers))
	return api.Errorf(api.Invalid, "no worker %q; there are %s", name, strings.Join(known, ", ")).With("worker", name).With("workers", known)
}

// types refuses a graph for a named worker that lacks node types of it. What
// is wrong with the graph itself shows when it starts.
func (c *Checked) types(m Machines, raw json.RawMessage, cat *catalog.Catalog) error {
	t := c.Row.Options.Target
	if t.Local() || t.Worker == scheduler.Any {
		return nil
	}
	worker := m.Workers[t.Worker]
	if !worker.Incomplete || worker.Types == nil {
		return nil
	}
	prepared, findings := graph.Prepare(raw, cat)
	if len(findings) > 0 {
		return nil
	}
	var missing []string
	for _, name := range prepared.Types() {
		if _, ok := worker.Types[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return api.Errorf(api.Invalid, "worker %s doesn't know the node types %s; put the same nodes/ folder there, or take another worker",
			t.Worker, strings.Join(missing, ", ")).With("worker", t.Worker).With("node_types", missing)
	}
	return nil
}

// settingsFit tells whether the device of a graph's own settings is there.
func settingsFit(m Machines, o run.Options, wanted string) error {
	if o.Target.Local() {
		_, err := m.Local.Resolve(wanted)
		return err
	}
	o.Device = wanted
	if wanted == "" || wanted == "auto" || m.offer(*AskOf(o, nil, graph.Program{})) {
		return nil
	}
	return fmt.Errorf("nothing offers %s", wanted)
}
