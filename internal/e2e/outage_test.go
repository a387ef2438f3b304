package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// soak keeps what takes minutes out of make test.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("CDUI_SOAK") == "" {
		t.Skip("takes minutes; make soak runs it")
	}
}

// counter is a script that notes that it was started, and counts in its console
// and in a metric until it finds the file that lets it end.
const counter = `import os, sys, time, cdui
starts, gate, every = sys.argv[1:4]
with open(starts, "a") as f: f.write("%d\n" % os.getpid())
i, more = 0, 3
while more:
    if os.path.exists(gate): more -= 1
    print("line", i, flush=True)
    cdui.log({"i": i}, step=i)
    i += 1
    time.sleep(float(every))
with open(starts + "-counted", "w") as f: f.write(str(i))
`

// training is a counter on a worker, with somebody who follows it.
type training struct {
	w            *world
	b            *box
	what, id     string
	pid          int
	starts, gate string
	follower     *exec.Cmd
	seen         safeBuffer
}

// train starts a counter on a machine, with options of cdui run.
func (w *world) train(b *box, what, every string, options ...string) *training {
	w.t.Helper()
	tr := &training{w: w, b: b, what: what, starts: filepath.Join(b.dir, "starts-"+what), gate: filepath.Join(b.dir, "gate-"+what)}
	script := w.script("count.py", counter)
	tr.id = w.runIn(filepath.Dir(script), append(append([]string{"--worker", b.name}, options...), script, "--", tr.starts, tr.gate, every)...)
	tr.pid = w.running(tr.id)
	tr.follower = w.command("logs", "-f", tr.id)
	tr.follower.Stdout = &tr.seen
	if err := tr.follower.Start(); err != nil {
		w.t.Fatal(err)
	}
	tr.goesOn()
	return tr
}

// goesOn waits until the counter has counted on, for everybody to see.
func (tr *training) goesOn() {
	tr.w.t.Helper()
	counted := func() int { return bytes.Count(tr.w.rawLog(tr.id), []byte("\n")) }
	was := counted()
	eventually(tr.w.t, time.Minute, tr.what+" goes on", func() bool { return counted() > was+2 })
}

// finish lets the counter end, and holds against what it counted whatever is
// told of it.
func (tr *training) finish() {
	t := tr.w.t
	t.Helper()
	if err := os.WriteFile(tr.gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := tr.w.ended(tr.id)
	if r.Status != run.Succeeded || r.Attempt != 1 {
		t.Errorf("%s: %s %s %q, attempt %d", tr.what, r.Status, r.EndClass, r.Error, r.Attempt)
	}
	raw, err := os.ReadFile(tr.starts + "-counted")
	n, atoi := strconv.Atoi(string(raw))
	if err != nil || atoi != nil {
		t.Fatal(err, atoi)
	}
	var log strings.Builder
	points := make([]string, n)
	for i := range n {
		fmt.Fprintln(&log, "line", i)
		points[i] = fmt.Sprintf("i%d%d", i, i)
	}
	if got := string(tr.w.rawLog(tr.id)); got != log.String() {
		t.Errorf("%s: %d of %d console bytes, or others", tr.what, len(got), log.Len())
	}
	if err := tr.follower.Wait(); err != nil || tr.seen.String() != log.String() {
		t.Errorf("%s: who follows sees %d of %d bytes, %v", tr.what, len(tr.seen.String()), log.Len(), err)
	}
	events := tr.w.events(tr.id)
	types, got := telling(events)
	if !slices.Equal(got, points) {
		t.Errorf("%s: %d of %d points, or others: %q", tr.what, len(got), n, got)
	}
	var ends []string
	for i, e := range events {
		if e.Cursor != int64(i+1) {
			t.Errorf("%s: cursor %d at place %d", tr.what, e.Cursor, i+1)
		}
		if run.TerminalEvent(e.Type) {
			ends = append(ends, e.Type)
		}
	}
	if len(ends) != 1 || ends[0] != run.EventExecutionComplete || events[len(events)-1].Type != ends[0] {
		t.Errorf("%s: terminal events %q in %q", tr.what, ends, types)
	}
	if raw, err := os.ReadFile(tr.starts); err != nil || strings.Count(string(raw), "\n") != 1 {
		t.Errorf("%s: the script was started more than once: %v, %q", tr.what, err, raw)
	}
	if left := withEnv("CDUI_RUN_ID=" + tr.id); len(left) > 0 {
		t.Errorf("%s: processes %v are left", tr.what, left)
	}
}

// warned gives the codes of the warnings about the worker.
func (tr *training) warned() []string {
	tr.w.t.Helper()
	codes := []string{}
	for _, e := range tr.w.events(tr.id) {
		var p struct {
			Code string `json:"code"`
			Kind string `json:"kind"`
		}
		if e.Type != run.EventRunWarning {
			continue
		}
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			tr.w.t.Fatal(err)
		}
		if p.Code == "" {
			p.Code = p.Kind
		}
		codes = append(codes, p.Code)
	}
	return codes
}

