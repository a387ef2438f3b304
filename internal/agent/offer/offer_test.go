package offer_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"cdui/internal/agent/offer"
	"cdui/internal/device"
	"cdui/internal/nvml"
)

// cards is a machine with n cards.
type cards int

func (c cards) Probe(context.Context) nvml.Reading {
	var r nvml.Reading
	for i := range int(c) {
		uuid := fmt.Sprintf("GPU-%d0000000", i+1)
		r.Cards = append(r.Cards, device.Device{Device: fmt.Sprintf("cuda:%d", i), Kind: device.CUDA, Index: i, UUID: &uuid})
	}
	return r
}

func (cards) Close() {}

// TestWhatIsOffered: K-10, G2.
func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		environ []string
		wanted  []string
		want    string
		err     string
	}{
		{name: "all", want: "cpu cuda:0 cuda:1 cuda:2"},
		{name: "those asked for", wanted: []string{"cuda:2", "cuda:0"}, want: "cuda:0 cuda:2"},
		{name: "cpu alone", wanted: []string{"cpu"}, want: "cpu"},
		{name: "a mask", environ: []string{"CUDA_VISIBLE_DEVICES=GPU-2,0"}, want: "cpu cuda:0 cuda:1"},
		{name: "a mask of none", environ: []string{"CUDA_VISIBLE_DEVICES="}, want: "cpu"},
		{name: "both", environ: []string{"CUDA_VISIBLE_DEVICES=1,2"}, wanted: []string{"cuda:1"}, want: "cuda:1"},
		{name: "what the mask hides", environ: []string{"CUDA_VISIBLE_DEVICES=1"}, wanted: []string{"cuda:0"}, err: "--device cuda:0: this machine offers cpu, cuda:1"},
		{name: "a bad mask", environ: []string{"CUDA_VISIBLE_DEVICES=GPU-9"}, err: "GPU-9"},
	} {
		d, err := offer.New(t.Context(), cards(3), c.environ, c.wanted, slog.New(slog.DiscardHandler))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		// An Apple machine has one more.
		names := slices.DeleteFunc(d.Inventory().Names(), func(n string) bool { return n == "mps:0" })
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
