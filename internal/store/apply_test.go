package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"cdui/internal/run"
	"cdui/internal/store"
)

func TestInsertNumbersRunsInTheOrderOfArrival(t *testing.T) {
	s := fresh(t)
	first, second := newRow(2), newRow(1)
	apply(t, s, store.Change{Insert: first}, store.Change{Insert: second})
	if first.Seq == 0 || second.Seq <= first.Seq {
		t.Errorf("seqs are %d and %d", first.Seq, second.Seq)
	}
	active, err := s.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(active) != 2 || active[0].ID != first.ID || active[1].ID != second.ID {
		t.Errorf("active runs in the wrong order: %v", active)
	}
}

func TestARowComesBackAsItWasStored(t *testing.T) {
	s := fresh(t)
	full := newRow(1)
	full.Options.Script = &run.ScriptSpec{Path: "/x/träin.py", Args: []string{"--lr", "3e-4"}, Cwd: "/x", Env: map[string]string{"A": "1"}}
	full.Options.Tags, full.Options.Key, full.Options.Seed = []string{"a", "b"}, "k1", new(int64(7))
	full.Status, full.Error, full.EndClass = run.Running, "e", run.EndUserCode
	full.StartedAt, full.FinishedAt, full.CancelRequestedAt = new(at(2)), new(at(3)), new(at(4))
	full.Attempt, full.User, full.GitCommit, full.GitDirty = 2, "ann", "c0ffee", new(false)
	full.PluginPins, full.Facts = []byte(`{"p":1}`), []byte(`{"python":"3.11"}`)
	full.SweepID, full.SweepVariant, full.RerunOf = "sw", new(0), runID(9)
	full.WorkerID, full.Devices, full.FingerprintDigest = "w", []string{"cuda:0"}, "d"
	full.Graph = []byte(`{"nodes":[]}`)
	plain := newRow(2)
	apply(t, s, store.Change{Insert: full}, store.Change{Insert: plain})

	for _, want := range []*run.Row{full, plain} {
		got, err := s.Run(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		expect := *want
		expect.Graph = nil
		if !reflect.DeepEqual(got, expect) {
			t.Errorf("read\n%+v\nstored\n%+v", got, expect)
		}
	}
	graph, err := s.Graph(t.Context(), full.ID)
	if err != nil || string(graph) != string(full.Graph) {
		t.Errorf("graph is %s, %v", graph, err)
	}
	if graph, err := s.Graph(t.Context(), plain.ID); err != nil || graph != nil {
		t.Errorf("graph of a run without one is %s, %v", graph, err)
	}
	byKey, err := s.ByKey(t.Context(), "k1")
	if err != nil || byKey.ID != full.ID {
		t.Errorf("by key: %s, %v", byKey.ID, err)
	}
	if _, err := s.ByKey(t.Context(), ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the empty key gave %v", err)
	}
}

func TestPatchSetsWhatItNamesAndNothingElse(t *testing.T) {
	s := fresh(t)
	row := newRow(1)
	row.Error, row.Facts, row.Devices = "kept", []byte(`{"a":1}`), []string{"cpu"}
	apply(t, s, store.Change{Insert: row})
	options := row.Options
	options.Hold, options.Tags = true, []string{"new"}
	want := *row
	want.Name, want.Options, want.Status, want.EndClass = "n", options, run.Running, run.EndTimeout
	want.QueueKey, want.StartedAt, want.FinishedAt, want.Attempt = "cuda:0", new(at(5)), new(at(6)), 3
	want.WorkerID, want.Devices, want.FingerprintDigest, want.CancelRequestedAt = "w", []string{"cuda:0"}, "f", new(at(7))
	apply(t, s, store.Change{RunID: row.ID, Patch: &store.Patch{
		Name: &want.Name, Options: &options, Status: &want.Status, EndClass: &want.EndClass,
		QueueKey: &want.QueueKey, StartedAt: want.StartedAt, FinishedAt: want.FinishedAt, Attempt: &want.Attempt,
		WorkerID: &want.WorkerID, Devices: want.Devices, FingerprintDigest: &want.FingerprintDigest,
		CancelRequestedAt: want.CancelRequestedAt,
	}})
	got, err := s.Run(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
	if _, total, _ := s.List(t.Context(), store.Filter{Tag: "new"}); total != 1 {
		t.Errorf("%d runs with the new tag", total)
	}
}

// Proves D.4.
func TestEventsGetGaplessCursors(t *testing.T) {
	s := fresh(t)
	apply(t, s, store.Change{Insert: newRow(1)}, store.Change{Insert: newRow(2)})
	sum := int64(0)
	for i, n := range []int{1, 0, 255, 1, 300, 7} {
		r := apply(t, s, store.Change{RunID: runID(1), Events: events(i*1000, n)}, store.Change{RunID: runID(2), Events: events(0, 1)})
		first := sum + 1
		if n == 0 {
			first = 0
		}
		sum += int64(n)
		if r[0].FirstCursor != first || r[0].LastCursor != sum || r[1].LastCursor != int64(i+1) {
			t.Errorf("after %d more events: %+v", n, r)
		}
	}
	checkSound(t, s)
}

// Reading must not care where chunks end, whether rows of other runs lie
// between, whether the run goes on, or whether the store was opened anew.
// D.5, EVT-05: each reader goes on from its own cursor.
func TestEventsReadFromAnyCursor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	apply(t, s, store.Change{Insert: newRow(1)}, store.Change{Insert: newRow(2)})
	const n = 600
	for i := range n / 2 {
		apply(t, s, store.Change{RunID: runID(1), Events: events(2*i, 2)}, store.Change{RunID: runID(2), Events: events(0, i%7)})
	}
	readAll := func(s *store.Store, total int) {
		t.Helper()
		for _, after := range []int{-1, 0, 1, 127, 128, 255, 256, 257, 511, 512, 599, 600, 601, 9999} {
			for _, limit := range []int{1, 2, 128, 129, 300, 2000} {
				got, err := s.Events(t.Context(), runID(1), int64(after), limit, 0)
				if err != nil {
					t.Fatal(err)
				}
				start := max(after, 0)
				want := min(limit, max(0, total-start))
				if len(got) != want {
					t.Fatalf("after %d limit %d: %d events, want %d", after, limit, len(got), want)
				}
				for i, e := range got {
					if e.Cursor != int64(start+i+1) || start+i < n && string(e.Payload) != fmt.Sprintf(`{"n":%d}`, start+i) {
						t.Fatalf("after %d: event %d is %d %s", after, i, e.Cursor, e.Payload)
					}
				}
			}
		}
	}
	readAll(s, n)
	shut(t, s)
	s = open(t, path)
	readAll(s, n)
	apply(t, s, finish(runID(1)))
	readAll(s, n+1)
	shut(t, s)
	s = open(t, path)
	readAll(s, n+1)
	if last, err := s.LastCursor(t.Context(), runID(1)); err != nil || last != n+1 {
		t.Errorf("last cursor is %d, %v", last, err)
	}
}

// Proves D.5.
func TestAPageOfEventsIsBoundedInBytesButNeverEmpty(t *testing.T) {
	s := fresh(t)
	apply(t, s, store.Change{Insert: newRow(1), Events: events(100, 50)})
	size := len(event(100).Payload)
	for _, c := range []struct{ maxBytes, want int }{{1, 1}, {size, 1}, {2 * size, 2}, {2*size + 1, 2}, {0, 50}} {
		got, err := s.Events(t.Context(), runID(1), 0, 50, c.maxBytes)
		if err != nil || len(got) != c.want {
			t.Errorf("%d bytes: %d events, want %d, %v", c.maxBytes, len(got), c.want, err)
		}
	}
}

func TestACallIsStoredWholeOrNotAtAll(t *testing.T) {
	s := fresh(t)
	taken := newRow(1)
	taken.Options.Key = "k"
	apply(t, s, store.Change{Insert: taken})
	again := newRow(3)
	again.Options.Key = "k"
	for name, bad := range map[string]struct {
		change store.Change
		want   error
	}{
		"same id":       {store.Change{Insert: newRow(1)}, store.ErrExists},
		"same key":      {store.Change{Insert: again}, store.ErrExists},
		"unknown run":   {store.Change{RunID: runID(99), Events: events(0, 1)}, store.ErrNotFound},
		"other attempt": {store.Change{RunID: runID(1), RequireAttempt: 4}, store.ErrNotActive},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Apply(t.Context(),
				store.Change{Insert: newRow(2), Events: events(0, 300)},
				store.Change{RunID: runID(1), Events: events(0, 300)},
				bad.change)
			if !errors.Is(err, bad.want) {
				t.Errorf("got %v, want %v", err, bad.want)
			}
			if _, err := s.Run(t.Context(), runID(2)); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the new run is there: %v", err)
			}
			if last, err := s.LastCursor(t.Context(), runID(1)); err != nil || last != 0 {
				t.Errorf("last cursor is %d, %v", last, err)
			}
		})
	}
	apply(t, s, store.Change{RunID: runID(1), Events: events(0, 1)})
	checkSound(t, s)
}