// outage takes away a worker's line, an agent, and both at once, for a while,
// and twice the control plane if restarts says so.
func outage(t *testing.T, lasts time.Duration, restarts bool) {
	inWorld(t, lasts+6*time.Minute, func(t *testing.T, w *world) {
		w.env = append(w.env, "CDUI_RUN_QUEUE_MAX_CONCURRENT_CPU=3") // they share a processor
		w.start()
		cut, killed, both := w.box("cut"), w.box("killed"), w.box("both")
		for _, b := range w.boxes {
			b.enroll()
		}
		every := fmt.Sprint(min(1, lasts.Seconds()/25))
		all := []*training{w.train(cut, "line cut", every), w.train(killed, "agent killed", every), w.train(both, "both", every)}
		long := lasts >= time.Minute
		hold := func(d time.Duration) { <-time.NewTimer(d).C }
		away := func() {
			t.Helper()
			for _, tr := range all {
				eventually(t, 50*time.Second, tr.what+": out of sight", func() bool { return w.show(tr.id).Status == run.Disconnected })
				row := tr.b.row()
				if row.State != api.WorkerDisconnected || !slices.Equal(row.Runs, []string{tr.id}) || row.ResumeUntil == nil || !alive(tr.pid) {
					t.Errorf("%s: child alive %t, meanwhile %+v", tr.what, alive(tr.pid), row)
				}
			}
			// Machines that are one share its slots, so each tells of all runs.
			held := map[string]bool{}
			for _, row := range w.workers() {
				for _, d := range row.Devices {
					for _, id := range d.Runs {
						held[id] = true
					}
				}
			}
			if len(held) != len(all) {
				t.Errorf("meanwhile slots are held for %v, not for %d runs", held, len(all))
			}
		}

		over := time.NewTimer(lasts)
		cut.cut()
		both.cut()
		killed.kill9()
		both.kill9()
		if restarts {
			hold(lasts / 4)
			w.kill9()
			w.plane.start()
			away()
			if long {
				hold(lasts / 4)
				w.signal(syscall.SIGTERM)
				w.plane.start()
				away()
			}
		} else if long {
			away()
		}
		<-over.C
		for _, tr := range all {
			if !alive(tr.pid) {
				t.Errorf("%s: the child is gone", tr.what)
			}
		}
		cut.heal()
		both.heal()
		killed.launch()
		both.launch()
		for _, tr := range all {
			tr.b.online()
			eventually(t, time.Minute, tr.what+": back", func() bool { return w.show(tr.id).Status == run.Running })
			if r := w.show(tr.id); r.PID == nil || *r.PID != tr.pid {
				t.Errorf("%s: pid %d became %v", tr.what, tr.pid, r.PID)
			}
		}
		for _, tr := range all {
			tr.finish()
			got, want := tr.warned(), []string{}
			if tr.b == killed || long && (!restarts || lasts/4 > time.Minute) {
				want = append(want, protocol.CodeWorkerDisconnected)
			}
			if restarts {
				want = append(want, protocol.CodeWorkerAdopted)
			}
			if restarts && long {
				want = append(want, protocol.CodeWorkerAdopted)
			}
			if len(want) > 0 {
				want = append(want, protocol.CodeWorkerReconnected)
			}
			// After a short absence the agent may be back before its old
			// connection is found dead.
			seen := tr.b == both && !long && !restarts && slices.Equal(got, []string{protocol.CodeWorkerDisconnected, protocol.CodeWorkerReconnected})
			if !slices.Equal(got, want) && !seen {
				t.Errorf("%s: warned of %q, not %q", tr.what, got, want)
			}
		}
		if n := w.stuck(); n > 0 {
			t.Errorf("%d slots are stuck", n)
		}
		var check api.DBCheck
		w.get(api.PathDBCheck, &check)
		if !check.OK {
			t.Errorf("database: %v", check.Findings)
		}
	})
}

