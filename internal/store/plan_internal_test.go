package store

import (
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/run"
)

func testRow() *run.Row {
	options, err := run.ParseOptions(nil)
	if err != nil {
		panic(err)
	}
	return &run.Row{ID: "a", Options: options, Status: run.Running}
}

// What is read often must not read the whole table.
func TestReadsUseTheirIndexes(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "cdui.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	page, _ := Filter{}.page(run.Failed, 5)
	newest, _ := Filter{}.page("", 5)
	for query, index := range map[string]string{
		activeRuns: "exec_runs_active",
		page:       "exec_runs_by_status",
		newest:     "exec_runs_by_time",
		sweepRuns:  "exec_runs_by_sweep",
		`SELECT id FROM studies WHERE finished_at IS NULL ORDER BY seq`:                                       "studies_unfinished",
		`SELECT seq FROM exec_runs r WHERE r.key = ? AND r.key <> ''`:                                         "exec_runs_by_key",
		`SELECT id FROM exec_runs WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`:                               "sqlite_autoindex_exec_runs",
		`SELECT first_pos FROM exec_run_event_chunks WHERE run = ? AND first_pos > ? ORDER BY first_pos`:      "PRIMARY KEY",
		`SELECT id FROM exec_run_events WHERE id IN (SELECT value FROM json_each(?)) AND run = ? ORDER BY id`: "INTEGER PRIMARY KEY",
		`SELECT id FROM exec_run_artifacts WHERE run = ? ORDER BY id`:                                         "exec_run_artifacts_by_run",
	} {
		rows, err := s.read.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+strings.ReplaceAll(query, "?", "'1'"))
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer func() { _ = rows.Close() }()
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "; ")
		if !strings.Contains(text, index) || strings.Contains(text, "TEMP B-TREE") {
			t.Errorf("%s\n\truns as %s", query, text)
		}
	}
}
