package supervise

import "time"

// Key names one attempt of one run.
type Key struct {
	RunID   string
	Attempt int
}

// Phase is how far an attempt has come on this machine.
type Phase int

// The phases of an attempt.
const (
	// Preparing: its files are on their way, or its shim is being started.
	Preparing Phase = iota + 1
	// Live: its shim is at work.
	Live
	// Ended: its shim is gone. The end is recorded, or the loss is known.
	Ended
	// Blank is a folder in which nothing was ever started.
	Blank
	// Refused: it was not taken, or could not be started; nothing of it is here.
	Refused
	// Tidying: its folder is being removed.
	Tidying
)

// Stop says how a run is to end.
type Stop struct {
	Grace time.Duration
	// Force kills at once.
	Force bool
}

// Harder tells whether s leaves a run less time than other does.
func (s *Stop) Harder(other *Stop) bool {
	switch {
	case s == nil:
		return false
	case other == nil:
		return true
	case s.Force != other.Force:
		return s.Force
	}
	return !s.Force && s.Grace < other.Grace
}

// Order is an assignment that nothing was done about yet.
type Order struct {
	Key
	Devices []string
	// NeedsTorch is set for what can't execute without torch.
	NeedsTorch bool
}

// Run is an attempt that this machine holds.
type Run struct {
	Key
	Phase Phase
	// Wanted is how the control plane wants it to end, nil while it may go on;
	// Told is what was last passed on.
	Wanted, Told *Stop
	// Followed is set once somebody reads its records.
	Followed bool
	// Recorded is set once the control plane holds its end.
	Recorded bool
}

// State is all that Step looks at.
type State struct {
	// Orders are in the order in which they came.
	Orders []Order
	Runs   []Run
	// Draining: nothing new is taken.
	Draining bool
	// StopAll ends every run: the agent was told to, or the control plane
	// has refused it for too long.
	StopAll *Stop
	// Offered are the devices that the agent has told the control plane.
	Offered []string
	// Torch tells whether the interpreter imports torch.
	Torch bool
}