// P1, DSC-01, DSC-09, DSC-10: nobody notices more than he must.
func TestP1_AnOutageOfFiveSeconds(t *testing.T) { outage(t, 5*time.Second, false) }

// P1, ADP-01, ADP-04, ADP-06, W-05.
func TestP1_AnOutageOfFiveSecondsAndARestart(t *testing.T) { outage(t, 5*time.Second, true) }

// P1, DSC-02, DSC-07, DSC-08, DSC-11.
func TestP1_AnOutageOfAMinute(t *testing.T) {
	soak(t)
	outage(t, time.Minute, false)
}

// P1, ADP-01, ADP-03, ADP-06, W-05.
func TestP1_AnOutageOfAMinuteAndRestarts(t *testing.T) {
	soak(t)
	outage(t, time.Minute, true)
}

// P1, DSC-02, DSC-07, DSC-08, DSC-11, K-05.
func TestP1_AnOutageOfTenMinutes(t *testing.T) {
	soak(t)
	outage(t, 10*time.Minute, false)
}

// P1, ADP-01, ADP-03, ADP-06, W-05, K-05.
func TestP1_AnOutageOfTenMinutesAndRestarts(t *testing.T) {
	soak(t)
	outage(t, 10*time.Minute, true)
}

// P1, DSC-12, DSC-13, W-05: what ended out of sight, and later than anybody
// waited for it, is kept beside the end that was told meanwhile.
func TestP1_AResultThatComesTooLateIsKept(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.env = append(w.env, "CDUI_WORKER_RESUME_GRACE_S=3")
		w.start()
		b := w.box("box1")
		b.enroll()
		gate := filepath.Join(b.dir, "gate")
		id := w.run("--worker", b.name, "--no-files", "--", "sh", "-c", "echo before; while [ ! -e "+gate+" ]; do sleep 0.1; done; echo after; exit 7")
		pid := w.running(id)
		b.cut()
		r := w.ended(id)
		if r.Status != run.Interrupted || r.EndClass != run.EndWorkerLost || !alive(pid) {
			t.Errorf("%s %s %q, child alive %t", r.Status, r.EndClass, r.Error, alive(pid))
		}
		told := w.events(id)
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, "the child ends by itself", func() bool { return !alive(pid) })
		b.heal()
		b.online()
		var late struct {
			Result *struct {
				Status string `json:"status"`
				Exit   struct {
					Code *int `json:"code"`
				} `json:"exit"`
			} `json:"late_result"`
		}
		eventually(t, time.Minute, "the late result is kept", func() bool {
			if err := json.Unmarshal(w.show(id).Facts, &late); err != nil {
				t.Fatal(err)
			}
			return late.Result != nil
		})
		if late.Result.Status != string(run.Failed) || late.Result.Exit.Code == nil || *late.Result.Exit.Code != 7 {
			t.Errorf("the late result is %s", w.show(id).Facts)
		}
		if now := w.events(id); len(now) != len(told) || w.show(id).Status != run.Interrupted {
			t.Errorf("%d events became %d, %s", len(told), len(now), w.show(id).Status)
		}
		if next := w.succeeded(w.run("--worker", b.name, "--no-files", "--", "true")); next.WorkerID != b.name || w.stuck() != 0 {
			t.Errorf("afterwards on %q, %d slots stuck", next.WorkerID, w.stuck())
		}
	})
}
