package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cdui/internal/run"
	"cdui/internal/store"
)

func open(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: path, BusyTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, s) })
	return s
}

func shut(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func fresh(t testing.TB) *store.Store {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "cdui.db"))
}

func runID(n int) string { return fmt.Sprintf("%032x", n) }

func at(n int) time.Time { return time.UnixMicro(1_700_000_000_000_000 + int64(n)).UTC() }

func newRow(n int) *run.Row {
	options, err := run.ParseOptions(nil)
	if err != nil {
		panic(err)
	}
	return &run.Row{ID: runID(n), Name: fmt.Sprintf("run %d", n), Options: options, Status: run.Queued, QueueKey: "cpu", CreatedAt: at(n)}
}

func apply(t testing.TB, s *store.Store, changes ...store.Change) []store.Result {
	t.Helper()
	r, err := s.Apply(context.Background(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func event(n int) store.Event {
	return store.Event{Type: run.EventNodeStatus, Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), TS: at(n)}
}

func events(from, n int) []store.Event {
	list := make([]store.Event, n)
	for i := range list {
		list[i] = event(from + i)
	}
	return list
}

// finish ends a run as the control plane does: terminal event and row together.
func finish(id string) store.Change {
	status, ts := run.Succeeded, at(1)
	return store.Change{
		RunID: id, RequireActive: true, End: true,
		Patch:  &store.Patch{Status: &status, FinishedAt: &ts},
		Events: []store.Event{{Type: run.EventExecutionComplete, Payload: run.ExecutionComplete(), TS: ts}},
	}
}

func checkSound(t testing.TB, s *store.Store) store.Report {
	t.Helper()
	r, err := s.Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Error("check:", f)
	}
	return r
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("waited for 30 s")
		}
	}
}

func TestOpenMakesAFileThatOnlyItsOwnerReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	apply(t, s, store.Change{Insert: newRow(1)})
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

// tempDir is t.TempDir for one case of a property: it goes with the case. It
// lies in memory where it can, since nothing of it must survive.
func tempDir(t *rapid.T) (string, error) {
	dir, err := os.MkdirTemp("/dev/shm", "store")
	if err != nil {
		dir, err = os.MkdirTemp("", "store")
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir, err
}
