package shimhost_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost"
)

// ways lists the isolations that this user can test.
func ways() []string {
	if os.Geteuid() == 0 {
		return []string{wire.IsolatePIDNS, wire.IsolateKeeper}
	}
	return []string{wire.IsolateKeeper}
}

// eachWay runs a test under every isolation.
func eachWay(t *testing.T, f func(t *testing.T, way string)) {
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) { f(t, way) })
	}
}

type logWriter struct{ t testing.TB }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Logf("host: %s", bytes.TrimSpace(p))
	return len(p), nil
}

func newHost(t testing.TB, c shimhost.Config) *shimhost.Host {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	c.Logger = slog.New(slog.NewTextHandler(logWriter{t}, nil))
	h, err := shimhost.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A shim may still be writing its last file.
		found, err := h.Find(context.Background())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		for _, f := range found {
			if err := h.Remove(f.RunID); err != nil {
				t.Error(err)
			}
		}
		h.Close()
	})
	return h
}

var runs atomic.Int64

func command(argv ...string) protocol.Assignment {
	return protocol.Assignment{
		RunID: fmt.Sprint(runPrefix, runs.Add(1)), Attempt: 1, Kind: protocol.KindCommand, NodeID: "n1",
		Argv: argv, Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")}, GraceMS: 20_000, PayloadCap: 1 << 17,
	}
}

func shell(script string) protocol.Assignment { return command("sh", "-c", script) }

func script(t testing.TB, mode string) protocol.Assignment {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := command(exe, "child", mode)
	a.Kind = protocol.KindScript
	return a
}

// launch starts a run that is killed when the test ends, should it be left.
func launch(t testing.TB, h *shimhost.Host, a protocol.Assignment) *shimhost.Run {
	t.Helper()
	r, err := h.Start(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := r.Cancel(ctx, 0, true)
		for !errors.Is(err, shimhost.ErrReplaced) && !r.Status().Dead && ctx.Err() == nil {
			select {
			case <-r.Changed():
			case <-time.After(10 * time.Millisecond):
			}
		}
		r.Close()
		wantNoProcess(t, a.RunID)
		if t.Failed() {
			if b, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(r.Dir())), "shim.log")); err == nil {
				t.Logf("shim.log: %s", b)
			}
		}
	})
	return r
}

// wantNoProcess checks that nothing of a run is left.
func wantNoProcess(t testing.TB, runID string) {
	t.Helper()
	left := proctree.ByEnv("CDUI_RUN_ID", func(id string) bool { return id == runID })
	if len(left) > 0 {
		t.Errorf("run %s left processes: %+v", runID, left[runID])
		endAll(func(id string) bool { return id == runID })
	}
}

// endAll kills what failed tests left, so that it does not burden the machine.
func endAll(wanted func(string) bool) {
	for range 50 {
		left := proctree.ByEnv("CDUI_RUN_ID", wanted)
		if len(left) == 0 {
			return
		}
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, list := range left {
				for _, p := range list {
					proctree.Signal(p, sig)
				}
			}
		}
	}
}

// runPrefix begins the id of every run of this test process.
var runPrefix = fmt.Sprintf("shimtest-%d-", os.Getpid())

// toEnd reads and acknowledges every record up to the end.
func toEnd(t testing.TB, r *shimhost.Run) []protocol.Record {
	t.Helper()
	all, err := follow(t, r, nil)
	if !errors.Is(err, io.EOF) {
		t.Fatalf("the run ended with %v after %d records", err, len(all))
	}
	return all
}

// follow reads records until stop accepts one, or there are no more.
func follow(t testing.TB, r *shimhost.Run, stop func(protocol.Record) bool) ([]protocol.Record, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var all []protocol.Record
	for {
		recs, err := r.Next(ctx)
		all = append(all, recs...)
		if err != nil {
			return all, err
		}
		r.Ack(all[len(all)-1].Seq)
		for _, rec := range recs {
			if stop != nil && stop(rec) {
				return all, nil
			}
		}
	}
}

func isStarted(rec protocol.Record) bool { return rec.Type == protocol.RunStarted }

func finished(t testing.TB, recs []protocol.Record) protocol.Finished {
	t.Helper()
	if len(recs) == 0 || recs[len(recs)-1].Finished == nil {
		t.Fatalf("no end in %d records", len(recs))
	}
	for i := range recs {
		if i > 0 && recs[i].Seq != recs[i-1].Seq+1 {
			t.Fatalf("record %d follows %d", recs[i].Seq, recs[i-1].Seq)
		}
	}
	return *recs[len(recs)-1].Finished
}

// words describes records shortly, for comparisons.
func words(recs []protocol.Record) string {
	var out []string
	for _, r := range recs {
		w := string(r.Type)
		if r.Type == protocol.Warning {
			w += ":" + r.Kind
		}
		if r.Type == protocol.Event {
			w = r.Event
			if _, rest, ok := strings.Cut(string(r.Payload), `"status":"`); ok {
				w, _, _ = strings.Cut(rest, `"`)
			}
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// output waits until the run has printed want.
func waitOutput(t testing.TB, r *shimhost.Run, want string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		changed := r.Changed()
		if strings.Contains(output(t, r), want) {
			return
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatalf("the run did not print %q but %q", want, output(t, r))
		}
	}
}

func output(t testing.TB, r *shimhost.Run) string {
	t.Helper()
	b, _, err := r.Console().Tail(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
