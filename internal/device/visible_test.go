package device_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cdui/internal/device"
)

func ptr[T any](v T) *T { return &v }

// fourCards has two cards whose UUIDs begin alike, a divided one, and one of
// another model.
func fourCards() device.Inventory {
	inv := machine("cpu", "cuda:0", "cuda:1", "cuda:2", "cuda:3")
	uuids := []string{"", "GPU-aaaa1111-0000", "GPU-aaaa2222-0000", "GPU-bbbb3333-0000", "GPU-cccc4444-0000"}
	for i := range inv {
		if i > 0 {
			inv[i].UUID, inv[i].Name = &uuids[i], "A100"
		}
	}
	inv[4].MIG = &device.MIG{Instances: []device.Instance{
		{Index: 0, UUID: "MIG-d0d0-1", Profile: ptr("1g.10gb")}, {Index: 1, UUID: "MIG-d1d1-2"}, {Index: 2, UUID: "MIG-d2d2-3"},
	}}
	return inv
}

// Proves K-10 for each way to write CUDA_VISIBLE_DEVICES.
func TestG2_OfferedAreExactlyThePermittedCards(t *testing.T) {
	cases := []struct{ list, want string }{
		{"0", "cpu cuda:0"},
		{"2,0", "cpu cuda:0 cuda:2"},
		{" 1 , 2 ", "cpu cuda:1 cuda:2"},
		{"GPU-aaaa2222-0000", "cpu cuda:1"},
		{"GPU-b", "cpu cuda:2"},
		{"gpu-BBBB", "cpu cuda:2"},
		{"MIG-d1d1-2", "cpu cuda:3[MIG-d1d1-2]"},
		{"MIG-d2,MIG-d0", "cpu cuda:3[MIG-d0d0-1 MIG-d2d2-3]"},
		{"GPU-b,MIG-d1d1-2,0", "cpu cuda:0 cuda:2 cuda:3[MIG-d1d1-2]"},
		{"3,MIG-d1d1-2", "cpu cuda:3[MIG-d0d0-1 MIG-d1d1-2 MIG-d2d2-3]"},
		{"0,0,GPU-aaaa1", "cpu cuda:0"},
		{"", "cpu"},
		{"  ", "cpu"},
		{"-1", "cpu"},
		{"1,-1,0", "cpu cuda:1"},
		{"NoDevFiles", "cpu"},

		{"4", "there is no card 4"},
		{"0,GPU-dddd", "there is no card GPU-dddd"},
		{"GPU-aaaa", "beginning of 2 UUIDs"},
		{"MIG-", "beginning of 3 UUIDs"},
		{"all", "neither a number nor a UUID"},
		{"0,,1", "an entry is empty"},
		{"0;1", "neither a number nor a UUID"},
		{"-2", "there is no card -2"},
	}
	for _, c := range cases {
		inv := fourCards()
		got, err := inv.Visible(device.EnvironMask([]string{"HOME=/", "CUDA_VISIBLE_DEVICES=" + c.list}))
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "CUDA_VISIBLE_DEVICES="+c.list) || !strings.Contains(err.Error(), "GPU-cccc4444-0000") {
				t.Errorf("%q: the refusal %q does not name the entry (%s), the variable and what is there", c.list, err, c.want)
			}
			continue
		}
		if words(got) != c.want {
			t.Errorf("%q permits %q, want %q", c.list, words(got), c.want)
		}
		if len(inv[4].MIG.Instances) != 3 {
			t.Errorf("%q: narrowing changed the inventory it was asked of", c.list)
		}
	}
}

