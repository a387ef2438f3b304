package client

// Unreachable is returned when no control plane answers. Its text says what to
// do about that.
type Unreachable struct {
	Text string
	Err  error
	// Absent says that none was started here, or that it has ended.
	Absent bool
}

func (e *Unreachable) Error() string { return e.Text }

func (e *Unreachable) Unwrap() error { return e.Err }
