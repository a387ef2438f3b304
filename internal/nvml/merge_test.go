package nvml

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/device"
)

// card is a card of a made-up machine, at the n-th place of its bus.
func card(n int) device.Device {
	uuid, bus, free := fmt.Sprintf("GPU-%02d", n), fmt.Sprintf("00000000:%02X:00.0", n), int64(100)
	return device.Device{Kind: device.CUDA, Name: "H100", UUID: &uuid, PCIBusID: &bus, MemoryFreeMiB: &free}
}

func TestMergeOverAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var known []device.Device
		ever := map[string]string{}
		first := true
		for range rapid.IntRange(1, 8).Draw(t, "answers") {
			there := rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(t, "order")
			if !first {
				there = there[:rapid.IntRange(0, 5).Draw(t, "cards")]
			}
			first = false
			var fresh []device.Device
			for _, n := range there {
				fresh = append(fresh, card(n))
			}
			order(fresh)
			known = merge(known, fresh)
			if len(known) != 5 {
				t.Fatalf("%d cards", len(known))
			}
			listed := map[string]bool{}
			for _, n := range there {
				listed[*card(n).UUID] = true
			}
			for i, d := range known {
				if d.Index != i || d.Device != fmt.Sprintf("cuda:%d", i) {
					t.Fatalf("card %d is %+v", i, d)
				}
				if name, ok := ever[*d.UUID]; ok && name != d.Device {
					t.Fatalf("%s was %s and is %s", *d.UUID, name, d.Device)
				}
				ever[*d.UUID] = d.Device
				if gone := d.Health.Code == device.UnhealthyGone; gone == listed[*d.UUID] || gone != (d.MemoryFreeMiB == nil) {
					t.Fatalf("listed %v: %+v", listed[*d.UUID], d)
				}
			}
		}
	})
}

func TestMergeKnowsCardsThatCannotSayWhoTheyAre(t *testing.T) {
	known := merge(nil, []device.Device{card(1), card(2), card(3)})
	fresh := []device.Device{card(1), {Kind: device.CUDA, Health: device.Health{Code: device.UnhealthyLost, Text: "lost"}}, card(3)}
	order(fresh)
	got := merge(known, fresh)
	if len(got) != 3 || got[1].UUID == nil || *got[1].UUID != "GPU-02" || got[1].Health.Code != device.UnhealthyLost || got[1].Device != "cuda:1" {
		t.Errorf("cards %+v", got)
	}
}

func TestMergeTakesACardInAnothersPlace(t *testing.T) {
	known := merge(nil, []device.Device{card(1), card(2)})
	other := card(2)
	uuid := "GPU-new"
	other.UUID = &uuid
	got := merge(known, []device.Device{card(1), other})
	if len(got) != 2 || *got[1].UUID != "GPU-new" {
		t.Errorf("cards %+v", got)
	}
}

func TestMergeTellsWhatACardHadBeforeItWent(t *testing.T) {
	sick := card(1)
	sick.Health = device.Health{Code: device.UnhealthyXid, Text: "Xid 79"}
	known := merge(nil, []device.Device{sick})
	for range 2 {
		known = merge(known, nil)
		if h := known[0].Health; h.Code != device.UnhealthyGone || h.Text != "the driver lists the card no more; before that: Xid 79" {
			t.Errorf("health %+v", h)
		}
	}
	if known = merge(known, []device.Device{card(1)}); !known[0].Health.OK() {
		t.Errorf("it came back with %+v", known[0].Health)
	}
}

func TestBusIDsAreWrittenInOneWay(t *testing.T) {
	for in, want := range map[string]string{
		"0000:07:00.0": "00000000:07:00.0", "00000000:c1:00.0": "00000000:C1:00.0", " 10000:01:00.0 ": "00010000:01:00.0",
		"": "", "GPU": "", "07:00.0": "", "0000:07:00": "", "0000:G7:00.0": "", "000000000:07:00.0": "", "[N/A]": "",
	} {
		got := ""
		if id := busID(in); id != nil {
			got = *id
		}
		if got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestNvidiaSMIsListOfInstancesAndProcesses(t *testing.T) {
	cards := []device.Device{card(1), card(2), card(3)}
	cards[2].Health = device.Health{Code: device.UnhealthyLost}
	parseInstances("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-01)\n"+
		"GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-02)\n"+
		"  MIG 3g.20gb     Device  0: (UUID: MIG-8b3c)\n"+
		"  MIG 1g.5gb      Device  1: (UUID: MIG-9c4d)\n"+
		"GPU 9: (UUID: GPU-99)\n  MIG 1g.5gb Device 0: (UUID: MIG-0)\n(UUID: )\n", cards)
	if cards[0].MIG != nil || cards[1].MIG == nil || len(cards[1].MIG.Instances) != 2 {
		t.Fatalf("cards %+v", cards)
	}
	if i := cards[1].MIG.Instances[1]; i.Index != 1 || i.UUID != "MIG-9c4d" || *i.Profile != "1g.5gb" {
		t.Errorf("instance %+v", i)
	}
	parseProcesses("GPU-02, 4194304, 512\nGPU-02, 4194305, [N/A]\nGPU-88, 1, 2\n", cards, &userNames{})
	if p := cards[1].Processes; len(p) != 2 || p[0].PID != 4194304 || *p[0].MemoryMiB != 512 || p[1].MemoryMiB != nil {
		t.Errorf("processes %+v", p)
	}
	if cards[0].Processes == nil || len(cards[0].Processes) != 0 || cards[2].Processes != nil {
		t.Errorf("the others have %+v and %+v", cards[0].Processes, cards[2].Processes)
	}
	for _, garbage := range []string{"0, Card, GPU-x, 1", "\"", "No running processes found\n"} {
		parseProcesses(garbage, cards, &userNames{})
		parseInstances(garbage, cards)
	}
}

func FuzzParseInstances(f *testing.F) {
	f.Add("GPU 0: A (UUID: GPU-01)\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\n", "GPU-01, 7, 512\n")
	f.Fuzz(func(_ *testing.T, list, processes string) {
		cards := []device.Device{card(1), card(2)}
		parseInstances(list, cards)
		parseProcesses(processes, cards, &userNames{})
	})
}
