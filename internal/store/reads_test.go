package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"cdui/internal/run"
	"cdui/internal/store"
)

func flushes(texts ...string) []store.Metrics {
	list := make([]store.Metrics, len(texts))
	for i, text := range texts {
		list[i] = store.Metrics{Points: json.RawMessage(text), TS: at(i)}
	}
	return list
}

// Proves D.2.
func TestListPagesNewestFirst(t *testing.T) {
	s := fresh(t)
	statuses := run.Statuses()
	var want []*run.Row
	for n := range 40 {
		row := newRow(n)
		row.CreatedAt = at(n / 2) // two at a time: the later one comes first
		row.Status = statuses[n%len(statuses)]
		row.User = []string{"ann", "bob"}[n%2]
		if n%5 == 0 {
			row.Options.Tags = []string{"five", "x"}
		}
		row.Graph = []byte(`{}`)
		apply(t, s, store.Change{Insert: row})
		want = append(want, row)
	}
	slices.Reverse(want)
	for name, f := range map[string]store.Filter{
		"all":          {},
		"page":         {Limit: 7, Offset: 11},
		"past the end": {Limit: 7, Offset: 39},
		"one status":   {Statuses: []run.Status{run.Failed}, Limit: 3},
		"two statuses": {Statuses: []run.Status{run.Failed, run.Running}, Limit: 4, Offset: 3},
		"active":       {Statuses: []run.Status{run.Queued, run.Running, run.Disconnected}},
		"user":         {User: "bob", Limit: 5, Offset: 1},
		"tag":          {Tag: "five", Limit: 5},
		"everything":   {Tag: "x", User: "ann", Statuses: []run.Status{run.Queued, run.Succeeded}},
		"nothing":      {Tag: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			var ids []string
			for _, r := range want {
				if f.User != "" && r.User != f.User || f.Tag != "" && !slices.Contains(r.Options.Tags, f.Tag) ||
					len(f.Statuses) > 0 && !slices.Contains(f.Statuses, r.Status) {
					continue
				}
				ids = append(ids, r.ID)
			}
			total := len(ids)
			ids = ids[min(f.Offset, total):]
			if f.Limit > 0 {
				ids = ids[:min(f.Limit, len(ids))]
			}
			rows, n, err := s.List(t.Context(), f)
			if err != nil || n != total {
				t.Fatalf("total %d, want %d, %v", n, total, err)
			}
			var got []string
			for _, r := range rows {
				got = append(got, r.ID)
				if r.Graph != nil {
					t.Error("a list has graphs")
				}
			}
			if !slices.Equal(got, ids) {
				t.Errorf("got %v\nwant %v", got, ids)
			}
		})
	}
}

func TestResolveNamesUpToTenCandidates(t *testing.T) {
	s := fresh(t)
	for n := range 14 {
		row := newRow(n)
		row.ID = fmt.Sprintf("ab%030x", n)
		apply(t, s, store.Change{Insert: row})
	}
	other := newRow(1)
	other.ID = "ff" + runID(0)[2:]
	apply(t, s, store.Change{Insert: other})
	for prefix, want := range map[string]int{"ab": 10, "f": 1, other.ID: 1, "c": 0, other.ID + "0": 0, "": 10, "%": 0} {
		ids, err := s.Resolve(t.Context(), prefix)
		if err != nil || len(ids) != want || !slices.IsSorted(ids) {
			t.Errorf("%q: %v, %v", prefix, ids, err)
		}
	}
}

// Proves D.5.
func TestArtifactsAreListedOldestFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	a := store.Artifact{ID: s.NextArtifactID(), Kind: "checkpoint", Path: "/a.pt", Meta: json.RawMessage(`{"epoch":1}`), NodeID: "n", Backend: "local", CreatedAt: at(1)}
	b := store.Artifact{ID: s.NextArtifactID(), Kind: "image", Path: "/b.png", CreatedAt: at(2)}
	apply(t, s, store.Change{Insert: newRow(1), Artifacts: []store.Artifact{a, b}})
	for kind, want := range map[string][]store.Artifact{"": {a, b}, "image": {b}, "x": nil} {
		got, err := s.Artifacts(t.Context(), runID(1), kind)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("kind %q: %+v, %v", kind, got, err)
		}
	}
	if _, err := s.Artifacts(t.Context(), runID(2), ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown run: %v", err)
	}
	shut(t, s)
	if next := open(t, path).NextArtifactID(); next <= b.ID {
		t.Errorf("after opening again the next id is %d", next)
	}
}

