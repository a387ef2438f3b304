package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"cdui/internal/run"
)

// Missing is the status of a variant whose run is gone and was never seen
// ended.
const Missing run.Status = "missing"

// Result is what is known of a variant's run.
type Result struct {
	Index  int
	Status run.Status
	// Objective is nil while the run goes on, and when it logged none.
	Objective *run.Last
}

// Rank gives each result's rank by its place in the list, 1 for the best and 0
// for those without an objective, and the order in which to show them: by
// rank, then by index. What is no number is worst.
func Rank(results []Result, direction string) (ranks, order []int) {
	order = make([]int, len(results))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return compare(results[i], results[j], direction) })
	ranks = make([]int, len(results))
	for place, i := range order {
		if _, ok := results[i].ranked(); ok {
			ranks[i] = place + 1
		}
	}
	return ranks, order
}

// ranked gives what a result is ranked by: one that goes on isn't.
func (r Result) ranked() (float64, bool) {
	if !r.Status.Terminal() {
		return 0, false
	}
	return r.Objective.Float()
}

func compare(a, b Result, direction string) int {
	x, hasX := a.ranked()
	y, hasY := b.ranked()
	byIndex := cmp.Compare(a.Index, b.Index)
	switch {
	case !hasX && !hasY:
		return byIndex
	case !hasX:
		return 1
	case !hasY:
		return -1
	case math.IsNaN(x) || math.IsNaN(y):
		// NaN is below everything for cmp.
		return cmp.Or(-cmp.Compare(x, y), byIndex)
	case direction == Maximize:
		x, y = y, x
	}
	return cmp.Or(cmp.Compare(x, y), byIndex)
}

// State is how a sweep stands.
type State string

// The states of a sweep. One that was cancelled ends finished.
const (
	Running    State = "running"
	Cancelling State = "cancelling"
	Finished   State = "finished"
	Failed     State = "failed"
)

// StateOf gives a sweep's state from those of its variants. failed: its runs
// could not be queued; cancelled: somebody asked it to stop.
func StateOf(results []Result, failed, cancelled bool) State {
	active := slices.ContainsFunc(results, func(r Result) bool { return r.Status.Active() })
	switch {
	case failed:
		return Failed
	case active && cancelled:
		return Cancelling
	case active:
		return Running
	}
	return Finished
}

// Warning says why a sweep has no best variant, "" where it has one or may
// still get one.
func Warning(results []Result, o Objective) string {
	logged := false
	for _, r := range results {
		f, ok := r.ranked()
		if ok && !math.IsNaN(f) || r.Status.Active() {
			return ""
		}
		logged = logged || ok
	}
	if logged {
		return fmt.Sprintf("no variant ended with a number in %q", o.Metric)
	}
	return fmt.Sprintf("no variant logged the metric %q; is it the name that the runs use?", o.Metric)
}
