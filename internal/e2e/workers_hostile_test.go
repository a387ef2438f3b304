package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// W-03: no line, however long, and no environment, however large, breaks the
// connection.
func TestP2_LargeOutputDoesNotDropTheLink(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		for i := range 5000 {
			b.env = append(b.env, fmt.Sprintf("P2_VARIABLE_%d=%d", i, i))
		}
		b.enroll()
		since := *b.row().ConnectedAt
		folder := filepath.Dir(w.script("print.py", "import sys\nfor n in sys.argv[1:]: print('a' * int(n))\n"))
		quiet := w.run("--worker", b.name, "--no-files", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.3; done")
		small := w.succeeded(w.runIn(folder, "--worker", b.name, "print.py", "--", "80000", "5000000"))
		want := strings.Repeat("a", 80000) + "\n" + strings.Repeat("a", 5000000) + "\n"
		if log := w.rawLog(small.ID); string(log) != want {
			t.Errorf("%d of %d bytes", len(log), len(want))
		}
		large := w.succeeded(w.runIn(folder, "--worker", b.name, "print.py", "--", "100000000"))
		if log := w.rawLog(large.ID); len(log) < 1<<20 || len(bytes.Trim(log, "a\n")) > 0 {
			t.Errorf("%d bytes, and not only those that were written", len(log))
		}
		w.succeeded(quiet)
		if log := string(w.rawLog(quiet)); log != "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n" {
			t.Errorf("the quiet run beside it: %q", log)
		}
		if row := b.row(); row.State != api.WorkerOnline || !row.ConnectedAt.Equal(since) {
			t.Errorf("the link was dropped: %s, connected at %s, not %s", row.State, row.ConnectedAt, since)
		}
	})
}

// SEC-10, W-06: the second of two agents with one identity is told so, and the
// first one and its runs notice nothing.
func TestP3_ACopiedAgentIsRefused(t *testing.T) {
	inWorld(t, 3*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b, copied := w.box("box1"), w.box("box2")
		b.enroll()
		since := *b.row().ConnectedAt
		id := w.run("--worker", b.name, "--no-files", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 1; done")
		pid := w.running(id)
		from, to := filepath.Join(b.home(), "agent", b.name), filepath.Join(copied.home(), "agent", b.name)
		if err := os.MkdirAll(to, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"token", "agent.json"} {
			raw, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(to, name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		copied.spawn("agent", "start", "--name", b.name)
		eventually(t, 30*time.Second, "the copy is refused", func() bool { return strings.Contains(copied.log.String(), "rejects this worker") })
		r := w.ended(id)
		if r.Status != run.Succeeded || string(w.rawLog(id)) != "1\n2\n3\n4\n5\n6\n7\n8\n" || alive(pid) {
			t.Errorf("%s %q, console %q", r.Status, r.Error, w.rawLog(id))
		}
		for _, e := range w.events(id) {
			if e.Type == run.EventRunWarning {
				t.Errorf("the run was touched: %s", e.Payload)
			}
		}
		if row := b.row(); row.State != api.WorkerOnline || !row.ConnectedAt.Equal(since) {
			t.Errorf("the first agent lost its connection: %+v", row)
		}
	})
}
