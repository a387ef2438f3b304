package server

import (
	"errors"
	"io"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/console"
)

// said is a console that holds a text, or fails.
type said struct {
	text string
	err  error
}

func (s said) Size() (int64, error) { return int64(len(s.text)), s.err }

func (s said) ReadAt(p []byte, off int64) (n int, at int64, err error) {
	if s.err != nil {
		return 0, off, s.err
	}
	if n = copy(p, s.text[min(off, int64(len(s.text))):]); n == 0 {
		err = io.EOF
	}
	return n, off, err
}

func (s said) Marks(int64, int64, int) ([]console.Mark, error) { return nil, s.err }

func (s said) Await(int64, time.Duration) error { return s.err }

func TestAWorkerWithoutOutputLeavesItToWhatIsHere(t *testing.T) {
	gone, away := api.Errorf(api.NotFound, "no output"), api.Errorf(api.Unavailable, "not connected")
	for _, c := range []struct {
		name        string
		there, here said
		want        string
		err         error
	}{
		{"it writes", said{text: "there"}, said{}, "there", nil},
		{"it hasn't begun", said{err: gone}, said{}, "", nil},
		{"it was brought back", said{err: gone}, said{text: "here"}, "here", nil},
		{"the worker is away", said{err: away}, said{text: "old"}, "", away},
	} {
		a := afar{there: c.there, here: c.here}
		buf := make([]byte, 10)
		n, _, err := a.ReadAt(buf, 0)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		size, sizeErr := a.Size()
		if string(buf[:n]) != c.want || !errors.Is(err, c.err) || !errors.Is(sizeErr, c.err) || c.err == nil && size != int64(len(c.want)) {
			t.Errorf("%s: %q, %v; size %d, %v", c.name, buf[:n], err, size, sizeErr)
		}
		if err := a.Await(0, time.Second); !errors.Is(err, c.err) {
			t.Errorf("%s: await %v", c.name, err)
		}
		if _, err := a.Marks(0, 1, 1); !errors.Is(err, c.err) {
			t.Errorf("%s: marks %v", c.name, err)
		}
	}
}
