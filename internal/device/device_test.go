package device_test

import (
	"strings"
	"testing"

	"cdui/internal/device"
)

func machine(names ...string) device.Inventory {
	var inv device.Inventory
	for _, n := range names {
		inv = append(inv, device.Device{Device: n, Kind: device.Kind(n), Index: device.Index(n)})
	}
	return inv
}

// SCHED-02, E: the canonical device.
func TestResolve(t *testing.T) {
	gpu, mac, plain := machine("cpu", "cuda:0", "cuda:1"), machine("cpu", "mps:0"), machine("cpu")
	cases := []struct {
		inv             device.Inventory
		requested, want string
	}{
		{gpu, "", "cpu"},
		{gpu, "cpu", "cpu"},
		{gpu, "auto", "cuda:0"},
		{gpu, "cuda", "cuda:0"},
		{gpu, "cuda:1", "cuda:1"},
		{mac, "auto", "mps:0"},
		{mac, "mps", "mps:0"},
		{plain, "auto", "cpu"},
		{gpu, "cuda:2", ""},
		{plain, "cuda", ""},
		{gpu, "mps", ""},
	}
	for _, c := range cases {
		got, err := c.inv.Resolve(c.requested)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("Resolve(%q) on %v = %q, %v; want %q", c.requested, c.inv.Names(), got, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "cpu") {
			t.Errorf("the refusal does not list what is there: %v", err)
		}
	}
}
