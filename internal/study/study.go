package study

import (
	"fmt"
	"time"

	"cdui/internal/run"
)

// The limits of a study.
const (
	MaxRepetitions = 1000
	MaxAttempts    = 100
)

// The defaults of a study.
const (
	DefaultAttempts   = 3
	DefaultConfidence = 0.95
)

// Spec is what a study does. A budget of 0 is none.
type Spec struct {
	Repetitions int     `json:"repetitions"`
	Seed        int64   `json:"seed"`
	Confidence  float64 `json:"confidence"`
	// MaxAttempts is how many attempts of one repetition may get lost.
	MaxAttempts int `json:"max_attempts"`
	// MaxRunSeconds stops an attempt that executes longer; MaxActiveSeconds
	// stops the study when its attempts have executed that long together.
	MaxRunSeconds    float64 `json:"max_run_seconds"`
	MaxActiveSeconds float64 `json:"max_active_seconds"`
}

// mostSeconds keeps budgets inside what a Duration can hold.
const mostSeconds = 1e9

// Check refuses a spec that can't be carried out.
func (s Spec) Check() error {
	switch {
	case s.Repetitions < 1 || s.Repetitions > MaxRepetitions:
		return fmt.Errorf("repetitions: must be 1 to %d", MaxRepetitions)
	case s.Seed < 0 || s.Seed > run.MaxSeed:
		return fmt.Errorf("seed: must be 0 to %d", run.MaxSeed)
	case !(s.Confidence > 0 && s.Confidence < 1):
		return fmt.Errorf("confidence: must lie between 0 and 1, such as 0.95")
	case s.MaxAttempts < 1 || s.MaxAttempts > MaxAttempts:
		return fmt.Errorf("max_attempts: must be 1 to %d", MaxAttempts)
	case !(s.MaxRunSeconds >= 0 && s.MaxRunSeconds <= mostSeconds):
		return fmt.Errorf("max_run_seconds: must be 0 (no limit) to %g", mostSeconds)
	case !(s.MaxActiveSeconds >= 0 && s.MaxActiveSeconds <= mostSeconds):
		return fmt.Errorf("max_active_seconds: must be 0 (no limit) to %g", mostSeconds)
	}
	return nil
}

// SeedOf is the seed of repetition i; all of its attempts have it.
func (s Spec) SeedOf(i int) int64 { return run.ChildSeed(s.Seed, i) }

// Key is the idempotency key of an attempt: submitted again it is the same run.
func Key(study string, repetition, attempt int) string {
	return fmt.Sprintf("study:%s:%d:%d", study, repetition, attempt)
}

// Stop is why a study, or one attempt, was stopped.
type Stop string

// The reasons for stopping.
const (
	NotStopped   Stop = ""
	ByCancel     Stop = "cancelled"
	ByRunTime    Stop = "max_run_seconds"
	ByActiveTime Stop = "max_active_seconds"
)

// Attempt is one run of a repetition.
type Attempt struct {
	// Number counts the repetition's attempts from 1.
	Number int    `json:"attempt"`
	RunID  string `json:"run_id"`
	// Status is empty for an attempt that was refused when it was submitted.
	Status     run.Status   `json:"status"`
	EndClass   run.EndClass `json:"end_class"`
	Error      string       `json:"error"`
	StartedAt  *time.Time   `json:"started_at"`
	FinishedAt *time.Time   `json:"finished_at"`
	// Stopped says which budget or order ended it.
	Stopped Stop `json:"stopped"`
	// Void attempts are from before the study was resumed.
	Void bool `json:"void"`
	// Gone: the run was removed before it was seen ended.
	Gone bool `json:"gone,omitempty"`
	// Metrics is the last value of each series of an attempt that succeeded.
	Metrics map[string]run.Last `json:"metrics,omitempty"`

	// Asked: its run was told to stop.
	Asked bool `json:"-"`
}

// Active tells whether the attempt waits or executes.
func (a Attempt) Active() bool { return a.Status.Active() && !a.Gone }

// Scored tells whether the attempt counts.
func (a Attempt) Scored() bool { return a.Status == run.Succeeded }

// Lost tells whether the attempt ended through no doing of its own or of
// somebody's order.
func (a Attempt) Lost() bool {
	if a.Active() || a.Scored() || a.Stopped != NotStopped {
		return false
	}
	return a.Gone || a.Status == run.Interrupted || a.EndClass == run.EndWorkerLost || a.EndClass == run.EndServer
}

// Took is how long the attempt has executed.
func (a Attempt) Took(now time.Time) time.Duration {
	switch {
	case a.StartedAt == nil:
		return 0
	case a.FinishedAt != nil:
		return max(0, a.FinishedAt.Sub(*a.StartedAt))
	case !a.Active():
		return 0
	}
	return max(0, now.Sub(*a.StartedAt))
}

// Outcome is how a repetition stands.
type Outcome string

// The outcomes of a repetition.
const (
	Waiting   Outcome = "waiting" // it has no attempt yet, or gets another one
	Going     Outcome = "active"
	Scored    Outcome = "scored"
	Failed    Outcome = "failed"
	OverTime  Outcome = "over_time"
	Lost      Outcome = "lost"
	Cancelled Outcome = "cancelled"
)

// OutcomeOf says how a repetition stands.
func (s Spec) OutcomeOf(attempts []Attempt, stopped bool) Outcome {
	lost := 0
	var last *Attempt
	for i := range attempts {
		a := &attempts[i]
		switch {
		case a.Scored():
			return Scored
		case a.Active():
			return Going
		case a.Void:
			continue
		case a.Lost():
			lost++
		}
		last = a
	}
	switch {
	case last == nil && stopped, last != nil && last.Lost() && lost < s.MaxAttempts && stopped:
		return Cancelled
	case last == nil, last.Lost() && lost < s.MaxAttempts:
		return Waiting
	case last.Lost():
		return Lost
	case last.Stopped == ByRunTime:
		return OverTime
	case last.Stopped != NotStopped, last.Status == run.Cancelled:
		return Cancelled
	}
	return Failed
}

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	return []Outcome{Waiting, Going, Scored, Failed, OverTime, Lost, Cancelled}
}
