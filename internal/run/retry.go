package run

import (
	"math"
	"slices"
	"time"
)

// Retry says when a run that ended badly is repeated, as a run of its own.
type Retry struct {
	// Limit is how often at most.
	Limit int `json:"limit"`
	// On are the ends after which it is; empty is all but those that would come
	// again: a bad graph, the time limit, a cancel.
	On []EndClass `json:"on"`
	// DelayS is the pause before the first repetition in seconds; each further
	// one is twice as long, up to MaxRetryDelay.
	DelayS float64 `json:"delay_s"`

	// Number counts the repetitions up to this run, Root is the first run, and
	// NotBefore is when its pause is over. They are written by the control plane.
	Number    int        `json:"number,omitempty"`
	Root      string     `json:"root,omitempty"`
	NotBefore *time.Time `json:"not_before,omitempty"`
}

// The limits of retries.
const (
	MaxRetryLimit = 100
	MaxRetryDelay = time.Hour
	retryDelayS   = 10
)

// again tells whether an end of this class is worth a repetition.
func (r *Retry) again(class EndClass) bool {
	if len(r.On) > 0 {
		return slices.Contains(r.On, class)
	}
	return class != EndBadGraph && class != EndTimeout
}

// pause is the pause before the repetition with this number, from 1.
func (r *Retry) pause(number int) time.Duration {
	s := r.DelayS * math.Pow(2, float64(number-1))
	return time.Duration(min(s, MaxRetryDelay.Seconds()) * float64(time.Second))
}

// RaiseBudget is by how much an estimate grows after it was too small.
const RaiseBudget = 1.5

// Repeat gives the options of the run that repeats one that ended at now with
// this status and class, and false if none does. A budget that was estimated
// and too small is raised.
func (o Options) Repeat(id string, status Status, class EndClass, now time.Time) (Options, bool) {
	r := o.Retry
	if r == nil || r.Number >= r.Limit || status != Failed && status != Interrupted || !r.again(class) {
		return Options{}, false
	}
	next := *r
	next.Number++
	if next.Root == "" {
		next.Root = id
	}
	next.NotBefore = nil
	if pause := next.pause(next.Number); pause > 0 {
		at := now.Add(pause)
		next.NotBefore = &at
	}
	o.Retry, o.Key, o.After, o.Hold = &next, "", []After{}, false
	if t := o.Target; t != nil && class == EndOutOfMemory && t.MemorySource == MemoryEstimate && t.MemoryGiB > 0 {
		raised := *t
		raised.MemoryGiB, raised.Raised = t.MemoryGiB*RaiseBudget, true
		o.Target = &raised
	}
	return o, true
}

// Fresh gives options as they could have been submitted: without what the
// control plane wrote into them.
func (o Options) Fresh() Options {
	if o.Retry != nil {
		o.Retry = &Retry{Limit: o.Retry.Limit, On: o.Retry.On, DelayS: o.Retry.DelayS}
	}
	if t := o.Target; t != nil {
		fresh := *t
		fresh.Raised = false
		if fresh.MemorySource == MemoryEstimate {
			fresh.MemoryGiB = 0
		}
		o.Target = &fresh
	}
	return o
}

// RetryRoot is the first run of a chain of repetitions.
func (r Row) RetryRoot() string {
	if r.Options.Retry != nil && r.Options.Retry.Root != "" {
		return r.Options.Retry.Root
	}
	return r.ID
}

// Peak is the most memory that an earlier run of the same kind took of one card.
type Peak struct {
	MiB   int64
	Class EndClass
}

// estimateMargin is laid on the peaks of earlier runs, and estimateStep is what
// estimates are rounded up to, in MiB.
const (
	estimateMargin = 1.1
	estimateStep   = 256
)

// Estimate gives a budget in GiB from what earlier runs took, 0 without any.
// raised: one of them ran out of memory and the budget is above what it had.
func Estimate(peaks []Peak) (gib float64, raised bool) {
	most := 0.0
	for _, p := range peaks {
		grown := float64(p.MiB) * estimateMargin
		if p.Class == EndOutOfMemory {
			grown = float64(p.MiB) * RaiseBudget
		}
		if grown > most {
			most, raised = grown, p.Class == EndOutOfMemory
		}
	}
	return math.Ceil(most/estimateStep) * estimateStep / 1024, raised
}

// Pausing tells whether a repetition's pause is not over at now, and if so why
// it waits and until when.
func (r Row) Pausing(now time.Time) (Reason, time.Time, bool) {
	again := r.Options.Retry
	if again == nil || again.NotBefore == nil || !now.Before(*again.NotBefore) {
		return Reason{}, time.Time{}, false
	}
	return Backoff(r.RetryOf, again.Number, again.Limit, *again.NotBefore), *again.NotBefore, true
}
