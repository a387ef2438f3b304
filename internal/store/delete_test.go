package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"cdui/internal/run"
	"cdui/internal/store"
)

// count asks the tables themselves.
func count(t *testing.T, path, table string) int {
	t.Helper()
	var n int
	err := openOutside(t, path).conn.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func logTables() []string {
	return []string{
		"exec_runs", "exec_run_graphs", "exec_run_tags", "exec_run_events", "exec_run_event_chunks",
		"exec_run_metrics", "exec_run_metric_chunks", "exec_run_artifacts", "exec_run_deletes",
	}
}

// Proves D.5.
func TestDeleteLeavesNothingOfARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	row := newRow(1)
	row.Graph, row.Options.Tags = []byte(`{}`), []string{"a"}
	var artifacts []store.Artifact
	for range 2500 {
		artifacts = append(artifacts, store.Artifact{ID: s.NextArtifactID(), Kind: "k", Path: "/p", CreatedAt: at(1)})
	}
	apply(t, s, store.Change{Insert: row, Events: events(0, 5000), Artifacts: artifacts})
	for i := range 3000 / 500 {
		list := make([]store.Metrics, 500)
		for j := range list {
			list[j] = flushes(fmt.Sprintf(`[{"name":"a","value":%d}]`, i))[0]
		}
		apply(t, s, store.Change{RunID: row.ID, Metrics: list})
	}
	if err := s.Delete(t.Context(), row.ID); !errors.Is(err, store.ErrActive) {
		t.Errorf("deleting an active run gave %v", err)
	}
	apply(t, s, finish(row.ID))
	if err := s.Delete(t.Context(), row.ID); err != nil {
		t.Fatal(err)
	}
	for _, table := range logTables() {
		if n := count(t, path, table); n != 0 {
			t.Errorf("%s has %d rows left", table, n)
		}
	}
	if err := s.Delete(t.Context(), row.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting it again gave %v", err)
	}
	checkSound(t, s)
	// The ids of what is gone may come again; the logs must not mind.
	apply(t, s, store.Change{Insert: newRow(2), Events: events(0, 10)})
	shut(t, s)
	s = open(t, path)
	if last, err := s.LastCursor(t.Context(), runID(2)); err != nil || last != 10 {
		t.Errorf("last cursor is %d, %v", last, err)
	}
	checkSound(t, s)
}

func TestADeleteThatWasCutOffGoesOnAtTheNextOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	apply(t, s, store.Change{Insert: newRow(1), Events: events(0, 5000)})
	apply(t, s, finish(runID(1)))
	shut(t, s)
	outside := openOutside(t, path)
	outside.exec(t, `INSERT INTO exec_run_deletes SELECT seq FROM exec_runs`)
	outside.exec(t, `DELETE FROM exec_runs`)
	s = open(t, path)
	eventually(t, func() bool { return count(t, path, "exec_run_deletes") == 0 })
	if n := count(t, path, "exec_run_events"); n != 0 {
		t.Errorf("%d events left", n)
	}
	checkSound(t, s)
}

func TestDeletesLetWritersPass(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	const old = 8
	for n := range old {
		apply(t, s, store.Change{Insert: newRow(n), Events: events(0, 2500)})
		apply(t, s, finish(runID(n)))
	}
	apply(t, s, store.Change{Insert: newRow(old)})
	var group sync.WaitGroup
	for n := range old {
		group.Go(func() {
			if err := s.Delete(t.Context(), runID(n)); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 200 {
		apply(t, s, store.Change{RunID: runID(old), Events: events(i, 1)})
	}
	group.Wait()
	if n := count(t, path, "exec_run_events"); n != 200 {
		t.Errorf("%d events left, want 200", n)
	}
	checkSound(t, s)
}

func TestFinishedKeepsTheNewest(t *testing.T) {
	s := fresh(t)
	for n := range 10 {
		row := newRow(n)
		if n%2 == 0 {
			row.Status = run.Failed
		}
		apply(t, s, store.Change{Insert: row})
	}
	for keep, want := range map[int][]string{
		0: {runID(0), runID(2), runID(4), runID(6), runID(8)}, 1: {runID(0), runID(2), runID(4), runID(6), runID(8)},
		2: {runID(0), runID(2), runID(4), runID(6)}, 9: {runID(0)}, 10: nil, 500: nil,
	} {
		got, err := s.Finished(t.Context(), keep)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("keep %d: %v, %v", keep, got, err)
		}
	}
}
