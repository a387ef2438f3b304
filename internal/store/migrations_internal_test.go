package store

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"cdui/internal/run"
)

// A database of the version before, full of rows, takes sweeps and studies.
func TestADatabaseWithoutSweepsGetsThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	known, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	const before = 3
	old := &Store{path: path, logger: slog.New(slog.DiscardHandler), patience: time.Second, active: map[string]*runLog{}}
	if err := old.open(t.Context(), func() ([]migration, error) { return known[:before], nil }); err != nil {
		t.Fatal(err)
	}
	variant := 3
	active, ended := testRow(), testRow()
	active.SweepID, active.SweepVariant = "s", &variant
	ended.ID, ended.Status = "b", run.Succeeded
	if _, err := old.Apply(t.Context(), Change{Insert: active, Metrics: []Metrics{{Points: []byte(`[{"name":"loss","value":1}]`)}}}, Change{Insert: ended, Events: []Event{{Type: run.EventExecutionComplete, TS: time.UnixMicro(1)}}}); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	rows, err := s.RunsOfSweep(t.Context(), "s")
	if err != nil || len(rows) != 1 || *rows[0].SweepVariant != variant {
		t.Errorf("%+v, %v", rows, err)
	}
	if got, err := s.LastValues(t.Context(), active.ID, "loss"); err != nil || string(got["loss"].Value) != "1" {
		t.Errorf("%v, %v", got, err)
	}
	if list, err := s.UnfinishedStudies(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	report, err := s.Check(t.Context())
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("check: %v, %v", report.Findings, err)
	}
}
