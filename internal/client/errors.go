package client

// Unreachable is returned when no control plane answers. Its text says what to
// do about that.
type Unreachable struct {
	Text string
	Err  error
	// Absent says that none was started here, or that it has ended.
	Absent bool
	// Untrusted says that somebody answers who isn't who was meant.
	Untrusted bool
}

// Lasting tells that trying again won't help.
func (e *Unreachable) Lasting() bool { return e.Untrusted }

func (e *Unreachable) Error() string { return e.Text }

func (e *Unreachable) Unwrap() error { return e.Err }
