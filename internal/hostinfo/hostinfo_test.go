package hostinfo_test

import (
	"encoding/json"
	"runtime"
	"testing"

	"cdui/internal/device"
	"cdui/internal/hostinfo"
)

// CAT-08: the part of a run's fingerprint that its machine knows holds nothing
// that changes from run to run.
func TestAHostWithItsDevices(t *testing.T) {
	t.Parallel()
	uuid, total, free := "GPU-1", int64(81920), int64(1000)
	h := hostinfo.Read()
	inv := device.Inventory{{Device: "cpu"}, {Device: "cuda:3", Name: "H200", UUID: &uuid, MemoryTotalMiB: &total, MemoryFreeMiB: &free}}
	doc := h.With(inv, []string{"cuda:3", "cuda:9"})
	free--
	if again := h.With(inv, []string{"cuda:3", "cuda:9"}); string(again) != string(doc) {
		t.Errorf("%s and %s", doc, again)
	}
	var got struct {
		hostinfo.Host
		Devices json.RawMessage `json:"devices"`
	}
	if err := json.Unmarshal(doc, &got); err != nil || got.Platform.OS != runtime.GOOS || got.Cores < 1 || got.MachineID == "" {
		t.Errorf("%s, %v", doc, err)
	}
	if want := `[{"device":"cuda:3","name":"H200","uuid":"GPU-1","memory_total_mib":81920},{"device":"cuda:9"}]`; string(got.Devices) != want {
		t.Errorf("%s", got.Devices)
	}
}