// Calls that share a commit with a bad one don't suffer from it.
func TestABadCallFailsAlone(t *testing.T) {
	s := fresh(t)
	apply(t, s, store.Change{Insert: newRow(0)})
	const each = 15
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range each {
				if _, err := s.Apply(t.Context(), store.Change{RunID: runID(0), Events: events(i, 3)}); err != nil {
					t.Error(err)
				}
				_, err := s.Apply(t.Context(), store.Change{RunID: runID(0), Events: events(i, 300)}, store.Change{Insert: newRow(0)})
				if !errors.Is(err, store.ErrExists) {
					t.Errorf("goroutine %d: %v", g, err)
				}
			}
		})
	}
	group.Wait()
	if last, err := s.LastCursor(t.Context(), runID(0)); err != nil || last != 8*each*3 {
		t.Errorf("last cursor is %d, %v", last, err)
	}
	checkSound(t, s)
}

// D.3: a late writer loses.
func TestATerminalRunStaysAsItEnded(t *testing.T) {
	s := fresh(t)
	apply(t, s, store.Change{Insert: newRow(1)})
	apply(t, s, finish(runID(1)))
	if _, err := s.Apply(t.Context(), finish(runID(1))); !errors.Is(err, store.ErrNotActive) {
		t.Errorf("a second end gave %v", err)
	}
	status := run.Failed
	if _, err := s.Apply(t.Context(), store.Change{RunID: runID(1), Patch: &store.Patch{Status: &status}}); !errors.Is(err, store.ErrNotActive) {
		t.Errorf("another status gave %v", err)
	}
	if row, err := s.Run(t.Context(), runID(1)); err != nil || row.Status != run.Succeeded {
		t.Errorf("the run is %s, %v", row.Status, err)
	}
	// A result that arrives late is kept all the same.
	apply(t, s, store.Change{RunID: runID(1), Metrics: flushes(`[{"name":"late","value":3}]`)})
	got, err := s.FinalMetrics(t.Context(), runID(1))
	if err != nil || string(got["late"]) != "3" {
		t.Errorf("final metrics are %s, %v", got, err)
	}
	checkSound(t, s)
}

