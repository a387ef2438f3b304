package httpapi_test

import (
	"bytes"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/store"
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
	h := families["cdui_store_commit_seconds"].GetMetric()[0].GetHistogram()
	if last := h.GetBucket()[len(h.GetBucket())-1]; h.GetSampleCount() == 0 || h.GetSampleSum() <= 0 ||
		len(h.GetBucket()) != len(store.CommitBounds())+1 || last.GetCumulativeCount() != h.GetSampleCount() {
		t.Errorf("commits: %v", h)
	}
	if n := families["cdui_store_records_total"].GetMetric()[0].GetCounter().GetValue(); n < 1 {
		t.Errorf("%g records", n)
	}
	for _, want := range []string{
		`,version="test"} 1`,
		`cdui_queue_waiting{key="cpu",reason="held"} 3`,
		`cdui_runs_ended_total{end_class="user_code",status="failed"} 2`,
		`cdui_workers{state="online"} 0`,
		`cdui_device_slots{device="cuda:0",worker="local"} 2`,
		`cdui_device_slots_used{device="cuda:0",worker="local"} 1`,
		`cdui_device_memory_bytes{device="cuda:0",worker="local"} 1.048576e+06`,
		`cdui_device_power_watts{device="cuda:0",worker="local"} 70.5`,
		`cdui_device_healthy{device="cuda:0",worker="local"} 1`,
		"\ngo_goroutines ", "\nprocess_resident_memory_bytes ",
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

// What others call their devices, twice the same or no text at all, costs its
// own series at most.
func TestMeasuresBearAnyName(t *testing.T) {
	w := newSite(t)
	names := []string{`a "b" \c`, "two\nlines", "箱", "{},=", "a\xffb", "twice", "twice"}
	for _, name := range names {
		card := w.card()
		card.Device.Device = name
		w.devices = append(w.devices, card)
	}
	code, raw := w.request("GET", api.PathMeasures, "")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
	if code != 200 || err != nil {
		t.Fatalf("%d %v\n%s", code, err, raw)
	}
	var got []string
	for _, m := range families["cdui_device_slots"].GetMetric() {
		got = append(got, m.GetLabel()[0].GetValue())
	}
	want := []string{`a "b" \c`, "a\uFFFDb", "twice", "two\nlines", "{},=", "箱"}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	if len(families["cdui_store_records_total"].GetMetric()) != 1 {
		t.Errorf("the rest is missing in\n%s", raw)
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
