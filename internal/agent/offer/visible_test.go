package offer_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"cdui/internal/agent/offer"
	"cdui/internal/device"
	"cdui/internal/nvml"
)

// machine has the given cards.
type machine []device.Device

func (m machine) Probe(context.Context) nvml.Reading { return nvml.Reading{Cards: m} }
func (machine) Close()                               {}

// ISO-04, K-10: what a child is shown is exactly its cards, by what CUDA calls
// them: an index where CUDA counts as we do, and a UUID where a card, offered
// or not, is divided or has dropped out.
func TestWhatAChildIsShown(t *testing.T) {
	t.Parallel()
	card := func(i int) device.Device {
		uuid := fmt.Sprintf("GPU-%d", i)
		return device.Device{Device: fmt.Sprintf("cuda:%d", i), Kind: device.CUDA, Index: i, UUID: &uuid}
	}
	whole := machine{card(0), card(1), card(2)}
	dropped := machine{card(0), card(1), card(2)}
	dropped[0].Health = device.Health{Code: device.UnhealthyGone}
	divided := machine{card(0), card(1), card(2)}
	divided[1].MIG = &device.MIG{Instances: []device.Instance{{UUID: "MIG-a"}, {UUID: "MIG-b", Index: 1}}}
	for _, c := range []struct {
		name, mask string
		machine    machine
		devices    []string
		want       string
	}{
		{"plain", "0,1,2", whole, []string{"cuda:2", "cuda:0"}, "2,0"},
		{"behind a mask numbers stay the machine's", "GPU-2", whole, []string{"cuda:2"}, "2"},
		{"a hidden card has dropped out", "2", dropped, []string{"cuda:2"}, "GPU-2"},
		{"the permitted instance", "MIG-b", divided, []string{"cuda:1"}, "MIG-b"},
		{"the first instance", "1", divided, []string{"cuda:1"}, "MIG-a"},
		{"a neighbour is divided", "2", divided, []string{"cuda:2"}, "GPU-2"},
		{"no card", "0", whole, []string{"cpu"}, ""},
	} {
		d, err := offer.New(t.Context(), c.machine, []string{"CUDA_VISIBLE_DEVICES=" + c.mask}, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := d.CUDAVisible(c.devices); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
