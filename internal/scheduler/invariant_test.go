package scheduler_test

import (
	"strings"
	"testing"

	"cdui/internal/scheduler"
)

// Proves Q-03: a debug build sees a card with too much on it and a run that
// waits beside an idle slot.
func TestABrokenPromiseIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		world *world
		says  string
	}{
		"one on its card":      {newWorld("cuda:0").hold("cuda:0", "x"), ""},
		"two on a card of one": {newWorld("cuda:0").hold("cuda:0", "x", "y"), "2 runs are on it and cuda:0 takes 1"},
		"two by two workers": {
			newWorld("a/cuda:0", "b/cuda:0").one("g", "a/cuda:0", "b/cuda:0").hold("a/cuda:0", "x").hold("b/cuda:0", "y"),
			"2 runs are on it",
		},
		"budgets that fit":      {newWorld("a/cuda:0").shared("a/cuda:0", 10000, 10000).hold("a/cuda:0", "x:4000", "y:4000"), ""},
		"budgets that don't":    {newWorld("a/cuda:0").shared("a/cuda:0", 10000, 10000).hold("a/cuda:0", "x:5000", "y:4500"), "10524 MiB are promised of its 10000"},
		"one without a budget":  {newWorld("a/cuda:0").shared("a/cuda:0", 10000, 10000).hold("a/cuda:0", "x:1000", "y"), "a run without a budget shares it"},
		"waits beside a slot":   {newWorld("cuda:0", "cuda:1").hold("cuda:0", "x").wait("y=> cuda:1"), "y still waits though cuda:1 is free"},
		"waits behind a holder": {newWorld("cuda:0").hold("cuda:0", "x").wait("y=> cuda:0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var starts []scheduler.Start
			for _, card := range c.world.Cards {
				for _, h := range card.Holders {
					starts = append(starts, scheduler.Start{RunID: h.RunID, Slots: []scheduler.Slot{h.Slot}})
				}
			}
			if got := scheduler.Broken(c.world.Snapshot, starts); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("%q, want %q", got, c.says)
			}
		})
	}
}
