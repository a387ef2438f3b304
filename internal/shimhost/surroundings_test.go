package shimhost_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost"
)

// W-07, K-06: stdin is empty and nothing but its pipes is inherited; the kernel
// takes it before the shim when memory runs out.
func TestAChildStartsWithACleanSlate(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		a := command("sh", "-c", `ls /proc/self/fd | tr "\\n" " "; echo
grep SigIgn /proc/self/status
cat /proc/self/oom_score_adj
readlink /proc/$$/fd/0
pwd
env | sort
kill -0 1 && ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && echo leader`)
		a.Dir = "/usr"
		a.Env = []string{"PATH=/usr/bin:/bin", "CDUI_RUN_ID=forged", "A=b"}
		r := launch(t, h, a)
		if f := finished(t, toEnd(t, r)); f.Exit.Code == nil {
			t.Fatalf("%+v", f)
		}
		lines := strings.Split(output(t, r), "\n")
		if len(lines) < 6 {
			t.Fatalf("%q", lines)
		}
		// 0, 1, 2 and what ls itself has open.
		// Those above the first 31 belong to the C library of whoever started
		// the tests.
		ignored, err := strconv.ParseUint(strings.TrimPrefix(lines[1], "SigIgn:\t"), 16, 64)
		if err != nil || ignored&(1<<31-1) != 0 {
			t.Errorf("ignored signals: %q", lines[1])
		}
		lines[1] = ""
		want := []string{"0 1 2 3 ", "", "500", "/dev/null", "/usr"}
		if strings.Join(lines[:len(want)], "|") != strings.Join(want, "|") {
			t.Fatalf("%q", lines)
		}
		rest := strings.Join(lines[len(want):], "\n")
		for _, has := range []string{"CDUI_RUN_ID=" + a.RunID + "\n", "CDUI_REPORT=" + filepath.Join(r.Dir(), wire.ReportFile) + "\n", "A=b\n"} {
			if !strings.Contains(rest, has) {
				t.Errorf("%q is not in the environment %q", has, rest)
			}
		}
		for _, not := range []string{"forged", "CDUI_CHILD_FDS", "GOGC", "HOME="} {
			if strings.Contains(rest, not) {
				t.Errorf("%q is in the environment %q", not, rest)
			}
		}
	})
}

func TestAnyProcessOfARunReports(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		long := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
		h := newHost(t, shimhost.Config{Dir: long, Isolate: way})
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		// Each says one thing and ends, the last one with the run itself.
		r := launch(t, h, shell(`for i in 1 2 3; do "`+exe+`" client $i & done; wait; "`+exe+`" client 4 detached; exit 0`))
		recs := toEnd(t, r)
		seen := map[string]bool{}
		for _, rec := range recs {
			if rec.Type != protocol.Metrics {
				continue
			}
			var points []struct {
				Value  json.Number
				NodeID string `json:"node_id"`
			}
			if err := json.Unmarshal(rec.Points, &points); err != nil {
				t.Fatal(err)
			}
			for _, p := range points {
				seen[p.Value.String()+p.NodeID] = true
			}
		}
		for _, want := range []string{"1n1", "2n1", "3n1", "4n1"} {
			if !seen[want] {
				t.Errorf("point %s is missing: %v", want, seen)
			}
		}
	})
}

func TestAnyProcessOfARunIsToldToStop(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := launch(t, h, shell(`trap "" TERM; "`+exe+`" client wait`))
	waitOutput(t, r, "waiting")
	cancel(t, r, 20*time.Second, false)
	if f := finished(t, toEnd(t, r)); f.Status != "cancelled" || !strings.Contains(output(t, r), "told cancel 20000") {
		t.Fatalf("%+v %q", f, output(t, r))
	}
}

// Proves W-04.
func TestAFullSpoolThinsMetricsAndKeepsTheEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{Limits: shimhost.Limits{SpoolCap: 3 << 20}})
	r := launch(t, h, script(t, "flood"))
	// Nobody acknowledges until the end, so nothing is deleted.
	eventually(t, "the run has ended", func() bool { return r.Status().Dead })
	recs := toEnd(t, r)
	f := finished(t, recs)
	if f.Status != "succeeded" || f.Dropped["metrics"] == 0 || f.Dropped["event"] == 0 {
		t.Fatalf("%+v", f)
	}
	points, late := 0, 0
	for _, rec := range recs {
		var p []json.RawMessage
		if rec.Type == protocol.Metrics && json.Unmarshal(rec.Points, &p) == nil {
			points += len(p)
			if rec.Seq > uint64(len(recs)*9/10) {
				late += len(p)
			}
		}
	}
	if int64(points)+f.Dropped["metrics"] != 60_000 || points < 1000 {
		t.Errorf("%d points kept, %d dropped", points, f.Dropped["metrics"])
	}
	if !strings.Contains(words(recs[len(recs)-5:]), "completed warning:records_dropped run_finished") {
		t.Error(words(recs[len(recs)-5:]))
	}
}

func TestAStartThatIsCalledOffLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHost(t, shimhost.Config{Dir: dir})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := h.Start(ctx, shell("true")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if found, err := h.Find(t.Context()); err != nil || len(found) != 0 {
		t.Fatal(found, err)
	}
	a := shell("true")
	r := launch(t, h, a)
	if _, err := h.Start(t.Context(), a); !errors.Is(err, shimhost.ErrExists) {
		t.Fatal(err)
	}
	toEnd(t, r)
}

// Proves P-04.
func TestAUserNamespaceHoldsOrFallsBack(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{Isolate: wire.IsolateUserNS})
	r := launch(t, h, shell("id -u; exit 0"))
	recs := toEnd(t, r)
	if got := recs[0].Started.Isolation; got != h.Isolation() {
		t.Errorf("%s was asked for, %s says the run", h.Isolation(), got)
	}
	if f := finished(t, recs); f.Status != "succeeded" {
		t.Errorf("%+v", f)
	}
	if _, err := shimhost.New(shimhost.Config{Dir: t.TempDir(), Isolate: "magic"}); err == nil {
		t.Error("an unknown isolation was taken")
	}
}
