package supervise

import (
	"fmt"
	"slices"
	"strings"

	"cdui/internal/protocol"
)

// Do is what an action does.
type Do int

// What the agent can do.
const (
	// Start prepares and starts an ordered attempt.
	Start Do = iota + 1
	// Refuse reports that an ordered attempt failed before it began.
	Refuse
	// Drop forgets an order that came twice.
	Drop
	// Follow reads the records of a run that was found.
	Follow
	// Cancel passes a stop on to a run.
	Cancel
	// Tidy removes a run's folder.
	Tidy
	// Forget drops what is remembered of an attempt that has no folder.
	Forget
)

// Action is one thing to do.
type Action struct {
	Do  Do
	Key Key
	// Stop is set for Cancel.
	Stop Stop
	// Code, one of the protocol's refusals, and Text are set for Refuse.
	Code string
	Text string
}

// Step says what to do now. The actions don't depend on each other and are in
// a stable order: runs first, orders as they came.
func Step(s State) []Action {
	var out []Action
	for _, r := range s.Runs {
		if a, ok := forRun(s, r); ok {
			out = append(out, a)
		}
	}
	taken := map[string]bool{}
	for _, o := range s.Orders {
		a, ok := forOrder(s, o, taken)
		if ok {
			out = append(out, a)
		}
	}
	return out
}

// forRun gives at most one action: the next one shows when it is done.
func forRun(s State, r Run) (Action, bool) {
	wanted := r.Wanted
	if s.StopAll.Harder(wanted) {
		wanted = s.StopAll
	}
	switch r.Phase {
	case Preparing, Live:
		if r.Phase == Live && !r.Followed {
			return Action{Do: Follow, Key: r.Key}, true
		}
		if wanted.Harder(r.Told) {
			return Action{Do: Cancel, Key: r.Key, Stop: *wanted}, true
		}
	case Ended:
		if r.Recorded || superseded(s, r) {
			return Action{Do: Tidy, Key: r.Key}, true
		}
		if !r.Followed {
			return Action{Do: Follow, Key: r.Key}, true
		}
	case Blank:
		return Action{Do: Tidy, Key: r.Key}, true
	case Refused:
		if r.Recorded {
			return Action{Do: Forget, Key: r.Key}, true
		}
	case Tidying:
	}
	return Action{}, false
}

// superseded tells whether a newer attempt of an ended run was ordered: then
// nobody waits for the records of this one any more.
func superseded(s State, r Run) bool {
	return slices.ContainsFunc(s.Orders, func(o Order) bool {
		return o.RunID == r.RunID && o.Attempt > r.Attempt
	})
}

// forOrder decides about one order. taken holds the runs that an earlier order
// of this step takes.
func forOrder(s State, o Order, taken map[string]bool) (Action, bool) {
	wait := false
	for _, r := range s.Runs {
		if r.RunID != o.RunID {
			continue
		}
		switch {
		case r.Attempt == o.Attempt && r.Phase != Blank:
			// Answering it would end what it started.
			return Action{Do: Drop, Key: o.Key}, true
		case r.Phase == Preparing || r.Phase == Live:
			return refusal(o, protocol.RefuseAlreadyRunning, fmt.Sprintf("this worker executes attempt %d of the run already", r.Attempt)), true
		case r.Phase == Refused:
		case r.Attempt > o.Attempt:
			return refusal(o, protocol.RefuseAlreadyRunning, fmt.Sprintf("this worker has executed the newer attempt %d of the run", r.Attempt)), true
		default:
			wait = true // until the older attempt's folder is gone
		}
	}
	if taken[o.RunID] {
		return refusal(o, protocol.RefuseAlreadyRunning, "this worker was given the run twice"), true
	}
	if s.Draining || s.StopAll != nil {
		return refusal(o, protocol.RefuseDraining, "the worker is draining and takes no runs"), true
	}
	for _, d := range o.Devices {
		if !slices.Contains(s.Offered, d) {
			return refusal(o, protocol.RefuseDeviceNotOffered, fmt.Sprintf("the worker does not offer %s; it offers %s", d, strings.Join(s.Offered, ", "))), true
		}
	}
	if o.NeedsTorch && !s.Torch {
		return refusal(o, protocol.RefuseNoTorch, "the worker's Python does not import torch; start the agent with --python and an interpreter that does"), true
	}
	taken[o.RunID] = true
	if wait {
		return Action{}, false
	}
	return Action{Do: Start, Key: o.Key}, true
}

func refusal(o Order, code string, text string) Action {
	return Action{Do: Refuse, Key: o.Key, Code: code, Text: text}
}
