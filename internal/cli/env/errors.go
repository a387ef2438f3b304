package env

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"cdui/internal/client"
)

// Usage is a command line, or a setting, that makes no sense.
type Usage struct {
	Text string
}

func (e *Usage) Error() string { return e.Text }

// Lasting tells that trying again won't help.
func (*Usage) Lasting() bool { return true }

// Usagef makes a *Usage.
func Usagef(format string, args ...any) error { return &Usage{Text: fmt.Sprintf(format, args...)} }

// AsUsage makes a *Usage of an error that has no kind of its own.
func AsUsage(err error) error {
	var gone *client.Unreachable
	if err == nil || errors.As(err, &gone) {
		return err
	}
	return &Usage{Text: err.Error()}
}

// Exit ends the command with a code. Text is printed when it isn't empty.
type Exit struct {
	Code int
	Text string
}

func (e *Exit) Error() string { return e.Text }

// Lasting tells that trying again won't help.
func (*Exit) Lasting() bool { return true }

// Failed is an Exit with code 1: the thing itself failed. Without text the
// command has said it all already.
func Failed(format string, args ...any) error {
	if format == "" {
		return &Exit{Code: 1}
	}
	return &Exit{Code: 1, Text: fmt.Sprintf(format, args...)}
}

// NotFound is an Exit with code 4: what was named isn't there.
func NotFound(format string, args ...any) error {
	return &Exit{Code: 4, Text: fmt.Sprintf(format, args...)}
}

// Interrupted is the cause of a context that a signal ended.
type Interrupted struct {
	Signal os.Signal
}

func (e *Interrupted) Error() string { return "stopped by " + e.Signal.String() }

// ExitCode is 128 and the signal's number, as shells have it.
func (e *Interrupted) ExitCode() int {
	if n, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 130
}
