package nvml

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

const synopsis = "usage: cdui nvml [--smi] [--once]"

// Main is `cdui nvml`: args are what follows the word, the result is the exit
// code. --smi asks nvidia-smi even where the library is there; --once answers
// without being asked and ends.
func Main(args []string) int {
	once, smi := false, false
	for _, arg := range args {
		switch arg {
		case "--once":
			once = true
		case "--smi":
			smi = true
		default:
			fmt.Fprintln(os.Stderr, synopsis)
			return 2
		}
	}
	r := reader{tryLibrary: !smi}
	if once {
		a := r.read()
		if err := write(os.Stdout, a); err != nil || a.Error != "" {
			return 1
		}
		return 0
	}

	// The driver may hang in the middle of an answer. Nothing can end such a
	// call but the end of the process, so this one returns without waiting for
	// it, as soon as nobody listens any more.
	requests := make(chan struct{}, 1)
	served := make(chan error, 1)
	go func() {
		for range requests {
			if err := write(os.Stdout, r.read()); err != nil {
				served <- err
				return
			}
		}
	}()
	unheard := make(chan struct{})
	go func() {
		defer close(unheard)
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			select {
			case requests <- struct{}{}:
			default: // the one before waits still; its answer will do
			}
		}
	}()
	select {
	case <-unheard:
		return 0
	case err := <-served:
		fmt.Fprintln(os.Stderr, "cdui nvml:", err)
		return 1
	}
}

func write(w io.Writer, a answer) error {
	line, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// reader answers requests. It keeps the library open between them, since
// opening it may take a card seconds to wake up, and since errors of cards are
// told only to those that listen.
type reader struct {
	tryLibrary bool
	open       *library
	users      userNames
}

func (r *reader) read() answer {
	if r.tryLibrary && r.open == nil {
		var err error
		if r.open, err = openLibrary(&r.users); err != nil {
			return answer{Way: wayLibrary, Error: err.Error()}
		}
		// A machine without the library may have the tool all the same.
		r.tryLibrary = r.open != nil
	}
	if r.open != nil {
		cards, err := r.open.cards()
		a := answer{Way: wayLibrary, Driver: r.open.version, Cards: cards}
		if err != nil {
			r.open.close()
			r.open, a.Error = nil, err.Error()
		}
		return a
	}
	return readSMI(context.Background(), &r.users)
}
