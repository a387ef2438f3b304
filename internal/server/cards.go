package server

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"sync"
	"time"

	"cdui/internal/device"
	"cdui/internal/nvml"
)

const (
	cardsEvery  = 10 * time.Second
	cardsGiveUp = 3
	cardsSeldom = time.Minute
)

// cards keeps the machine's inventory, asked of the driver now and then.
type cards struct {
	log *slog.Logger

	mu     sync.Mutex
	list   device.Inventory
	failed int
	fault  error
}

func newCards(log *slog.Logger) *cards {
	return &cards{log: log, list: device.Inventory{cpu()}}
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

// refresh asks the driver once. It tells whether the set of devices changed. A
// driver that fails to answer keeps its cards until it has failed three times.
func (c *cards) refresh(ctx context.Context) bool {
	found, err := nvml.SMI(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, nvml.ErrNoDriver) {
		err = nil
	}
	c.fault = err
	if err != nil {
		c.failed++
		c.log.Warn("list cards", "error", err, "failures", c.failed)
		if c.failed < cardsGiveUp {
			return false
		}
	} else {
		c.failed = 0
	}
	list := append(device.Inventory{cpu()}, found...)
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		list = append(list, device.Device{Device: "mps:0", Kind: device.MPS, Name: "Apple GPU"})
	}
	changed := !reflect.DeepEqual(list.Names(), c.list.Names())
	c.list = list
	return changed
}

// watch refreshes the inventory until ctx is over and calls changed when cards
// come or go. A machine without cards is asked seldom.
func (c *cards) watch(ctx context.Context, changed func()) {
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
