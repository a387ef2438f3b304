package store_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cdui/internal/run"
	"cdui/internal/store"
)

// crashEnv makes the test binary a writer that is to be killed: it writes to
// the database named there and prints what was acknowledged.
const crashEnv = "CDUI_STORE_CRASH_DB"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		if err := writeUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if raceEnabled {
		// The command line still wins.
		if err := flag.Set("rapid.checks", "15"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

const crashWriters = 4

// writeUntilKilled has writers that each insert runs, log to them and end
// them. A line "id cursor seq metrics ended" follows each acknowledged call.
func writeUntilKilled(path string) error {
	s, err := store.Open(context.Background(), store.Config{Path: path})
	if err != nil {
		return err
	}
	base, err := strconv.Atoi(os.Getenv(crashEnv + "_BASE"))
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	failed := make(chan error, crashWriters)
	for w := range crashWriters {
		group.Go(func() { failed <- crashWriter(s, base+w*1000) })
	}
	group.Wait()
	return <-failed
}

func crashWriter(s *store.Store, base int) error {
	ctx := context.Background()
	for n := base; ; n++ {
		id, seq, metrics := runID(n), 0, 0
		row := newRow(n)
		row.Status, row.Attempt = run.Running, 1
		if _, err := s.Apply(ctx, store.Change{Insert: row}); err != nil {
			return err
		}
		fmt.Println(id, 0, 0, 0, false)
		for i := range 40 {
			c := store.Change{RunID: id, Attempt: 1, RequireActive: true, RequireAttempt: 1}
			c.Events = events(seq, 1+(i*7+n)%30)
			seq += len(c.Events)
			if i%3 == 0 {
				c.Metrics = flushes(fmt.Sprintf(`[{"name":"loss","value":%d}]`, seq))
				metrics++
			}
			c.RecordedSeq = uint64(seq)
			r, err := s.Apply(ctx, c)
			if err != nil {
				return err
			}
			fmt.Println(id, r[0].LastCursor, seq, metrics, false)
		}
		r, err := s.Apply(ctx, finish(id))
		if err != nil {
			return err
		}
		fmt.Println(id, r[0].LastCursor, seq, metrics, true)
		if n%3 == 0 {
			if err := s.Delete(ctx, id); err != nil {
				return err
			}
			fmt.Println(id, -1, 0, 0, true)
		}
	}
}

type acknowledged struct {
	cursor  int64
	seq     uint64
	metrics int
	ended   bool
}

// Proves W-04.
func TestAKillAtAnyMomentLosesNothingAcknowledged(t *testing.T) {
	kills := 25
	if raceEnabled || testing.Short() {
		kills = 6
	}
	ended := 0
	var path string
	for k := range kills {
		if k%5 == 0 {
			path = filepath.Join(t.TempDir(), "cdui.db")
		}
		known := map[string]acknowledged{}
		runAndKill(t, path, k*10_000, known)
		s := open(t, path)
		verifyAcknowledged(t, s, known)
		// The rebuilt tails must carry on where they stopped.
		active, err := s.Active(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range active {
			before, _ := s.LastCursor(t.Context(), r.ID)
			got := apply(t, s, store.Change{RunID: r.ID, Events: events(0, 1)})
			if got[0].FirstCursor != before+1 {
				t.Errorf("run %s continues at %d after %d", r.ID, got[0].FirstCursor, before)
			}
			apply(t, s, finish(r.ID))
		}
		report := checkSound(t, s)
		shut(t, s)
		if t.Failed() {
			t.Fatalf("after kill %d of %d, %d runs, %d events", k+1, kills, report.Runs, report.Events)
		}
		ended += len(known)
	}
	t.Logf("survived %d kills, %d runs whole", kills, ended)
}

func runAndKill(t *testing.T, path string, base int, known map[string]acknowledged) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+path, crashEnv+"_BASE="+strconv.Itoa(base))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := 10 + rand.IntN(500)
	scanner := bufio.NewScanner(out)
	for n := 0; scanner.Scan(); n++ {
		if n == lines {
			// Whatever is in the pipe was acknowledged too: read to its end.
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		var id string
		var a acknowledged
		if _, err := fmt.Sscan(scanner.Text(), &id, &a.cursor, &a.seq, &a.metrics, &a.ended); err != nil {
			continue // the last line may be torn
		}
		known[id] = a
	}
	_ = cmd.Wait()
}

func verifyAcknowledged(t *testing.T, s *store.Store, known map[string]acknowledged) {
	t.Helper()
	active := map[string]uint64{}
	rows, err := s.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		active[r.ID] = r.RecordedSeq
	}
	for id, a := range known {
		row, err := s.Run(t.Context(), id)
		if errors.Is(err, store.ErrNotFound) && a.ended {
			// A delete may have come through before it was acknowledged.
			continue
		}
		if a.cursor < 0 {
			t.Errorf("run %s was deleted and is there", id)
			continue
		}
		if err != nil {
			t.Errorf("run %s: %v", id, err)
			continue
		}
		last, err := s.LastCursor(t.Context(), id)
		if err != nil || last < a.cursor {
			t.Errorf("run %s: last cursor %d, acknowledged %d, %v", id, last, a.cursor, err)
		}
		got, err := s.Events(t.Context(), id, 0, 1<<20, 0)
		if err != nil || int64(len(got)) != last {
			t.Errorf("run %s: %d events, last cursor %d, %v", id, len(got), last, err)
		}
		if m, err := s.Metrics(t.Context(), id, ""); err != nil || len(m) < a.metrics {
			t.Errorf("run %s: %d flushes, acknowledged %d, %v", id, len(m), a.metrics, err)
		}
		if a.ended && row.Status != run.Succeeded {
			t.Errorf("run %s: acknowledged as ended, is %s", id, row.Status)
		}
		if seq, ok := active[id]; ok && seq < a.seq {
			t.Errorf("run %s: recorded seq %d, acknowledged %d", id, seq, a.seq)
		}
	}
}

// Anybody may open the database with a tool of theirs while runs report.
func TestD1_ALockedDatabaseDelaysWritersAndLosesNothing(t *testing.T) {
	hold := 2 * time.Second
	if os.Getenv("CDUI_LONG_TESTS") != "" {
		hold = 10 * time.Second
	}
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	const writers, each = 200, 6
	for n := range writers {
		apply(t, s, store.Change{Insert: newRow(n)})
	}
	outside := openOutside(t, path)
	lock := outside.begin(t)
	var blocked atomic.Int64
	var group sync.WaitGroup
	for n := range writers {
		group.Go(func() {
			for i := range each {
				if i == 0 {
					blocked.Add(1)
				}
				if _, err := s.Apply(t.Context(), store.Change{RunID: runID(n), Events: events(i, 2)}); err != nil {
					t.Errorf("writer %d: %v", n, err)
					return
				}
				if _, err := s.Events(t.Context(), runID(n), 0, 10, 0); err != nil {
					t.Errorf("reader %d: %v", n, err)
				}
			}
		})
	}
	held := time.NewTimer(hold)
	backup := filepath.Join(t.TempDir(), "copy.db")
	if _, err := s.Backup(t.Context(), backup); err != nil {
		t.Error("backup under the lock:", err)
	}
	<-held.C
	if blocked.Load() != writers {
		t.Errorf("%d writers had begun", blocked.Load())
	}
	if last, _ := s.LastCursor(t.Context(), runID(0)); last != 0 {
		t.Error("a write came through an exclusive lock")
	}
	lock()
	outside.exec(t, "VACUUM")
	group.Wait()
	if err := s.Healthy(); err != nil {
		t.Error(err)
	}
	for n := range writers {
		if last, err := s.LastCursor(t.Context(), runID(n)); err != nil || last != 2*each {
			t.Errorf("run %d has %d events, %v", n, last, err)
		}
	}
	checkSound(t, s)
}

func TestALockThatOutlastsPatienceIsAnErrorThatNamesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s, err := store.Open(t.Context(), store.Config{Path: path, BusyTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, s)
	unlock := openOutside(t, path).begin(t)
	_, err = s.Apply(t.Context(), store.Change{Insert: newRow(1)})
	if !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if !errors.Is(s.Healthy(), store.ErrBusy) {
		t.Errorf("health is %v", s.Healthy())
	}
	unlock()
	apply(t, s, store.Change{Insert: newRow(1)})
	if err := s.Healthy(); err != nil {
		t.Errorf("health is %v", err)
	}
}

// outsider is another program with the database open.
type outsider struct{ conn *sql.Conn }

func openOutside(t *testing.T, path string) outsider {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = db.Close()
	})
	return outsider{conn}
}

func (o outsider) exec(t *testing.T, query string) {
	t.Helper()
	if _, err := o.conn.ExecContext(context.Background(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// begin takes an exclusive lock and gives the function that lets it go.
func (o outsider) begin(t *testing.T) func() {
	t.Helper()
	o.exec(t, "BEGIN EXCLUSIVE")
	return sync.OnceFunc(func() { o.exec(t, "COMMIT") })
}
