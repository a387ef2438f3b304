package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// flooding prints cells at 50 MB/s and logs 10,000 points a second for a while,
// and writes down how much that was.
const flooding = `import json, sys, threading, time, cdui
stop = time.monotonic() + float(sys.argv[1])
counts = {}
def pace(began, done, rate):
    time.sleep(max(0, began + done / rate - time.monotonic()))
def metrics():
    began, i = time.monotonic(), 0
    while time.monotonic() < stop:
        cdui.log({"m%d" % k: i * 10 + k for k in range(10)}, step=i)
        i += 1
        if i % 50 == 0: pace(began, i * 10, 10_000)
    counts["points"] = i * 10
def console():
    began, i = time.monotonic(), 0
    while time.monotonic() < stop:
        sys.stdout.buffer.write(cells(i, 50_000))
        i += 50_000
        pace(began, i * 10, 50_000_000)
    sys.stdout.buffer.flush()
    counts["bytes"] = i * 10
both = [threading.Thread(target=f) for f in (metrics, console)]
for t in both: t.start()
for t in both: t.join()
with open(sys.argv[2], "w") as f: json.dump(counts, f)
`

// flood has a run print and log as much as it can beside a quiet one.
func flood(t *testing.T, lasts time.Duration) {
	inWorld(t, lasts*5+6*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		b.enroll()
		since := *b.row().ConnectedAt
		tr := w.train(b, "quiet", "0.1")
		script := w.script("flood.py", cells+flooding)
		told := filepath.Join(b.dir, "told")
		id := w.runIn(filepath.Dir(script), "--worker", b.name, script, "--", fmt.Sprint(lasts.Seconds()), told)
		w.running(id)
		tr.goesOn()
		eventually(t, lasts*3+4*time.Minute, "the flood ends", func() bool {
			if row := b.row(); row.State != api.WorkerOnline || !row.ConnectedAt.Equal(since) {
				t.Fatalf("in the flood the worker is %s, connected at %s, not %s", row.State, row.ConnectedAt, since)
			}
			return !w.show(id).Active
		})
		r := w.succeeded(id)
		var counts struct{ Points, Bytes int64 }
		raw, err := os.ReadFile(told)
		if err == nil {
			err = json.Unmarshal(raw, &counts)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes and %d points in %v", counts.Bytes, counts.Points, lasts)
		kept, hole, end := w.kept(id)
		if all := min(counts.Bytes, api.MaxLogBytes); end != counts.Bytes || kept != all || hole < min(all, api.MaxLogBytes/4) {
			t.Errorf("of %d bytes %d are kept, without a hole up to %d, and end at %d", counts.Bytes, kept, hole, end)
		}

		var facts struct {
			Dropped map[string]int64 `json:"dropped"`
		}
		if err := json.Unmarshal(r.Facts, &facts); err != nil {
			t.Fatal(err)
		}
		got, last := int64(0), int64(-1)
		for _, e := range w.events(id) {
			if e.Type != run.EventMetric {
				continue
			}
			var p struct{ Points []struct{ Value int64 } }
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				t.Fatal(err)
			}
			for _, x := range p.Points {
				if x.Value <= last {
					t.Fatalf("point %d comes after point %d", x.Value, last)
				}
				got, last = got+1, x.Value
			}
		}
		if lost := facts.Dropped["metrics"]; got+lost != counts.Points {
			t.Errorf("of %d points %d came, and %d are told to be left out", counts.Points, got, lost)
		}
		if delete(facts.Dropped, "metrics"); len(facts.Dropped) > 0 {
			t.Errorf("dropped %v", facts.Dropped)
		}
		tr.goesOn()
		tr.finish()
		if warned := tr.warned(); len(warned) > 0 {
			t.Errorf("warned of %q", warned)
		}
		b.undisturbedSince(since)
		if n := w.stuck(); n > 0 {
			t.Errorf("%d slots are stuck", n)
		}
	})
}

// W-03, W-04, DSC-14: a run that floods its worker costs the one beside it
// nothing, and itself no more than the caps say.
func TestAFloodOnAWorker(t *testing.T) { flood(t, 4*time.Second) }

// W-03, W-04, DSC-14.
func TestAFloodOfAMinuteOnAWorker(t *testing.T) {
	soak(t)
	flood(t, time.Minute)
}
