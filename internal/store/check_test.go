package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/run"
	"cdui/internal/store"
)

func TestCheckFindsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ damage, want string }{
		"a lost event": {`DELETE FROM exec_run_events WHERE pos = 100`, "jump from 99 to 101"},
		"a lost chunk": {`DELETE FROM exec_run_event_chunks WHERE first_pos = 1`, "in no chunk"},
		"a lost last chunk": {
			`DELETE FROM exec_run_event_chunks WHERE first_pos = 257`, "in no chunk",
		},
		"lost last events":      {`DELETE FROM exec_run_events WHERE pos > 290`, "promise"},
		"a chunk of other rows": {`UPDATE exec_run_event_chunks SET rowids = (SELECT rowids FROM exec_run_event_chunks WHERE first_pos = 257), n = 45 WHERE first_pos = 1`, "chunk"},
		"a broken chunk":        {`UPDATE exec_run_event_chunks SET rowids = x'00'`, "can't be read"},
		"a lost flush":          {`DELETE FROM exec_run_metrics WHERE pos = 1`, "metrics jump from 0 to 2"},
		"no terminal event":     {`UPDATE exec_run_events SET type = 'node_status'`, "0 terminal events"},
		"two terminal events":   {`UPDATE exec_run_events SET type = 'execution_error' WHERE pos = 1`, "2 terminal events"},
		"an event after it":     {`UPDATE exec_run_events SET type = CASE pos WHEN 300 THEN 'execution_error' ELSE 'x' END`, "after its terminal event"},
		"a status that ends without an event": {
			`UPDATE exec_runs SET status = 'running'`, "is running and has 1 terminal",
		},
		"an unknown status": {`UPDATE exec_runs SET status = 'lost'`, "unknown status"},
		"rows of nobody":    {`DELETE FROM exec_runs`, "belongs to no run"},
		"a tag of nobody":   {`PRAGMA foreign_keys = 0; INSERT INTO exec_run_tags VALUES ('x', 77)`, "refers to a missing row"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cdui.db")
			s := open(t, path)
			apply(t, s, store.Change{Insert: newRow(1), Events: events(0, 300), Metrics: flushes("[]", "[]", "[]")})
			apply(t, s, finish(runID(1)))
			checkSound(t, s)
			openOutside(t, path).exec(t, c.damage)
			report, err := s.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(report.Findings, "\n"), c.want) {
				t.Errorf("findings %q don't mention %q", report.Findings, c.want)
			}
		})
	}
}

func TestCheckCountsWhatIsThere(t *testing.T) {
	s := fresh(t)
	apply(t, s, store.Change{
		Insert: newRow(1), Events: events(0, 3), Metrics: flushes("[]"),
		Artifacts: []store.Artifact{{ID: s.NextArtifactID(), CreatedAt: at(0)}},
	}, store.Change{Insert: newRow(2)})
	apply(t, s, finish(runID(1)))
	r := checkSound(t, s)
	if r.Runs != 2 || r.Active != 1 || r.Events != 4 || r.Metrics != 1 || r.Artifacts != 1 || r.Bytes == 0 {
		t.Errorf("counts are %+v", r)
	}
}

func TestABackupIsAWholeDatabase(t *testing.T) {
	s := fresh(t)
	apply(t, s, store.Change{Insert: newRow(1), Events: events(0, 700)})
	dir := t.TempDir()
	path := filepath.Join(dir, "it's a copy?#%.db")
	size, err := s.Backup(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != size || info.Mode().Perm() != 0o600 {
		t.Errorf("backup is %v, said to have %d bytes, %v", info, size, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left beside the backup: %v", left)
	}
	apply(t, s, finish(runID(1)))
	c := open(t, path)
	checkSound(t, c)
	if r, err := c.Run(t.Context(), runID(1)); err != nil || r.Status != run.Queued {
		t.Errorf("run in the copy is %s, %v", r.Status, err)
	}
	if _, err := s.Backup(t.Context(), path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("overwriting gave %v", err)
	}
	if _, err := s.Backup(t.Context(), filepath.Join(dir, "no", "copy.db")); err == nil {
		t.Error("a missing folder gave no error")
	}
}

func TestOpenRefusesWhatIsNotOurs(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want string
	}{
		"a newer schema": {func(t *testing.T, path string) {
			t.Helper()
			shut(t, open(t, path))
			openOutside(t, path).exec(t, `PRAGMA user_version = 99`)
		}, "schema 99"},
		"another program's": {func(t *testing.T, path string) {
			t.Helper()
			openOutside(t, path).exec(t, `CREATE TABLE x (y)`)
		}, "another program"},
		"text": {func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "damaged"},
		"a folder": {func(t *testing.T, path string) {
			t.Helper()
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is a folder"},
		"in no folder": {func(*testing.T, string) {}, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cdui.db")
			if name == "in no folder" {
				path = filepath.Join(path, "cdui.db")
			}
			c.make(t, path)
			s, err := store.Open(t.Context(), store.Config{Path: path})
			if err == nil {
				shut(t, s)
				t.Fatal("it opened")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), filepath.Dir(path)) {
				t.Errorf("got %v", err)
			}
		})
	}
}
