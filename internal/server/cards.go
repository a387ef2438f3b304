package server

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"cdui/internal/device"
	"cdui/internal/nvml"
)

const (
	cardsEvery  = 10 * time.Second
	cardsSeldom = time.Minute
)

// cards keeps the machine's inventory, asked of the driver now and then.
type cards struct {
	prober *nvml.Prober

	mu    sync.Mutex
	list  device.Inventory
	fault error
}

func newCards(log *slog.Logger) *cards {
	return &cards{prober: nvml.NewProber(nvml.Config{Logger: log}), list: device.Inventory{cpu()}}
}

func cpu() device.Device {
	return device.Device{Device: device.CPU, Kind: device.CPU, Name: runtime.GOARCH}
}

func (c *cards) inventory() device.Inventory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

// problem is what the driver last said, if it said anything wrong.
func (c *cards) problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// refresh asks the driver once. It tells whether devices came, went, fell ill
// or recovered.
func (c *cards) refresh(ctx context.Context) bool {
	found := c.prober.Probe(ctx)
	list := append(device.Inventory{cpu()}, found.Cards...)
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		list = append(list, device.Device{Device: "mps:0", Kind: device.MPS, Name: "Apple GPU"})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = found.Fault
	changed := !slices.EqualFunc(list, c.list, func(a, b device.Device) bool {
		return a.Device == b.Device && a.Health.OK() == b.Health.OK()
	})
	c.list = list
	return changed
}

// watch refreshes the inventory until ctx is over and calls changed when cards
// come, go or fall ill. A machine without cards is asked seldom. It ends the
// asking.
func (c *cards) watch(ctx context.Context, changed func()) {
	defer c.prober.Close()
	for {
		every := cardsEvery
		if len(c.inventory()) == 1 {
			every = cardsSeldom
		}
		timer := time.NewTimer(every)
		select {
		case <-timer.C:
			if c.refresh(ctx) {
				changed()
			}
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
