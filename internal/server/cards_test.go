package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/device"
	"cdui/internal/nvml"
	"cdui/internal/nvml/nvmltest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "nvml" {
		os.Exit(nvml.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func machineCards(t *testing.T, environ ...string) *cards {
	t.Helper()
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
	c := newCards(slog.New(slog.DiscardHandler))
	t.Cleanup(c.prober.Close)
	return c
}

// Proves Q-06 for the control plane's own cards: one that fails stays listed,
// and whoever places runs is told.
func TestACardThatFailsIsNewsAndStaysListed(t *testing.T) {
	m := nvmltest.New(t, 2)
	c := machineCards(t, m.Environ()...)
	if !c.refresh(t.Context()) || c.refresh(t.Context()) {
		t.Fatal("two cards were found and that is news once")
	}
	if got := strings.Join(c.inventory().Names(), " "); got != "cpu cuda:0 cuda:1" {
		t.Fatalf("devices %s", got)
	}
	m.Set("card 1 50 4000 60 200")
	if c.refresh(t.Context()) {
		t.Error("a card at work is no news")
	}
	for _, line := range []string{"count 1", "lost 1", "xid 1 79"} {
		m.Set(line)
		if !c.refresh(t.Context()) {
			t.Errorf("%s: it is no news", line)
		}
		inv := c.inventory()
		if ill := inv.Ill(); len(inv) != 3 || len(ill) != 1 || ill["cuda:1"] == "" {
			t.Errorf("%s: ill %v", line, ill)
		}
		m.Set()
		c.refresh(t.Context())
	}
	if err := c.problem(); err != nil {
		t.Errorf("the driver is well: %v", err)
	}
}

func TestNvidiaSMIInPathIsEnough(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho '0, Card, GPU-x, 00000000:01:00.0, 10, 9, 0, 30, 20'\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := machineCards(t, "PATH="+dir)
	if !c.refresh(t.Context()) {
		t.Fatal("no card was found")
	}
	inv := c.inventory()
	if len(inv) != 2 || inv[1].Name != "Card" || inv[1].Kind != device.CUDA {
		t.Errorf("inventory %+v", inv)
	}
}