// Proves R-06.
func TestD4_OddMetricValuesPassThroughUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	stored := flushes(
		`[{"name":"loss","value":0.5,"step":1},{"name":"big","value":9007199254740993,"step":1}]`,
		`[{"name":"loss","value":null,"step":2,"nonfinite":"nan"},{"name":"zero","value":-0.0}]`,
		`[{"name":"loss","value":null,"step":3,"nonfinite":"inf"},{"name":"loss","value":null,"nonfinite":"-inf"}]`,
		`[{"name":"loss","value":1e400,"step":4},{"name":"only nan","value":null,"nonfinite":"nan"}]`,
		`[{"value":1e-400,"name":"tiny \"q\" é","step":5.5,"extra":[{"name":"no","value":1}]}]`,
		`[{"name":"loss","value":0.25,"step":6}]`,
	)
	apply(t, s, store.Change{Insert: newRow(1), Metrics: stored})
	want := map[string]string{"loss": "0.25", "big": "9007199254740993", "zero": "-0.0", `tiny "q" é`: "1e-400"}
	verify := func() {
		t.Helper()
		got, err := s.Metrics(t.Context(), runID(1), "")
		if err != nil || !reflect.DeepEqual(got, stored) {
			t.Errorf("read %+v, %v", got, err)
		}
		if got, err := s.Metrics(t.Context(), runID(1), `tiny "q" é`); err != nil || len(got) != 1 {
			t.Errorf("one series: %+v, %v", got, err)
		}
		final, err := s.FinalMetrics(t.Context(), runID(1))
		if err != nil || len(final) != len(want) {
			t.Errorf("final metrics %s, %v", final, err)
		}
		for name, value := range want {
			if string(final[name]) != value {
				t.Errorf("%s ends with %s, want %s", name, final[name], value)
			}
		}
		if b, err := json.Marshal(final); err != nil || !json.Valid(b) {
			t.Errorf("final metrics are no JSON: %v", err)
		}
	}
	verify()
	shut(t, s)
	s = open(t, path)
	verify()
	apply(t, s, finish(runID(1)))
	verify()
	shut(t, s)
	s = open(t, path)
	verify()
}

// Proves D.2.
func TestFinalMetricsAreTheLastOfEachSeries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	apply(t, s, store.Change{Insert: newRow(1)}, store.Change{Insert: newRow(2)})
	for i := range 600 {
		text := fmt.Sprintf(`[{"name":"a","value":%d},{"name":"b%d","value":%d}]`, i, i%3, i)
		apply(t, s, store.Change{RunID: runID(1), Metrics: flushes(text)})
	}
	want := map[string]string{"a": "599", "b0": "597", "b1": "598", "b2": "599"}
	for range 2 {
		all, err := s.FinalMetricsOf(t.Context(), []string{runID(1), runID(2), runID(3)})
		if err != nil || len(all) != 2 || len(all[runID(1)]) != len(want) || len(all[runID(2)]) != 0 {
			t.Fatalf("%v, %v", all, err)
		}
		for name, value := range want {
			if string(all[runID(1)][name]) != value {
				t.Errorf("%s is %s", name, all[runID(1)][name])
			}
		}
		shut(t, s)
		s = open(t, path)
	}
	if _, err := s.FinalMetrics(t.Context(), runID(3)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown run: %v", err)
	}
}

func TestReadersBesideTheWriterSeeWhatIsStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	apply(t, s, store.Change{Insert: newRow(1), Events: events(0, 300)})
	r, err := store.Open(t.Context(), store.Config{Path: path, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, r)
	if got, err := r.Events(t.Context(), runID(1), 0, 1000, 0); err != nil || len(got) != 300 {
		t.Errorf("%d events, %v", len(got), err)
	}
	if _, err := r.Apply(t.Context(), store.Change{Insert: newRow(2)}); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("a write gave %v", err)
	}
	checkSound(t, r)
}
