package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// DSC-07, DSC-12, DSC-13, K-05: beyond the grace the run is given up and its child, once it is back, stopped.
func TestP1_ARunOfAWorkerThatStaysAwayIsGivenUp(t *testing.T) {
	inWorld(t, 3*time.Minute, func(t *testing.T, w *world) {
		w.env = append(w.env, "CDUI_WORKER_RESUME_GRACE_S=3")
		w.start()
		b := w.box("box1")
		b.enroll()
		id := w.run("--worker", b.name, "--no-files", "--", "sh", "-c", "echo start; exec sleep 1000")
		pid := w.running(id)
		b.kill9()
		eventually(t, 10*time.Second, "the run is out of sight", func() bool { return w.show(id).Status == run.Disconnected })
		if row := b.row(); row.State != api.WorkerDisconnected || len(row.Runs) != 1 || row.ResumeUntil == nil {
			t.Errorf("meanwhile %+v", row)
		}
		r := w.ended(id)
		if r.Status != run.Interrupted || r.EndClass != run.EndWorkerLost || r.Error == "" {
			t.Errorf("%s %s %q", r.Status, r.EndClass, r.Error)
		}
		if !alive(pid) {
			t.Error("the child ended although nobody told it to")
		}
		events := len(w.events(id))
		// What comes back too late is stopped, and changes nothing.
		b.start()
		eventually(t, 30*time.Second, "the child is stopped", func() bool { return !alive(pid) })
		if n := len(w.events(id)); n != events || w.show(id).Status != run.Interrupted {
			t.Errorf("%d events became %d, %s", events, n, w.show(id).Status)
		}
		eventually(t, 20*time.Second, "the late result is kept", func() bool { return strings.Contains(string(w.show(id).Facts), "late_result") })
		next := w.succeeded(w.run("--worker", b.name, "--no-files", "--", "true"))
		if next.WorkerID != b.name || w.stuck() != 0 {
			t.Errorf("afterwards on %q, %d slots stuck", next.WorkerID, w.stuck())
		}
	})
}

// DSC-02, DSC-07, DSC-08, DSC-11, ERR-01, ERR-02: out of sight, slots held, and back.
func TestP1_ALineThatIsCutForLongerThanItsHeartbeats(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		b.enroll()
		script := w.script("count.py", strings.ReplaceAll(counting, "time.sleep(0.02)", "time.sleep(float(sys.argv[2]))"))
		calmly := w.succeeded(w.runIn(filepath.Dir(script), "--worker", b.name, script, "--", filepath.Join(b.dir, "starts-calm"), "0"))
		types, points := telling(w.events(calmly.ID))
		want := calm{quiet(types), points, string(w.rawLog(calmly.ID))}

		starts := filepath.Join(b.dir, "starts")
		id := w.runIn(filepath.Dir(script), "--worker", b.name, script, "--", starts, "1")
		pid := w.running(id)
		b.cut()
		eventually(t, time.Minute, "the run is out of sight", func() bool { return w.show(id).Status == run.Disconnected })
		if out := w.cdui("workers"); !strings.Contains(out, "link lost") || !strings.Contains(out, "1 run held") {
			t.Errorf("workers says %s", out)
		}
		if n := w.stuck(); n != 1 || !alive(pid) {
			t.Errorf("meanwhile %d slots are held, child alive %t", n, alive(pid))
		}
		b.heal()
		eventually(t, time.Minute, "the run is back", func() bool { return w.show(id).Status == run.Running })
		if got := w.running(id); got != pid {
			t.Errorf("pid %d became %d", pid, got)
		}
		var c tally
		w.compare("a long cut", id, starts, want, &c)
		var warned []string
		for _, e := range w.events(id) {
			if e.Type == run.EventRunWarning {
				warned = append(warned, string(e.Payload))
			}
		}
		if len(warned) != 2 || !strings.Contains(warned[0], protocol.CodeWorkerDisconnected) || !strings.Contains(warned[1], protocol.CodeWorkerReconnected) ||
			c.lost+c.doubled+c.copies+c.orphans > 0 {
			t.Errorf("%s; warnings %q", c, warned)
		}
	})
}

// W-08, SEC-07, SEC-08, P-07: either side is replaced by another release while a training runs.
func TestAnUpgradeLeavesTrainingsOnWorkersAlone(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		older := binary
		newer := filepath.Join(t.TempDir(), "cdui")
		build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X cdui/internal/version.Version=99.0.0", "-o", newer, "cdui/cmd/cdui")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build another version: %v: %s", err, out)
		}
		w.start()
		b := w.box("box1")
		b.enroll()
		was := b.row().Version
		gate := filepath.Join(b.dir, "gate")
		id := w.run("--worker", b.name, "--no-files", "--", "sh", "-c", "echo before; while [ ! -e "+gate+" ]; do sleep 0.1; done; echo after; exit 7")
		pid := w.running(id)

		// The control plane first.
		w.signal(syscall.SIGTERM)
		binary = newer
		w.plane.start()
		b.online()
		if row := b.row(); row.Version == "99.0.0" || !alive(pid) {
			t.Errorf("version %s, child alive %t", row.Version, alive(pid))
		}
		waits := w.run("--worker", b.name, "--no-files", "--", "true")
		hold := time.NewTimer(2 * time.Second)
		<-hold.C
		if r := w.show(waits); r.Status != run.Queued {
			t.Errorf("a worker of another version gets a new run: %s %s", r.Status, r.Error)
		}
		// Then the agent, while the training still runs.
		b.kill9()
		b.start()
		if row := b.row(); row.Version != "99.0.0" || !alive(pid) {
			t.Errorf("version %s, child alive %t", row.Version, alive(pid))
		}
		if got := w.running(id); got != pid {
			t.Errorf("pid %d became %d", pid, got)
		}
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := w.ended(id); r.Status != run.Failed || *w.facts(id).Exit.Code != 7 || string(w.rawLog(id)) != "before\nafter\n" {
			t.Errorf("%s %q, console %q", r.Status, r.Error, w.rawLog(id))
		}
		w.succeeded(waits)

		eventually(t, 20*time.Second, "the agent has forgotten its runs", func() bool {
			left, err := os.ReadDir(filepath.Join(b.home(), "agent", b.name, "agent-runs"))
			return err == nil && len(left) == 0
		})
		// An agent of another version that holds nothing is turned away, and the
		// reason names both.
		b.kill9()
		binary = older
		b.launch()
		eventually(t, 20*time.Second, "the older agent is rejected", func() bool { return b.row().State == api.WorkerRejected })
		if why := b.row().RejectReason; !strings.Contains(why, "99.0.0") || !strings.Contains(why, was) {
			t.Errorf("the reason is %q", why)
		}
	})
}
