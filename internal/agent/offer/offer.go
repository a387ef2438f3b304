// Package offer keeps what a worker offers: the devices of its machine, as far
// as the agent's environment and its --device let it have them (K-10). It asks
// the driver through a reader that never hangs, and narrows; it assigns nothing.
package offer

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"cdui/internal/device"
	"cdui/internal/nvml"
)

const (
	// cardsEvery is how often a driver is asked; a machine without cards is
	// asked seldom.
	cardsEvery  = 10 * time.Second
	cardsSeldom = time.Minute
)

// Devices keeps what this worker offers: the machine's devices, narrowed by
// the environment's mask and by --device.
type Devices struct {
	cards  Cards
	mask   device.Mask
	wanted []string
	log    *slog.Logger

	mu   sync.Mutex
	list device.Inventory
	// machine is what the driver lists beside it: how CUDA counts depends on
	// the cards that aren't offered too.
	machine device.Inventory
}

// Cards reads the NVIDIA cards of this machine, never for long.
type Cards interface {
	Probe(ctx context.Context) nvml.Reading
	Close()
}

// New asks once. environ is the agent's own, wanted the devices to offer, or
// none for all. A mask or a wish that names what isn't there is an
// error: better now than after a night in the queue.
func New(ctx context.Context, cards Cards, environ, wanted []string, log *slog.Logger) (*Devices, error) {
	d := &Devices{cards: cards, mask: device.EnvironMask(environ), wanted: wanted, log: log}
	machine, all, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range d.wanted {
		if !all.Has(w) {
			return nil, fmt.Errorf("--device %s: this machine offers %s", w, strings.Join(all.Names(), ", "))
		}
	}
	d.keep(machine, all)
	return d, nil
}

// look gives the devices of the machine, and those that the mask permits.
func (d *Devices) look(ctx context.Context) (machine, permitted device.Inventory, err error) {
	reading := d.cards.Probe(ctx)
	all := device.Inventory{{Device: device.CPU, Kind: device.CPU, Name: runtime.GOARCH}}
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		all = append(all, device.Device{Device: "mps:0", Kind: device.MPS, Name: "Apple GPU"})
	}
	machine = append(all, reading.Cards...)
	permitted, err = machine.Visible(d.mask)
	return machine, permitted, err
}

func (d *Devices) keep(machine, all device.Inventory) {
	if len(d.wanted) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(x device.Device) bool { return !slices.Contains(d.wanted, x.Device) })
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list, d.machine = all, machine
}

// CUDAVisible gives the value of CUDA_VISIBLE_DEVICES that shows a child
// exactly the named cards of this machine, or the MIG instances of them that
// are offered.
func (d *Devices) CUDAVisible(names []string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Clone(d.machine)
	for i, x := range all {
		if at := slices.IndexFunc(d.list, func(o device.Device) bool { return o.Device == x.Device }); at >= 0 {
			all[i] = d.list[at]
		}
	}
	return all.CUDAVisible(names)
}

// Inventory is what is offered now.
func (d *Devices) Inventory() device.Inventory {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list
}

// Watch asks again until ctx is over, and calls changed after each answer.
func (d *Devices) Watch(ctx context.Context, changed func()) {
	for {
		every := cardsSeldom
		for _, x := range d.Inventory() {
			if x.Kind == device.CUDA {
				every = cardsEvery
			}
		}
		timer := time.NewTimer(every)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		machine, all, err := d.look(ctx)
		if err != nil {
			d.log.WarnContext(ctx, "devices stay as they were", "error", err)
			continue
		}
		if ctx.Err() == nil {
			d.keep(machine, all)
			changed()
		}
	}
}
