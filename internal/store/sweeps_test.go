package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cdui/internal/run"
	"cdui/internal/store"
)

func reopen(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func child(t *testing.T, s *store.Store, id, sweep string, variant int, changes ...store.Change) {
	t.Helper()
	options, err := run.ParseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	row := &run.Row{ID: id, Options: options, Status: run.Running, CreatedAt: time.UnixMilli(1), SweepID: sweep, SweepVariant: &variant}
	if _, err := s.Apply(t.Context(), append([]store.Change{{Insert: row}}, changes...)...); err != nil {
		t.Fatal(err)
	}
}

func TestSweepsAndTheirRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := reopen(t, path)
	at := time.UnixMilli(1000).UTC()
	for i := range 3 {
		w := store.Sweep{ID: fmt.Sprintf("%dab", i), Key: []string{"", "", "k"}[i], Name: "n", User: "ada", CreatedAt: at, Plan: json.RawMessage(`{"p":1}`), Base: json.RawMessage(`{"b":1}`), Results: json.RawMessage(`{}`)}
		if err := s.AddSweep(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddSweep(t.Context(), store.Sweep{ID: "x", Key: "k", Plan: json.RawMessage(`1`), Base: json.RawMessage(`1`), Results: json.RawMessage(`1`)}); !errors.Is(err, store.ErrTaken) {
		t.Errorf("a key twice: %v", err)
	}
	child(t, s, "r1", "0ab", 0)
	child(t, s, "r2", "0ab", 1)
	child(t, s, "r3", "0ab", 0)
	child(t, s, "r4", "", 0)
	if got, err := s.Childless(t.Context()); err != nil || !slices.Equal(got, []string{"1ab", "2ab"}) {
		t.Errorf("%v, %v", got, err)
	}
	rows, err := s.RunsOfSweep(t.Context(), "0ab")
	if err != nil || len(rows) != 3 || rows[2].ID != "r3" || *rows[1].SweepVariant != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
	if rows, err := s.RunsOfSweep(t.Context(), ""); err != nil || len(rows) != 0 {
		t.Errorf("runs of no sweep: %v, %v", rows, err)
	}
	if err := s.KeepSweep(t.Context(), store.Sweep{ID: "2ab", Results: json.RawMessage(`{"0":1}`), CancelRequestedAt: &at}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path)
	w, err := s.SweepOfKey(t.Context(), "k")
	if err != nil || w.ID != "2ab" || string(w.Base) != `{"b":1}` || string(w.Results) != `{"0":1}` || !w.CancelRequestedAt.Equal(at) || !w.CreatedAt.Equal(at) {
		t.Errorf("%+v, %v", w, err)
	}
	if list, total, err := s.Sweeps(t.Context(), 2, 0); err != nil || total != 3 || len(list) != 2 || list[0].ID != "2ab" {
		t.Errorf("%v, %d, %v", list, total, err)
	}
	if ids, err := s.ResolveSweep(t.Context(), "2"); err != nil || !slices.Equal(ids, []string{"2ab"}) {
		t.Errorf("%v, %v", ids, err)
	}
	if err := s.RemoveSweep(t.Context(), "2ab"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context(), "2ab"); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("%v", err)
	}
	if err := s.KeepSweep(t.Context(), store.Sweep{ID: "2ab", Results: json.RawMessage(`{}`)}); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("%v", err)
	}
}

// F.1, R-06: the last value of a series counts, finite or not.
func TestLastValues(t *testing.T) {
	s := reopen(t, filepath.Join(t.TempDir(), "cdui.db"))
	flush := func(points string) store.Change {
		return store.Change{RunID: "a", Metrics: []store.Metrics{{Points: json.RawMessage(points), TS: time.UnixMicro(1)}}}
	}
	changes := []store.Change{flush(`[{"name":"loss","value":1,"step":1},{"name":"acc","value":9007199254740993,"step":1}]`)}
	for range 300 {
		changes = append(changes, flush(`[{"name":"loss","value":0.5,"step":2}]`))
	}
	changes = append(changes, flush(`[{"name":"loss","value":0.25,"step":3},{"name":"loss","value":null,"nonfinite":"nan","step":4}]`), flush(`[]`))
	child(t, s, "a", "", 0, changes...)
	for _, active := range []bool{true, false} {
		got, err := s.LastValues(t.Context(), "a", "")
		if err != nil || len(got) != 2 || got["loss"].Nonfinite != "nan" || string(got["acc"].Value) != "9007199254740993" {
			t.Errorf("active %v: %v, %v", active, got, err)
		}
		if got, err = s.LastValues(t.Context(), "a", "acc"); err != nil || len(got) != 1 {
			t.Errorf("%v, %v", got, err)
		}
		ended := run.Succeeded
		if _, err := s.Apply(t.Context(), store.Change{RunID: "a", End: true, Patch: &store.Patch{Status: &ended}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.LastValues(t.Context(), "b", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestStudies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := reopen(t, path)
	at := time.UnixMilli(1000).UTC()
	for i := range 3 {
		y := store.Study{ID: fmt.Sprintf("%dab", i), Key: []string{"", "", "k"}[i], Name: "n", User: "ada", CreatedAt: at, Plan: json.RawMessage(`{}`), Base: json.RawMessage(`{"b":1}`), Attempts: json.RawMessage(`[]`)}
		if err := s.AddStudy(t.Context(), y); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddStudy(t.Context(), store.Study{ID: "x", Key: "k", Plan: json.RawMessage(`1`), Base: json.RawMessage(`1`), Attempts: json.RawMessage(`1`)}); !errors.Is(err, store.ErrTaken) {
		t.Errorf("a key twice: %v", err)
	}
	y, err := s.StudyOfKey(t.Context(), "k")
	if err != nil || y.ID != "2ab" {
		t.Fatalf("%+v, %v", y, err)
	}
	y.FinishedAt, y.Stopped, y.Attempts = &at, "cancelled", json.RawMessage(`[[]]`)
	if err := s.KeepStudy(t.Context(), y); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path)
	if list, err := s.UnfinishedStudies(t.Context()); err != nil || len(list) != 2 || list[0].ID != "0ab" || list[1].ID != "1ab" {
		t.Errorf("%v, %v", list, err)
	}
	if y, err = s.Study(t.Context(), "2ab"); err != nil || !y.FinishedAt.Equal(at) || y.Stopped != "cancelled" || string(y.Attempts) != `[[]]` || string(y.Base) != `{"b":1}` {
		t.Errorf("%+v, %v", y, err)
	}
	if list, total, err := s.Studies(t.Context(), 10, 1); err != nil || total != 3 || len(list) != 2 || list[0].ID != "1ab" {
		t.Errorf("%v, %d, %v", list, total, err)
	}
	if ids, err := s.ResolveStudy(t.Context(), strings.Repeat("0", 1)); err != nil || !slices.Equal(ids, []string{"0ab"}) {
		t.Errorf("%v, %v", ids, err)
	}
}