func words(inv device.Inventory) string {
	var out []string
	for _, d := range inv {
		word := d.Device
		if d.MIG != nil {
			var uuids []string
			for _, i := range d.MIG.Instances {
				uuids = append(uuids, i.UUID)
			}
			word += "[" + strings.Join(uuids, " ") + "]"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// Proves K-10 for what Slurm sets.
func TestSlurmMasks(t *testing.T) {
	cases := []struct {
		environ []string
		want    string
	}{
		{nil, "cpu cuda:0 cuda:1 cuda:2"},
		{[]string{"SLURM_JOB_GPUS=1"}, "cpu cuda:1"},
		{[]string{"SLURM_JOB_GPUS=0,1", "SLURM_STEP_GPUS=1"}, "cpu cuda:1"},
		// Slurm translates this one to what the cgroup shows, the others not.
		{[]string{"SLURM_JOB_GPUS=5", "CUDA_VISIBLE_DEVICES=0"}, "cpu cuda:0"},
		{[]string{"SLURM_JOB_GPUS=4,5,7"}, "cpu cuda:0 cuda:1 cuda:2"},
		{[]string{"SLURM_JOB_GPUS="}, "cpu"},
		{[]string{"CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=2"}, "cpu cuda:2"},
	}
	for _, c := range cases {
		got, err := machine("cpu", "cuda:0", "cuda:1", "cuda:2").Visible(device.EnvironMask(c.environ))
		if err != nil || words(got) != c.want {
			t.Errorf("%v permits %q (%v), want %q", c.environ, words(got), err, c.want)
		}
	}
}

// A number means one card everywhere. Where the environment says that it
// counts otherwise, and that makes a difference, nobody guesses.
func TestG1_NumbersCountBySlotAndNotBySpeed(t *testing.T) {
	inv := machine("cpu", "cuda:0", "cuda:1")
	inv[1].Name, inv[2].Name = "Quadro P400", "H100"
	for _, c := range []struct {
		list, order, want string
		mixed             bool
	}{
		{"0", "PCI_BUS_ID", "cpu cuda:0", true},
		{"0", "FASTEST_FIRST", "", true},
		{"GPU-", "FASTEST_FIRST", "cpu cuda:1", true},
		{"0", "FASTEST_FIRST", "cpu cuda:0", false},
	} {
		here := slices.Clone(inv)
		here[2].UUID = ptr("GPU-fast")
		if !c.mixed {
			here[1].Name = here[2].Name
		}
		got, err := here.Visible(device.EnvironMask([]string{"CUDA_VISIBLE_DEVICES=" + c.list, "CUDA_DEVICE_ORDER=" + c.order}))
		if words(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v permits %q, %v", c, words(got), err)
		}
		if err != nil && !strings.Contains(err.Error(), "CUDA_DEVICE_ORDER=PCI_BUS_ID") {
			t.Errorf("the refusal does not say how to mend it: %v", err)
		}
	}
}

func TestCUDAVisible(t *testing.T) {
	plain, divided := fourCards()[:4], fourCards()
	dropped := slices.Clone(plain)
	dropped[2].Health = device.Health{Code: device.UnhealthyGone, Text: "gone"}
	for _, c := range []struct {
		inv     device.Inventory
		devices []string
		want    string
	}{
		{plain, []string{"cuda:2", "cuda:0"}, "2,0"},
		{plain, []string{"cpu"}, ""},
		{plain, nil, ""},
		{dropped, []string{"cuda:2", "cuda:0"}, "GPU-bbbb3333-0000,GPU-aaaa1111-0000"},
		{divided, []string{"cuda:3"}, "MIG-d0d0-1"},
		{divided, []string{"cuda:1"}, "GPU-aaaa2222-0000"},
		{machine("cpu"), []string{"cuda:1"}, "1"},
	} {
		if got := c.inv.CUDAVisible(c.devices); got != c.want {
			t.Errorf("%v of %s are shown as %q, want %q", c.devices, words(c.inv), got, c.want)
		}
	}
}

// Proves W-02 for the object as it is written.
func TestADeviceIsWrittenWithNullsForWhatIsUnknown(t *testing.T) {
	d := device.Device{
		Device: "cuda:0", Kind: "cuda", Name: "H100",
		Processes: []device.Process{{PID: 7}},
	}
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"device":"cuda:0","kind":"cuda","index":0,"name":"H100","uuid":null,"pci_bus_id":null,` +
		`"memory_total_mib":null,"memory_free_mib":null,"utilization_pct":null,"temperature_c":null,"power_w":null,` +
		`"mig":null,"health":"ok","processes":[{"pid":7,"user":null,"name":null,"memory_mib":null,"run_id":null}]}`
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
}

func TestHealthReadsWhatItWrites(t *testing.T) {
	for _, h := range []device.Health{{}, {Code: device.UnhealthyXid, Text: "Xid 79"}} {
		raw, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		got := device.Health{Code: "stale"}
		if err := json.Unmarshal(raw, &got); err != nil || got != h {
			t.Errorf("%s reads as %+v, %v", raw, got, err)
		}
	}
	for _, bad := range []string{`"ill"`, `{}`, `{"text":"x"}`, `7`, `[]`} {
		var h device.Health
		if err := json.Unmarshal([]byte(bad), &h); err == nil {
			t.Errorf("%s was taken as %+v", bad, h)
		}
	}
}

func TestAutoPrefersAHealthyCard(t *testing.T) {
	inv := machine("cpu", "cuda:0", "cuda:1")
	inv[1].Health = device.Health{Code: device.UnhealthyECC, Text: "bad memory"}
	if got, err := inv.Resolve("auto"); got != "cuda:1" || err != nil {
		t.Errorf("auto is %s, %v", got, err)
	}
	if got, err := inv[:2].Resolve("auto"); got != "cuda:0" || err != nil {
		t.Errorf("auto with one ill card is %s, %v", got, err)
	}
}
