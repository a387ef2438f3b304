package run

import (
	"maps"
	"slices"
)

// Status is where a run stands.
type Status string

// The statuses of a run.
const (
	Queued       Status = "queued"
	Running      Status = "running"
	Disconnected Status = "disconnected"
	Succeeded    Status = "succeeded"
	Failed       Status = "failed"
	Cancelled    Status = "cancelled"
	Interrupted  Status = "interrupted"
)

// Statuses lists every status in the order of a run's life.
func Statuses() []Status {
	return []Status{Queued, Running, Disconnected, Succeeded, Failed, Cancelled, Interrupted}
}

// Valid tells whether s is one of the known statuses.
func (s Status) Valid() bool { return slices.Contains(Statuses(), s) }

// Terminal tells whether a run in status s has ended. Such a row never changes.
func (s Status) Terminal() bool {
	return s == Succeeded || s == Failed || s == Cancelled || s == Interrupted
}

// Active tells whether a run in status s still waits or executes.
func (s Status) Active() bool { return s.Valid() && !s.Terminal() }

// Signal is something that happens to a run.
type Signal string

// The signals that Next knows.
const (
	// Place: the scheduler gave the run its slots.
	Place Signal = "place"
	// Requeue: the placement never reached a child, so the run waits again
	// and its next placement is another attempt.
	Requeue Signal = "requeue"
	// LinkLost and LinkBack: the executor's connection to the run.
	LinkLost Signal = "link_lost"
	LinkBack Signal = "link_back"
	// CancelWaiting: a run that has no child is cancelled.
	CancelWaiting Signal = "cancel_waiting"
	// Give up on a run whose executor is gone: the grace ran out, or force.
	GiveUp       Signal = "give_up"
	GiveUpCancel Signal = "give_up_cancel"
	// Shutdown: the control plane ends a run that it can't carry on.
	Shutdown Signal = "shutdown"
	// Unplaceable: the run can never start any more.
	Unplaceable Signal = "unplaceable"
	// The child's own end.
	EndSucceeded   Signal = "end_succeeded"
	EndFailed      Signal = "end_failed"
	EndCancelled   Signal = "end_cancelled"
	EndInterrupted Signal = "end_interrupted"
)

// Signals lists every signal.
func Signals() []Signal {
	return []Signal{
		Place, Requeue, LinkLost, LinkBack, CancelWaiting, GiveUp, GiveUpCancel, Shutdown,
		Unplaceable, EndSucceeded, EndFailed, EndCancelled, EndInterrupted,
	}
}

// transitions is the whole status machine; what it doesn't list can't happen.
// docs/states.md is printed from it.
func transitions() map[Status]map[Signal]Status {
	ends := map[Signal]Status{
		EndSucceeded: Succeeded, EndFailed: Failed, EndCancelled: Cancelled, EndInterrupted: Interrupted,
	}
	with := func(more map[Signal]Status) map[Signal]Status {
		maps.Copy(more, ends)
		return more
	}
	return map[Status]map[Signal]Status{
		Queued: {
			Place: Running, CancelWaiting: Cancelled, Shutdown: Interrupted, Unplaceable: Failed,
		},
		Running: with(map[Signal]Status{
			Requeue: Queued, LinkLost: Disconnected, GiveUp: Interrupted,
			GiveUpCancel: Cancelled, Shutdown: Interrupted,
		}),
		Disconnected: with(map[Signal]Status{
			Requeue: Queued, LinkBack: Running, GiveUp: Interrupted,
			GiveUpCancel: Cancelled, Shutdown: Interrupted,
		}),
	}
}

// Next gives the status that signal leads to, and false when the signal has no
// meaning in that status: the late writer loses, the row stays as it is.
func Next(s Status, signal Signal) (Status, bool) {
	next, ok := transitions()[s][signal]
	if !ok {
		return s, false
	}
	return next, true
}

// EndSignal translates a child's own verdict into a signal.
func EndSignal(verdict Status) (Signal, bool) {
	switch verdict {
	case Succeeded:
		return EndSucceeded, true
	case Failed:
		return EndFailed, true
	case Cancelled:
		return EndCancelled, true
	case Interrupted:
		return EndInterrupted, true
	}
	return "", false
}

// EndClass is why a run that did not succeed ended as it did.
type EndClass string

// The end classes. OutOfMemory is claimed only with evidence.
const (
	EndUserCode    EndClass = "user_code"
	EndOutOfMemory EndClass = "out_of_memory"
	EndKilled      EndClass = "killed"
	EndCancel      EndClass = "cancelled"
	EndTimeout     EndClass = "timeout"
	EndWorkerLost  EndClass = "worker_lost"
	EndServer      EndClass = "server"
	EndBadGraph    EndClass = "bad_graph"
)
