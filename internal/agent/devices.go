package agent

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
)

const (
	// cardsEvery is how often a driver is asked; a machine without cards is
	// asked seldom.
	cardsEvery  = 10 * time.Second
	cardsSeldom = time.Minute
)

// devices keeps what this worker offers: the machine's devices, narrowed by
// the environment's mask and by --device.
type devices struct {
	cards  Cards
	mask   device.Mask
	wanted []string
	log    *slog.Logger

	mu   sync.Mutex
	list device.Inventory
}

// newDevices asks once. A mask or a wish that names what isn't there is an
// error: better now than after a night in the queue.
func newDevices(ctx context.Context, cfg Config, cards Cards) (*devices, error) {
	d := &devices{cards: cards, mask: device.EnvironMask(cfg.Environ), wanted: cfg.Devices, log: cfg.Logger}
	all, err := d.look(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range d.wanted {
		if !all.Has(w) {
			return nil, fmt.Errorf("--device %s: this machine offers %s", w, strings.Join(all.Names(), ", "))
		}
	}
	d.keep(all)
	return d, nil
}

func (d *devices) look(ctx context.Context) (device.Inventory, error) {
	reading := d.cards.Probe(ctx)
	all := device.Inventory{{Device: device.CPU, Kind: device.CPU, Name: runtime.GOARCH}}
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		all = append(all, device.Device{Device: "mps:0", Kind: device.MPS, Name: "Apple GPU"})
	}
	return append(all, reading.Cards...).Visible(d.mask)
}

func (d *devices) keep(all device.Inventory) {
	if len(d.wanted) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(x device.Device) bool { return !slices.Contains(d.wanted, x.Device) })
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = all
}

func (d *devices) inventory() device.Inventory {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list
}

// watch asks again until ctx is over.
func (d *devices) watch(ctx context.Context, changed func()) {
	for {
		every := cardsSeldom
		for _, x := range d.inventory() {
			if x.Kind == device.CUDA {
				every = cardsEvery
			}
		}
		if !pause(ctx, every) {
			return
		}
		all, err := d.look(ctx)
		if err != nil {
			d.log.WarnContext(ctx, "devices stay as they were", "error", err)
			continue
		}
		if ctx.Err() == nil {
			d.keep(all)
			changed()
		}
	}
}
