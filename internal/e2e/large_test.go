package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
)

// cells is a module that prints bytes that say where they stand: cells of ten,
// numbered up to period and then anew.
const cells = `import sys
period = 1_000_000
block = memoryview(b"".join(b"%09d," % i for i in range(period)))
def cells(first, n):
    first %= period
    return block[first * 10:(first + n) * 10]
`

const period = 1_000_000

// kept reads all that is kept of a console of cells, and tells how many bytes
// that is, where its first hole begins, and where it ends.
func (w *world) kept(id string) (bytes, hole, end int64) {
	w.t.Helper()
	for next := int64(0); ; {
		res, err := http.Get(fmt.Sprintf("http://%s/api/runs/%s/log?offset=%d", w.addr, id, next))
		if err != nil {
			w.t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		res.Body.Close()
		at, bad := strconv.ParseInt(res.Header.Get(api.HeaderLogOffset), 10, 64)
		if err != nil || bad != nil || res.StatusCode != http.StatusOK {
			w.t.Fatalf("log of %s from %d: %d, %v, %v", id, next, res.StatusCode, err, bad)
		}
		if len(raw) == 0 {
			if hole == 0 {
				hole = next
			}
			return bytes, hole, next
		}
		if at > next && hole == 0 {
			hole = next
		}
		// Whole cells from the first one that begins here.
		for i := (10 - at%10) % 10; i+10 <= int64(len(raw)); i += 10 {
			if want := fmt.Sprintf("%09d,", (at+i)/10%period); string(raw[i:i+10]) != want {
				w.t.Fatalf("log of %s: at %d stands %q, not %q", id, at+i, raw[i:i+10], want)
			}
		}
		bytes += int64(len(raw))
		next = at + int64(len(raw))
	}
}

// P2, W-03: an agent whose machine has 5,000 variables hands them to a run, and
// a run brings as many; both are there to the letter.
func TestP2_FiveThousandVariables(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		const n = 5000
		var passed, args, machines, submitted []string
		for i := range n {
			theirs, ours := fmt.Sprintf("P2_MACHINE_%04d=%d é", i, i), fmt.Sprintf("P2_RUN_%04d=%d\t%d", i, i, i*i)
			machines, submitted = append(machines, theirs), append(submitted, ours)
			passed = append(passed, "--pass-env", strings.SplitN(theirs, "=", 2)[0])
			args = append(args, "--env", ours)
		}
		b.env = machines
		b.start(append([]string{"--token", w.enrollment(b.name)}, passed...)...)
		since := *b.row().ConnectedAt
		tr := w.train(b, "quiet", "0.1")
		digest := func(list []string) string {
			slices.Sort(list)
			return fmt.Sprintf("%d %x\n", len(list), sha256.Sum256([]byte(strings.Join(list, "\n"))))
		}
		script := w.script("env.py", `import hashlib, os
for prefix in ("P2_MACHINE_", "P2_RUN_"):
    mine = sorted(k + "=" + v for k, v in os.environ.items() if k.startswith(prefix))
    print(len(mine), hashlib.sha256("\n".join(mine).encode()).hexdigest())
`)
		r := w.succeeded(w.runIn(filepath.Dir(script), append(append([]string{"--worker", b.name}, args...), script)...))
		if log, want := string(w.rawLog(r.ID)), digest(machines)+digest(submitted); log != want {
			t.Errorf("the run sees %q, not %q", log, want)
		}
		// The report of such a machine is taken again and again.
		b.kill9()
		b.start(passed...)
		tr.goesOn()
		tr.finish()
		if again := b.row(); !again.ConnectedAt.After(since) {
			t.Errorf("connected at %s, before at %s", again.ConnectedAt, since)
		}
	})
}

// P2, W-03: 100 MB without a line's end leave the connection and the run beside
// it alone, and what is kept of them is what was printed.
func TestP2_AHundredMegabytesWithoutALine(t *testing.T) {
	inWorld(t, 5*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		b.enroll()
		since := *b.row().ConnectedAt
		tr := w.train(b, "quiet", "0.1")
		script := w.script("print.py", cells+"for i in range(0, 10_000_000, period): sys.stdout.buffer.write(cells(i, period))\n")
		r := w.succeeded(w.runIn(filepath.Dir(script), "--worker", b.name, script))
		kept, hole, end := w.kept(r.ID)
		if end != 100_000_000 || kept != api.MaxLogBytes || hole != api.MaxLogBytes/4 {
			t.Errorf("of 100 MB %d bytes are kept, without a hole up to %d, and end at %d", kept, hole, end)
		}
		tr.goesOn()
		tr.finish()
		if warned := tr.warned(); len(warned) > 0 {
			t.Errorf("warned of %q", warned)
		}
		b.undisturbedSince(since)
	})
}
