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

// A database of each release before opens, with its rows in it.
func TestEverySchemaIsMigrated(t *testing.T) {
	known, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	for before := 1; before < len(known); before++ {
		path := filepath.Join(t.TempDir(), "cdui.db")
		old := &Store{path: path, logger: slog.New(slog.DiscardHandler), patience: time.Second, active: map[string]*runLog{}}
		if err := old.open(t.Context(), func() ([]migration, error) { return known[:before], nil }); err != nil {
			t.Fatal(err)
		}
		// By the columns of the first schema, which all later ones have.
		err := old.write(t.Context(), func(v *view) error {
			return v.exec(`INSERT INTO exec_runs (id, name, key, status, error, end_class, queue_key, created_at, attempt,
				user, git_commit, sweep_id, rerun_of, worker_id, fingerprint_digest, options)
				VALUES ('a', '', '', 'queued', '', '', 'cpu', 1, 1, '', '', '', '', '', '', '{}')`)
		})
		if err != nil {
			t.Fatalf("schema %d: %v", before, err)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatalf("schema %d: %v", before, err)
		}
		if row, err := s.Run(t.Context(), "a"); err != nil || row.Status != run.Queued || row.RetryOf != "" {
			t.Errorf("schema %d: %+v, %v", before, row, err)
		}
		if err := s.AddToken(t.Context(), Token{Name: "ada", Hash: "h", Role: "read", CreatedAt: time.UnixMicro(1)}); err != nil {
			t.Errorf("schema %d: %v", before, err)
		}
		if report, err := s.Check(t.Context()); err != nil || len(report.Findings) > 0 {
			t.Errorf("schema %d: %v, %v", before, report.Findings, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
