package dialog

import (
	"slices"
	"strings"

	"cdui/internal/api"
	"cdui/internal/run"
)

// place is a machine that runs can go to. Worker is empty for the control
// plane's own.
type place struct {
	worker string
	// devices are those that can be chosen, with the runs that are on them.
	devices []api.WorkerDevice
	state   api.WorkerState
	drains  bool
	// asFile leaves it to a sweep's file.
	asFile bool
}

// any is the place that leaves the machine to the control plane.
const anyWorker = "any"

// look takes the machines from the board.
func (d *Submit) look() {
	board := d.w.Board
	here := place{state: api.WorkerOnline}
	kinds := map[string]bool{}
	for _, dev := range board.Machine().Devices {
		here.devices = append(here.devices, api.WorkerDevice{Device: dev.Device, Slots: api.WorkerSlots{Slots: dev.Slots}, Runs: dev.Runs})
		kinds[dev.Kind] = true
	}
	d.places = []place{here}
	for _, worker := range board.Workers() {
		if worker.State == api.WorkerRejected {
			continue
		}
		d.places = append(d.places, place{worker: worker.Name, devices: worker.Devices, state: worker.State, drains: worker.Draining})
		for _, dev := range worker.Devices {
			kinds[dev.Kind] = true
		}
	}
	if len(d.places) == 1 {
		return
	}
	anywhere := place{worker: anyWorker, state: api.WorkerOnline}
	for _, kind := range []string{"cpu", "cuda", "mps"} {
		if kinds[kind] {
			dev := api.WorkerDevice{}
			dev.Device.Device = kind
			anywhere.devices = append(anywhere.devices, dev)
		}
	}
	d.places = append(d.places, anywhere)
}

// known keeps only devices that the chosen machine has, and one at least.
func (d *Submit) known() {
	p := d.places[d.on]
	for name := range d.devices {
		if !slices.ContainsFunc(p.devices, func(dev api.WorkerDevice) bool { return dev.Device.Device == name }) {
			delete(d.devices, name)
		}
	}
	if len(d.devices) == 0 && len(p.devices) > 0 {
		d.devices[p.devices[0].Device.Device] = true
	}
	d.device = max(0, min(d.device, len(p.devices)-1))
}

// chosen are the devices, in the machine's order.
func (d *Submit) chosen() []string {
	var out []string
	for _, dev := range d.places[d.on].devices {
		if d.devices[dev.Device.Device] {
			out = append(out, dev.Device.Device)
		}
	}
	return out
}

// At chooses a machine, "" for the control plane's own, and one of its devices
// where one is named.
func (d *Submit) At(worker, device string) {
	for i, p := range d.places {
		if p.worker == worker && !p.asFile {
			d.on = i
		}
	}
	clear(d.devices)
	if device != "" {
		d.devices[device] = true
	}
	d.known()
}

// would says whether it would start at once, and what it would wait for.
func (d *Submit) would() string {
	l, p := d.w.Lang, d.places[d.on]
	switch {
	case p.asFile:
		return l.T("go where the file says")
	case p.worker == anyWorker:
		return l.T("start on the first machine that has room")
	case p.state != api.WorkerOnline:
		return l.F("wait until %s is back", p.worker)
	case p.drains:
		return l.F("wait: %s takes no new runs", p.worker)
	}
	var busy []string
	for _, dev := range p.devices {
		if !d.devices[dev.Device.Device] || dev.Slots.Used < dev.Slots.Cap {
			continue
		}
		var runs []string
		for _, id := range dev.Runs {
			runs = append(runs, run.Short(id))
		}
		busy = append(busy, l.F("%s busy until %s ends", dev.Device.Device, strings.Join(runs, ", ")))
	}
	key := strings.Join(d.chosen(), ",")
	if p.worker != "" {
		key = p.worker + "/" + key
	}
	for _, k := range d.w.Board.Keys() {
		if k.Key == key && k.WaitingTotal > 0 {
			busy = append(busy, l.N(k.WaitingTotal, "1 waits there already", "%d wait there already", countArg(k.WaitingTotal)...))
		}
	}
	if len(busy) > 0 {
		return l.F("wait: %s", strings.Join(busy, "; "))
	}
	return l.T("start at once")
}

func countArg(n int) []any {
	if n == 1 {
		return nil
	}
	return []any{n}
}
