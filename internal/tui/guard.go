package tui

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	tea "charm.land/bubbletea/v2"
)

// crashed is what becomes of a panic in a command: the program ends in order,
// with the terminal restored before anything is said.
type crashed struct {
	err error
}

// Crash is a panic in the program.
type Crash struct {
	Value any
	Stack []byte
}

func (c *Crash) Error() string { return fmt.Sprintf("%v: %v\n\n%s", ErrCrashed, c.Value, c.Stack) }

func (*Crash) Unwrap() error { return ErrCrashed }

// commands counts those that are under way, so that none outlives the program.
// The zero value is ready.
type commands struct {
	mu    sync.Mutex
	over  bool
	going sync.WaitGroup
}

func (c *commands) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.going.Add(1)
	return true
}

// close lets no more begin and waits for those that have: their context is over.
func (c *commands) close() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.going.Wait()
}

// guard makes a command that can't take the program down with it.
func (c *commands) guard(cmd tea.Cmd) tea.Cmd {
	if cmd == nil {
		return nil
	}
	return func() (msg tea.Msg) {
		if !c.begin() {
			return nil
		}
		defer c.going.Done()
		defer func() {
			if r := recover(); r != nil {
				msg = crashed{&Crash{r, debug.Stack()}}
			}
		}()
		msg = cmd()
		if batch, ok := msg.(tea.BatchMsg); ok {
			all := make(tea.BatchMsg, len(batch))
			for i, one := range batch {
				all[i] = c.guard(one)
			}
			msg = all
		}
		return msg
	}
}

// terminal is what the library takes for one.
type terminal interface {
	io.ReadWriteCloser
	Fd() uintptr
	Name() string
}

// input tells when there is no more of it: the library takes that for silence,
// and would go on for ever where no signal comes of a line that is cut.
type input struct {
	terminal
	gone context.CancelCauseFunc
}

// whileThere has a program end with the terminal that it reads.
func whileThere(r io.Reader, gone context.CancelCauseFunc) io.Reader {
	if t, ok := r.(terminal); ok {
		return input{t, gone}
	}
	return r
}

// Read implements io.Reader.
func (i input) Read(p []byte) (int, error) {
	n, err := i.terminal.Read(p)
	if err != nil {
		i.gone(fmt.Errorf("%w: %w", errGone, err))
	}
	return n, err //nolint:wrapcheck // the library looks at it
}
