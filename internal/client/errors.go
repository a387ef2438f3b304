package client

// Unreachable is returned when no control plane answers. Its text says what to
// do about that.
type Unreachable struct {
	Text string
	Err  error
}

func (e *Unreachable) Error() string { return e.Text }

func (e *Unreachable) Unwrap() error { return e.Err }
