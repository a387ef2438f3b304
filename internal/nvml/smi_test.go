package nvml_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cdui/internal/nvml"
)

func TestParseSMIKeepsMissingValuesMissingAndNumbersByBus(t *testing.T) {
	cards, err := nvml.ParseSMI("" +
		"0, NVIDIA RTX A6000, GPU-b, 00000000:21:00.0, 49140, 48000, 5, 41, 71.20\n" +
		"1, NVIDIA H100, GPU-a, 00000000:07:00.0, 81559, [N/A], [Not Supported], [N/A], [N/A]\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(cards) != 2 || cards[0].Device != "cuda:0" || *cards[0].UUID != "GPU-a" || *cards[1].UUID != "GPU-b" {
		t.Fatalf("cards are not in bus order: %+v", cards)
	}
	h := cards[0]
	if h.MemoryFreeMiB != nil || h.UtilizationPct != nil || h.TemperatureC != nil || h.PowerW != nil {
		t.Errorf("missing values did not stay null: %+v", h)
	}
	if *h.MemoryTotalMiB != 81559 || *cards[1].PowerW != 71.2 {
		t.Errorf("wrong values: %+v", cards)
	}
}

func TestSMIRunsTheToolInPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := nvml.SMI(context.Background()); !errors.Is(err, nvml.ErrNoDriver) {
		t.Fatalf("without the tool: %v", err)
	}
	script := "#!/bin/sh\necho '0, Card, GPU-x, 00000000:01:00.0, 10, 9, 0, 30, 20'\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cards, err := nvml.SMI(context.Background())
	if err != nil || len(cards) != 1 || cards[0].Name != "Card" {
		t.Fatalf("cards %+v, err %v", cards, err)
	}
}

func FuzzParseSMI(f *testing.F) {
	f.Add("0, NVIDIA H100, GPU-a, 00000000:07:00.0, 81559, [N/A], 3, 41, 71.20\n")
	f.Add("No devices were found\n")
	f.Add("\"\n,,,,,,,,")
	f.Fuzz(func(t *testing.T, s string) {
		cards, err := nvml.ParseSMI(s)
		if err != nil && cards != nil {
			t.Fatal("an error came with cards")
		}
	})
}
