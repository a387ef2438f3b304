package httpapi

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"cdui/internal/api"
	"cdui/internal/exposition"
	"cdui/internal/run"
)

// However many queue keys there are, the page has a bounded number of series:
// the longest lines by name, and no run is missing from the sum.
func TestQueueSeriesAreBounded(t *testing.T) {
	t.Parallel()
	var lines []api.LiveKey
	entry := api.QueueEntry{Reason: &run.Reason{Code: "held"}}
	for i := range maxMeasured + 50 {
		lines = append(lines, api.LiveKey{QueueKey: api.QueueKey{Key: fmt.Sprintf("w%d:cpu", i), Waiting: []api.QueueEntry{entry}}})
	}
	lines[maxMeasured+40].Waiting = []api.QueueEntry{entry, entry}
	p := &exposition.Page{}
	measureQueue(p, lines)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(p.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	series := families["cdui_queue_waiting"].GetMetric()
	sum := 0.0
	for _, m := range series {
		sum += m.GetGauge().GetValue()
	}
	if len(series) != maxMeasured+1 || sum != maxMeasured+51 {
		t.Errorf("%d series of %g runs", len(series), sum)
	}
	if first := series[0]; first.GetGauge().GetValue() != 2 || first.GetLabel()[0].GetValue() != fmt.Sprintf("w%d:cpu", maxMeasured+40) {
		t.Errorf("the longest line is %v", first)
	}
}
