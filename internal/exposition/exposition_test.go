package exposition_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"cdui/internal/exposition"
)

func parser() *expfmt.TextParser {
	p := expfmt.NewTextParser(model.LegacyValidation)
	return &p
}

// Whatever stands in a label comes back through Prometheus' own parser.
func TestLabelsComeBack(t *testing.T) {
	values := []string{"cuda:0", `a "b" \c`, "two\nlines", "", "箱", "{},="}
	p := &exposition.Page{}
	p.Family("cdui_things", exposition.Gauge, "A help with \\ and\na line.")
	for i, v := range values {
		p.Sample(float64(i)+0.5, "device", v, "worker", "w")
	}
	p.Family("cdui_bare_total", exposition.Counter, "One.")
	p.Sample(1e12)
	families, err := parser().TextToMetricFamilies(bytes.NewReader(p.Bytes()))
	if err != nil {
		t.Fatalf("Prometheus can't read it: %v\n%s", err, p.Bytes())
	}
	got := families["cdui_things"]
	if got.GetType().String() != "GAUGE" || got.GetHelp() != "A help with \\ and\na line." || len(got.GetMetric()) != len(values) {
		t.Fatalf("%v", got)
	}
	for i, m := range got.GetMetric() {
		if m.GetLabel()[0].GetValue() != values[i] || m.GetGauge().GetValue() != float64(i)+0.5 {
			t.Errorf("%q came back as %v", values[i], m)
		}
	}
	if c := families["cdui_bare_total"]; c.GetType().String() != "COUNTER" || c.GetMetric()[0].GetCounter().GetValue() != 1e12 {
		t.Errorf("%v", c)
	}
}

// Bytes that are no text cost a replacement character, not the whole page.
func TestBrokenTextIsMended(t *testing.T) {
	p := &exposition.Page{}
	p.Family("cdui_things", exposition.Gauge, "h")
	p.Sample(1, "worker", "a\xffb")
	families, err := parser().TextToMetricFamilies(bytes.NewReader(p.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got := families["cdui_things"].GetMetric()[0].GetLabel()[0].GetValue(); got != "a�b" {
		t.Errorf("%q", got)
	}
}

func TestHistogramsAddUp(t *testing.T) {
	p := &exposition.Page{}
	p.Histogram("cdui_seconds", "h", []float64{0.1, 1}, []uint64{3, 2, 1}, 4.5)
	families, err := parser().TextToMetricFamilies(bytes.NewReader(p.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	h := families["cdui_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 6 || h.GetSampleSum() != 4.5 || len(h.GetBucket()) != 3 {
		t.Fatalf("%v", h)
	}
	for i, want := range []uint64{3, 5, 6} {
		if h.GetBucket()[i].GetCumulativeCount() != want {
			t.Errorf("bucket %d: %v", i, h.GetBucket()[i])
		}
	}
	if !math.IsInf(h.GetBucket()[2].GetUpperBound(), 1) {
		t.Errorf("the last bucket ends at %g", h.GetBucket()[2].GetUpperBound())
	}
}
