package shimhost_test

import (
	"encoding/json"
	"errors"
	"io"
	"testing"

	"cdui/internal/protocol"
	"cdui/internal/shimhost"
)

// Proves R-05, W-09.
func TestACommandFromStartToEnd(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		if h.Isolation() != way {
			t.Skipf("%s does not hold here", way)
		}
		a := shell("echo out; echo err >&2; echo $CDUI_RUN_ID; exit 0")
		r := launch(t, h, a)
		recs := toEnd(t, r)
		if got := words(recs); got != "run_started running completed run_finished" {
			t.Fatal(got)
		}
		started := recs[0].Started
		if started.PID <= 1 || started.Isolation != way || started.VisibleDevices == nil {
			t.Fatalf("%+v", started)
		}
		f := finished(t, recs)
		if f.Status != "succeeded" || f.EndClass != "" || f.Exit.Code == nil || *f.Exit.Code != 0 || f.OutputTail != "" {
			t.Fatalf("%+v", f)
		}
		if got := output(t, r); got != "out\nerr\n"+a.RunID+"\n" {
			t.Fatalf("%q", got)
		}
		if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if err := h.Remove(a.RunID); err != nil {
			t.Fatal(err)
		}
		if found, err := h.Find(t.Context()); err != nil || len(found) != 0 {
			t.Fatal(found, err)
		}
	})
}

// Proves, W-09.
func TestAScriptReports(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		a := script(t, "report")
		a.Input = json.RawMessage(`{"lr":0.1}`)
		a.Dir = "/tmp"
		recs := toEnd(t, launch(t, h, a))
		var points []map[string]json.RawMessage
		flushes := 0
		var rest []protocol.Record
		for _, rec := range recs {
			if rec.Type != protocol.Metrics {
				rest = append(rest, rec)
				continue
			}
			flushes++
			var some []map[string]json.RawMessage
			if err := json.Unmarshal(rec.Points, &some); err != nil || len(some) > protocol.MaxPoints {
				t.Fatal(len(some), err)
			}
			points = append(points, some...)
		}
		if got := words(rest); got != "run_started running progress artifact warning:careful run_facts error warning:faulty_reports run_finished" {
			t.Fatal(got)
		}
		if len(points) != 103 || flushes > 4 {
			t.Fatalf("%d points in %d records", len(points), flushes)
		}
		for i, want := range []string{`null "nan"`, `null "inf"`, `9007199254740993 `} {
			p := points[100+i]
			if got := string(p["value"]) + " " + string(p["nonfinite"]); got != want {
				t.Fatalf("point %d is %s", i, got)
			}
			if string(p["node_id"]) != `"n1"` {
				t.Fatalf("%s", p["node_id"])
			}
		}
		if rest[3].Path != "/tmp/model.pt" || string(rest[2].Payload) != `{"input":{"lr":0.1}}` || string(rest[7].Meta) != `{"count":2}` {
			t.Fatalf("%s %s %s", rest[3].Path, rest[2].Payload, rest[7].Meta)
		}
		f := finished(t, recs)
		if f.Status != "failed" || f.Error != "ValueError: bad" || f.ErrorType != "ValueError" || f.EndClass != "user_code" ||
			f.OutputTail != "printed\n" || f.PeakMemory["cpu"].MiB != 12 || *f.Exit.Code != 3 {
			t.Fatalf("%+v", f)
		}
	})
}

// Proves MEM-05, W-09: run_started of a graph with a budget says what the child
// limited itself to, and comes without it once it is clear that it didn't.
func TestAStartWaitsForTheMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		child     string
		kind      protocol.Kind
		budgets   map[string]int64
		limit     string
		remaining string
	}{
		{"limit", protocol.KindGraph, map[string]int64{"cuda:0": 2048}, `{"cuda:0":2048}`, "progress run_finished"},
		{"unlimited", protocol.KindGraph, map[string]int64{"cuda:0": 2048}, "", "progress run_finished"},
		{"silent", protocol.KindGraph, map[string]int64{"cuda:0": 2048}, "", "run_finished"},
		{"limit", protocol.KindGraph, nil, "", "run_facts progress run_finished"},
		{"limit", protocol.KindScript, map[string]int64{"cuda:0": 2048}, "", "running run_facts progress completed run_finished"},
	} {
		a := script(t, c.child)
		a.Kind, a.MemoryBudgets = c.kind, c.budgets
		recs := toEnd(t, launch(t, newHost(t, shimhost.Config{}), a))
		limit := recs[0].Started.MemoryLimit
		if string(limit) == "null" {
			limit = nil
		}
		if got := words(recs[1:]); !isStarted(recs[0]) || got != c.remaining || string(limit) != c.limit {
			t.Errorf("%s of a %s: %s, limit %s", c.child, c.kind, got, limit)
		}
	}
}
