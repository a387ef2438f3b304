package nvml_test

import (
	"os"
	"testing"

	"cdui/internal/device"
	"cdui/internal/nvml"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "nvml" {
		os.Exit(nvml.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestParseSMIKeepsMissingValuesMissingAndNumbersByBus(t *testing.T) {
	cards, lost, err := nvml.ParseSMI("" +
		"0, NVIDIA RTX A6000, GPU-b, 00000000:21:00.0, 49140, 48000, 5, 41, 71.20\n" +
		"1, NVIDIA H100, GPU-a, 00000000:07:00.0, 81559, [N/A], [Not Supported], [N/A], [N/A]\n")
	if err != nil {
		t.Fatal(err)
	}
	if lost != 0 || len(cards) != 2 || cards[0].Device != "cuda:0" || *cards[0].UUID != "GPU-a" || *cards[1].UUID != "GPU-b" {
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

func TestParseSMIListsCardsThatTheToolComplainsAbout(t *testing.T) {
	cards, lost, err := nvml.ParseSMI("" +
		"0, NVIDIA H100, GPU-a, 00000000:07:00.0, 81559, 80000, 0, 30, 71.20\n" +
		"Unable to determine the device handle for GPU 0000:05:00.0: GPU is lost.  Reboot the system to recover this GPU\n" +
		"Unable to determine the device handle for GPU1: 0000:0A:00.0: Unknown Error\n")
	if err != nil || lost != 2 || len(cards) != 3 {
		t.Fatalf("%d cards, %d lost, %v", len(cards), lost, err)
	}
	if cards[0].Health.Code != device.UnhealthyLost || *cards[0].PCIBusID != "00000000:05:00.0" || !cards[1].Health.OK() {
		t.Errorf("cards %+v", cards)
	}
	if h := cards[2].Health; h.Code != device.UnhealthyUnreadable || h.Text != "the driver can't open the card: Unknown Error" {
		t.Errorf("health %+v", h)
	}
}

func FuzzParseSMI(f *testing.F) {
	f.Add("0, NVIDIA H100, GPU-a, 00000000:07:00.0, 81559, [N/A], 3, 41, 71.20\n")
	f.Add("Unable to determine the device handle for GPU 0000:05:00.0: GPU is lost.  Reboot the system to recover this GPU\n")
	f.Add("No devices were found\n")
	f.Add("\"\n,,,,,,,,")
	f.Fuzz(func(t *testing.T, s string) {
		cards, lost, err := nvml.ParseSMI(s)
		if err != nil && cards != nil {
			t.Fatal("an error came with cards")
		}
		if lost > len(cards) && err == nil {
			t.Fatal("more cards are lost than there are")
		}
	})
}
