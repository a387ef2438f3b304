package assign_test

import (
	"reflect"
	"strings"
	"testing"

	"cdui/internal/graph"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/workers/assign"
)

// MEM-04: a run's budget holds on each of its cards, and goes only to a worker
// that can hold the run to it.
func TestMemoryBudgetsAreAssigned(t *testing.T) {
	t.Parallel()
	able := assign.Destination{Name: "box", Capabilities: protocol.Capabilities{protocol.CapMemoryBudget}}
	for _, c := range []struct {
		name    string
		gib     float64
		devices []string
		to      assign.Destination
		want    map[string]int64
		refused bool
	}{
		{"two cards", 1.5, []string{"cuda:0", "cuda:3"}, able, map[string]int64{"cuda:0": 1536, "cuda:3": 1536}, false},
		{"no budget", 0, []string{"cuda:0"}, able, nil, false},
		{"no card", 1.5, []string{"cpu"}, able, nil, false},
		{"no card, no capability", 1.5, []string{"cpu"}, assign.Destination{Name: "old"}, nil, false},
		{"no budget, no capability", 0, []string{"cuda:0"}, assign.Destination{Name: "old"}, nil, false},
		{"no capability", 1.5, []string{"cuda:0"}, assign.Destination{Name: "old"}, nil, true},
	} {
		job := execution.Job{
			Row:     run.Row{ID: "r", Attempt: 1, Devices: c.devices, Options: run.Options{Target: &run.Target{Worker: "box", MemoryGiB: c.gib}}},
			Program: graph.Program{Command: &run.CommandSpec{Argv: []string{"true"}}},
		}
		a, err := assign.Builder{}.Build(t.Context(), job, &protocol.Hello{}, c.to)
		switch {
		case c.refused:
			if err == nil || !strings.Contains(err.Error(), "old") || !strings.Contains(err.Error(), "--memory") {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil || !reflect.DeepEqual(a.MemoryBudgets, c.want):
			t.Errorf("%s: %v, %v", c.name, a, err)
		}
	}
}
