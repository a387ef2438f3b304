package study

import "time"

// Situation is all that Step goes by.
type Situation struct {
	Spec Spec
	// Repetitions holds each one's attempts, in their order.
	Repetitions [][]Attempt
	// Stopped says that the study was stopped before.
	Stopped Stop
	Now     time.Time
}

// Start is an attempt to be submitted.
type Start struct{ Repetition, Attempt int }

// Order is an attempt to be cancelled, and why.
type Order struct {
	Repetition, Attempt int
	RunID               string
	Why                 Stop
}

// Decision is what is to be done now.
type Decision struct {
	Starts []Start
	Cancel []Order
	// Stop is set when the study itself stops now.
	Stop Stop
	// Wake is when to look again, though nothing ends; zero is never.
	Wake time.Time
	// Done: nothing is to be done and nothing goes on.
	Done bool
}

// Step decides what is to be done for a study. It asks for nothing twice: an
// attempt that was asked to stop isn't asked again.
func Step(s Situation) Decision {
	d := Decision{Done: true}
	total, executing := s.active()
	stopped := s.Stopped
	if budget := seconds(s.Spec.MaxActiveSeconds); stopped == NotStopped && budget > 0 && s.unscored() {
		if total >= budget {
			stopped, d.Stop = ByActiveTime, ByActiveTime
		} else if executing > 0 {
			d.wake(s.Now.Add((budget-total)/time.Duration(executing) + time.Millisecond))
		}
	}
	for i, attempts := range s.Repetitions {
		switch s.Spec.OutcomeOf(attempts, stopped != NotStopped) {
		case Waiting:
			d.Starts = append(d.Starts, Start{i, len(attempts) + 1})
			d.Done = false
		case Going:
			d.Done = false
			for _, a := range attempts {
				if a.Active() {
					d.look(s, i, a, stopped)
				}
			}
		case Scored, Failed, OverTime, Lost, Cancelled:
		}
	}
	return d
}

// look decides about an attempt that goes on.
func (d *Decision) look(s Situation, i int, a Attempt, stopped Stop) {
	why := stopped
	if limit := seconds(s.Spec.MaxRunSeconds); why == NotStopped && limit > 0 && a.StartedAt != nil {
		if a.Took(s.Now) >= limit {
			why = ByRunTime
		} else {
			d.wake(a.StartedAt.Add(limit))
		}
	}
	if why != NotStopped && !a.Asked {
		d.Cancel = append(d.Cancel, Order{Repetition: i, Attempt: a.Number, RunID: a.RunID, Why: why})
	}
}

func (d *Decision) wake(at time.Time) {
	if d.Wake.IsZero() || at.Before(d.Wake) {
		d.Wake = at
	}
}

// active adds up how long the attempts have executed, and counts those that do
// now.
func (s Situation) active() (total time.Duration, executing int) {
	for _, attempts := range s.Repetitions {
		for _, a := range attempts {
			total += a.Took(s.Now)
			if a.Active() && a.StartedAt != nil {
				executing++
			}
		}
	}
	return total, executing
}

// ActiveTime is how long the attempts of a study have executed together.
func (s Situation) ActiveTime() time.Duration {
	total, _ := s.active()
	return total
}

// unscored tells whether there is anything left that a budget could stop.
func (s Situation) unscored() bool {
	for _, attempts := range s.Repetitions {
		if o := s.Spec.OutcomeOf(attempts, false); o == Waiting || o == Going {
			return true
		}
	}
	return false
}

// Wanting lists the repetitions that a resume gives another attempt: those
// without a score for which nothing goes on.
func Wanting(repetitions [][]Attempt) []int {
	var out []int
	for i, attempts := range repetitions {
		wants := true
		for _, a := range attempts {
			wants = wants && !a.Scored() && !a.Active()
		}
		if wants {
			out = append(out, i)
		}
	}
	return out
}

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
