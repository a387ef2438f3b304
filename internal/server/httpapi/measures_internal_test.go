package httpapi

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"cdui/internal/api"
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
	p := &scrape{}
	measureQueue(p, lines)
	registry := prometheus.NewRegistry()
	registry.MustRegister(p)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "cdui_queue_waiting" {
		t.Fatalf("%v %v", families, err)
	}
	series := families[0].GetMetric()
	sum := 0.0
	for _, m := range series {
		sum += m.GetGauge().GetValue()
	}
	if len(series) != maxMeasured+1 || sum != maxMeasured+51 {
		t.Errorf("%d series of %g runs", len(series), sum)
	}
	longest, length := fmt.Sprintf("w%d:cpu", maxMeasured+40), 0.0
	for _, m := range series {
		if m.GetLabel()[0].GetValue() == longest {
			length = m.GetGauge().GetValue()
		}
	}
	if length != 2 {
		t.Errorf("the longest line, %s, is told as one of %g", longest, length)
	}
}
