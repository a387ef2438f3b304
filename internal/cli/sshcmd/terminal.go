package sshcmd

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"cdui/internal/sshtunnel"
)

// terminal asks on the terminal that the command was started from, whatever its
// standard input is, and remembers the answers that can be given again.
type terminal struct {
	tty     *os.File
	answers map[string]string
}

// openTerminal gives the terminal, nil where there is none.
func openTerminal() *terminal {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &terminal{tty: tty, answers: map[string]string{}}
}

func (t *terminal) close() {
	if t != nil {
		t.tty.Close()
	}
}

// Secret implements sshtunnel.Asker.
func (t *terminal) Secret(ctx context.Context, q sshtunnel.Question) (string, error) {
	fd := int(t.tty.Fd())
	state, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("%w: %s", sshtunnel.ErrNeedsTyping, q.Prompt)
	}
	fmt.Fprintf(t.tty, "%s: ", q.Prompt)
	answer, err := await(ctx, func() (string, error) {
		typed, err := term.ReadPassword(fd)
		return string(typed), err
	})
	fmt.Fprintln(t.tty)
	if err != nil {
		_ = term.Restore(fd, state) // somebody pressed Ctrl-C
		return "", err
	}
	if !q.Once {
		t.answers[q.ID] = answer
	}
	return answer, nil
}

// Confirm implements sshtunnel.Asker.
func (t *terminal) Confirm(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(t.tty, "%s (yes/no) ", question)
	in := bufio.NewReader(t.tty)
	for {
		line, err := await(ctx, func() (string, error) { return in.ReadString('\n') })
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "yes":
			return true, nil
		case "no":
			return false, nil
		}
		fmt.Fprint(t.tty, "Please type yes or no: ")
	}
}

// await reads, or gives up when ctx is over; the reader is left to the end of
// the program then.
func await(ctx context.Context, read func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := read()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
