package phrase

import (
	"encoding/json"
	"fmt"

	"cdui/internal/api"
	"cdui/internal/cli/text"
	"cdui/internal/run"
	"cdui/internal/study"
	"cdui/internal/sweep"
)

// SweepStatus is the status of a run that a sweep's state is most like.
func SweepStatus(w api.SweepSummary) run.Status {
	_, all := SweepProgress(w)
	switch {
	case w.State == sweep.Failed:
		return run.Failed
	case w.State != sweep.Finished:
		return run.Running
	case w.Counts[run.Succeeded] == all:
		return run.Succeeded
	case w.Counts[run.Failed] > 0:
		return run.Failed
	}
	return run.Cancelled
}

// SweepProgress counts the variants that have ended, and all of them.
func SweepProgress(w api.SweepSummary) (done, all int) {
	for s, n := range w.Counts {
		all += n
		if !s.Active() {
			done += n
		}
	}
	return done, all
}

// SweepBest is the best variant's objective, and which variant it is.
func SweepBest(w api.SweepSummary) string {
	if w.Best == nil {
		return text.Dash
	}
	return fmt.Sprintf("%s %s (#%d)", Clean(w.Objective.Metric), Objective(w.Best.Objective, w.Best.ObjectiveNonfinite), w.Best.Index+1)
}

// Objective is a number, those that JSON can't hold included.
func Objective(raw json.RawMessage, nonfinite string) string {
	if nonfinite != "" {
		return nonfinite
	}
	return text.Number(raw)
}

// SweepValue is what a variant sets a param to.
func SweepValue(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return Clean(s)
	}
	return text.Number(raw)
}

// StudyStatus is the status of a run that a study's state is most like.
func StudyStatus(y api.StudySummary) run.Status {
	switch {
	case y.State != api.StudyFinished:
		return run.Running
	case y.Counts[study.Scored] == y.Repetitions:
		return run.Succeeded
	case y.Stopped != study.NotStopped:
		return run.Cancelled
	}
	return run.Failed
}

// StudyResult is the first metric with its spread.
func StudyResult(s text.Style, y api.StudySummary) string {
	if len(y.Metrics) == 0 {
		return text.Dash
	}
	return Clean(y.Metrics[0].Name) + " " + Spread(s, y.Metrics[0])
}

// Spread is a mean with its standard deviation.
func Spread(s text.Style, m study.Summary) string {
	between := " ± "
	if !s.Unicode {
		between = " +- "
	}
	if m.SD == nil {
		return Figure(m.Mean)
	}
	return Figure(m.Mean) + between + Figure(m.SD)
}

// Figure is a number that may not be known.
func Figure(f *float64) string {
	if f == nil {
		return text.Dash
	}
	return text.Float(*f)
}
