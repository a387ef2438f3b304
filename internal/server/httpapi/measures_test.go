package httpapi_test

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// Proves M-01: Prometheus' own parser reads the page, and it says what is so:
// runs, queue with reasons, workers, devices, commits.
func TestMeasuresAreWhatPrometheusReads(t *testing.T) {
	w := newSite(t)
	w.outcomes = map[[2]string]uint64{{string(run.Failed), string(run.EndUserCode)}: 2}
	w.devices = []api.Device{w.card()}
	running := w.submit("")
	w.report(running, 1, protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 5}})
	for range 3 {
		w.submit(`,"hold":true`)
	}
	code, raw := w.request("GET", api.PathMeasures, "")
	if code != 200 {
		t.Fatalf("%d %s", code, raw)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	if h := families["cdui_store_commit_seconds"].GetMetric()[0].GetHistogram(); h.GetSampleCount() == 0 || h.GetSampleSum() <= 0 {
		t.Errorf("commits: %v", h)
	}
	if n := families["cdui_store_records_total"].GetMetric()[0].GetCounter().GetValue(); n < 1 {
		t.Errorf("%g records", n)
	}
	for _, want := range []string{
		`cdui_build_info{version="test",`,
		`cdui_queue_waiting{key="cpu",reason="held"} 3`,
		`cdui_runs_ended_total{status="failed",end_class="user_code"} 2`,
		`cdui_workers{state="online"} 0`,
		`cdui_device_slots{worker="local",device="cuda:0"} 2`,
		`cdui_device_slots_used{worker="local",device="cuda:0"} 1`,
		`cdui_device_memory_bytes{worker="local",device="cuda:0"} 1.048576e+06`,
		`cdui_device_power_watts{worker="local",device="cuda:0"} 70.5`,
		`cdui_device_healthy{worker="local",device="cuda:0"} 1`,
	} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s is missing in\n%s", want, raw)
		}
	}
	// What the driver doesn't say is not 0.
	if n := len(families["cdui_device_temperature_celsius"].GetMetric()); n != 0 {
		t.Errorf("%d temperatures of a card that has none", n)
	}
}

// Proves S-05: who is elsewhere needs a token for it, as for all reads.
func TestMeasuresNeedATokenElsewhere(t *testing.T) {
	w := newSite(t)
	for given, want := range map[string]int{"": 403, secret: 200} {
		r := httptest.NewRequest("GET", api.PathMeasures, nil)
		r.Host, r.RemoteAddr = "lab.example", "10.0.0.7:4711"
		if given != "" {
			r.Header.Set("Authorization", "Bearer "+given)
		}
		got := httptest.NewRecorder()
		w.api.ServeHTTP(got, r)
		if got.Code != want {
			t.Errorf("with %q: %d", given, got.Code)
		}
	}
}