// Proves W-05.
func TestRecordedSeqIsThatOfThePresentAttempt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	id := runID(1)
	expect := func(want uint64) {
		t.Helper()
		for range 2 {
			active, err := s.Active(t.Context())
			if err != nil || len(active) != 1 || active[0].RecordedSeq != want {
				t.Fatalf("active %+v, %v; want recorded seq %d", active, err, want)
			}
			shut(t, s)
			s = open(t, path)
		}
	}
	apply(t, s, store.Change{Insert: newRow(1), Patch: &store.Patch{Attempt: new(1)}})
	expect(0)
	apply(t, s, store.Change{RunID: id, Attempt: 1, RecordedSeq: 5, Events: events(0, 2)})
	expect(5)
	apply(t, s, store.Change{RunID: id, Attempt: 1, RecordedSeq: 9, Metrics: flushes(`[]`)})
	expect(9)
	apply(t, s, store.Change{RunID: id, Attempt: 1, RecordedSeq: 10, Patch: &store.Patch{Facts: []byte(`{}`)}})
	expect(10)
	apply(t, s, store.Change{RunID: id, Attempt: 1, RecordedSeq: 400, Events: events(0, 300)})
	expect(400)
	apply(t, s, store.Change{RunID: id, Patch: &store.Patch{Attempt: new(2)}})
	expect(0)
	apply(t, s, store.Change{RunID: id, Attempt: 1, RecordedSeq: 401, Events: events(0, 1)})
	expect(0)
	apply(t, s, store.Change{RunID: id, Attempt: 2, RecordedSeq: 3, Events: events(0, 1)})
	expect(3)
	checkSound(t, s)
}

func TestAnEndedContextDropsWhatTheWriterHasNotTaken(t *testing.T) {
	s := fresh(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stored := 0
	for n := range 20 {
		_, err := s.Apply(ctx, store.Change{Insert: newRow(n)})
		if err == nil {
			stored++
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if _, total, err := s.List(t.Context(), store.Filter{}); err != nil || total != stored {
		t.Errorf("%d runs stored, %d acknowledged, %v", total, stored, err)
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	s := fresh(t)
	shut(t, s)
	if _, err := s.Apply(t.Context(), store.Change{Insert: newRow(1)}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
