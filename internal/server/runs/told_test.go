package runs_test

import (
	"slices"
	"testing"

	"cdui/internal/protocol"
	"cdui/internal/run"
)

// A start is told once, and before the end, whether its record comes alone or
// together with the last one; records that come again tell nothing.
func TestStartsAndEndsAreToldOnce(t *testing.T) {
	w := newWorld(t)
	first, second := w.submit(map[string]any{"device": "cpu"}), w.submit(map[string]any{"device": "cpu"})
	w.untilStarted(first, second)
	started := protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 7}}
	w.exec.send(t, first, started)
	w.exec.mu.Lock()
	w.exec.seq[first] = 0
	w.exec.mu.Unlock()
	w.exec.send(t, first, started)
	w.exec.finish(t, first, run.Succeeded)
	w.exec.send(t, second, started, protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: string(run.Failed), EndClass: string(run.EndUserCode)}})
	w.mu.Lock()
	defer w.mu.Unlock()
	want := []string{"started " + first + " running", "ended " + first + " succeeded", "started " + second + " running", "ended " + second + " failed"}
	if !slices.Equal(w.told, want) {
		t.Errorf("told %q, want %q", w.told, want)
	}
}
