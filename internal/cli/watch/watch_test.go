package watch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/watch"
	"cdui/internal/client/live"
	"cdui/internal/run"
)

var errBroken = errors.New("the line is cut")

// script is a connection that gives a frame each step, and breaks at nil.
type script struct {
	frames []*api.LiveFrame
	step   time.Duration
	ctx    context.Context
}

func (s *script) Next() (api.LiveFrame, error) {
	select {
	case <-time.After(s.step):
	case <-s.ctx.Done():
		return api.LiveFrame{}, s.ctx.Err()
	}
	if len(s.frames) == 0 {
		<-s.ctx.Done()
		return api.LiveFrame{}, s.ctx.Err()
	}
	f := s.frames[0]
	s.frames = s.frames[1:]
	if f == nil {
		return api.LiveFrame{}, errBroken
	}
	return *f, nil
}

func (*script) Close() {}

func runs(n int) *api.LiveFrame {
	f := &api.LiveFrame{Type: api.LiveSnapshot, Boot: "b"}
	for i := range n {
		f.Runs = append(f.Runs, api.LiveRun{ID: fmt.Sprint(i), Order: int64(i), Status: run.Running})
	}
	return f
}

func count(w io.Writer, b *live.Board) error {
	for i := range b.Runs() {
		fmt.Fprintf(w, "line %d of %d\n", i+1, len(b.Runs()))
	}
	return nil
}

func watched(t *testing.T, columns int, step time.Duration, frames ...*api.LiveFrame) (out, errs string) {
	t.Helper()
	e := clitest.New(t, columns)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		dial := func(ctx context.Context, _ string, _ int64) (live.Conn, error) {
			return &script{frames: frames, step: step, ctx: ctx}, nil
		}
		if err := watch.Watch(ctx, e.Env, dial, count); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
	return e.Stdout.String(), e.Stderr.String()
}

func TestAPipeGetsOneListAfterTheOther(t *testing.T) {
	out, _ := watched(t, 0, 10*time.Millisecond, runs(1), runs(1), runs(2), runs(2), runs(3))
	// What comes within a second is one list; one that didn't change is none.
	if want := "line 1 of 1\nline 1 of 3\nline 2 of 3\nline 3 of 3\n"; out != want {
		t.Errorf("%q", out)
	}
}

func TestATerminalIsDrawnInPlaceAndNeverBeyondItsHeight(t *testing.T) {
	out, _ := watched(t, 80, 2*time.Second, runs(2), runs(99))
	if !strings.Contains(out, "\r\x1b[1A\x1b[J") || !strings.Contains(out, "and 77 lines more") || strings.Contains(out, "line 23 of 99") {
		t.Errorf("%q", out)
	}
}

func TestALostLineIsSaid(t *testing.T) {
	_, errs := watched(t, 0, time.Second, runs(1), nil)
	if !strings.Contains(errs, "the line is cut; trying again") {
		t.Errorf("%q", errs)
	}
	out, _ := watched(t, 80, time.Second, runs(1), nil)
	if !strings.Contains(out, "the line is cut; trying again") || !strings.Contains(out, "line 1 of 1") {
		t.Errorf("%q", out)
	}
}
