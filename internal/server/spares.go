package server

import (
	"context"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/scheduler"
	"cdui/internal/shimhost"
	"cdui/internal/warm/stock"
)

// warmHost is the machine's shims, with spares for the runs that start.
type warmHost struct {
	*shimhost.Host
	stock *stock.Stock
}

func (w warmHost) Start(ctx context.Context, a protocol.Assignment) (*shimhost.Run, error) {
	return w.stock.Start(ctx, a)
}

func (w warmHost) Attach(ctx context.Context, runID string) (*shimhost.Run, error) {
	return w.stock.Attach(ctx, runID)
}

// sharedCard tells whether several runs may be on one of this machine's cards
// at once.
func (s *server) sharedCard(name string) bool {
	if device.Kind(name) == device.CPU {
		return false
	}
	card := s.runs.Board().DeviceStates(scheduler.Local)[name]
	return card.Shared || card.Limit > 1
}

// spares tells how the spares of this machine stand.
func (s *server) spares() []api.Spare {
	out := []api.Spare{}
	for _, sp := range s.stock.Spares() {
		out = append(out, api.Spare{Device: sp.Device, Kind: string(sp.Kind), Ready: sp.Ready, Since: sp.Since})
	}
	return out
}
