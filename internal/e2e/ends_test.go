package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/run"
)

// users runs a test as root, where runs get a pid namespace, and as an ordinary
// user, where a keeper stands above the shim.
func users(t *testing.T, test func(t *testing.T, p *plane)) {
	t.Helper()
	for name, uid := range map[string]int{"root": 0, "ordinary user": 65534} {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() != 0 && uid != 0 {
				t.Skip("needs root to become another user")
			}
			p := preparePlane(t)
			if os.Getuid() == 0 {
				p.uid = uid
			}
			p.start()
			test(t, p)
		})
	}
}

// hostile leaves processes behind in every way that is known: in the
// background, in sessions of their own, by nohup, by a double fork, and as a
// loop that goes on forking.
const hostile = `
sleep 1000 &
setsid sleep 1001 &
nohup sleep 1002 >/dev/null 2>&1 &
( ( setsid sleep 1003 & ) & )
setsid sh -c 'while :; do setsid sleep 1004 & sleep 0.05; done' &
`

func TestC2_NothingOutlivesItsRun(t *testing.T) {
	users(t, func(t *testing.T, p *plane) {
		for name, c := range map[string]struct {
			tail string
			stop func(id string)
			want run.Status
		}{
			"ends by itself": {"sleep 0.5; exit 0", func(string) {}, run.Succeeded},
			"fails":          {"sleep 0.5; exit 3", func(string) {}, run.Failed},
			"is cancelled":   {"sleep 1005", func(id string) { p.running(id); p.cdui("cancel", "-d", "--grace", "2s", id) }, run.Cancelled},
			"is killed":      {"sleep 1005", func(id string) { _ = syscall.Kill(p.running(id), syscall.SIGKILL) }, run.Failed},
		} {
			id := p.run("--", "sh", "-c", hostile+c.tail)
			c.stop(id)
			r := p.ended(id)
			if r.Status != c.want {
				t.Errorf("%s: %s (%s)", name, r.Status, r.Error)
			}
			if left := withEnv("CDUI_RUN_ID=" + id); len(left) > 0 {
				t.Errorf("%s: %d processes are left", name, len(left))
			}
			if name == "ends by itself" && len(p.facts(id).Killed) == 0 {
				t.Errorf("%s: what was killed is not recorded", name)
			}
		}
	})
}

// Proves R-03, STO-03.
func TestC8_HowItDiedIsToldApart(t *testing.T) {
	users(t, func(t *testing.T, p *plane) {
		for name, c := range map[string]struct {
			argv   []string
			class  run.EndClass
			signal int
			code   int
			text   string
		}{
			"kill -9 $$": {[]string{"sh", "-c", "kill -9 $$"}, run.EndKilled, 9, -1, "SIGKILL"},
			"exit 137":   {[]string{"sh", "-c", "exit 137"}, run.EndUserCode, -1, 137, "137"},
			"segfault":   {[]string{"sh", "-c", "kill -SEGV $$"}, run.EndKilled, 11, -1, "SIGSEGV"},
			"exit 1":     {[]string{"sh", "-c", "echo the reason is here >&2; exit 1"}, run.EndUserCode, -1, 1, "1"},
		} {
			r := p.ended(p.run(append([]string{"--"}, c.argv...)...))
			f := p.facts(r.ID)
			if r.Status != run.Failed || r.EndClass != c.class || !strings.Contains(r.Error, c.text) {
				t.Errorf("%s: %s %s %q", name, r.Status, r.EndClass, r.Error)
			}
			if c.signal >= 0 && (f.Exit.Signal == nil || *f.Exit.Signal != c.signal) || c.code >= 0 && (f.Exit.Code == nil || *f.Exit.Code != c.code) {
				t.Errorf("%s: exit %+v", name, f.Exit)
			}
			if name == "exit 1" && !strings.Contains(f.OutputTail, "the reason is here") {
				t.Errorf("%s: output tail %q", name, f.OutputTail)
			}
		}
	})
}

func TestC8_OutOfMemoryNeedsEvidence(t *testing.T) {
	group := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("cdui-e2e-%d", os.Getpid()))
	limit, joins := "memory.limit_in_bytes", "cgroup.procs"
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no memory cgroup can be made here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	if err := os.WriteFile(filepath.Join(group, limit), []byte("60000000"), 0o644); err != nil {
		t.Skipf("no memory limit can be set here: %v", err)
	}
	p := newPlane(t)
	eat := fmt.Sprintf(`echo $$ > %s/%s && exec %s -c 'b=[]
while True: b.append(bytearray(1<<20))'`, group, joins, "python3")
	r := p.ended(p.run("--", "sh", "-c", eat))
	if r.Status != run.Failed || r.EndClass != run.EndOutOfMemory {
		t.Errorf("in the limited group: %s %s %q", r.Status, r.EndClass, r.Error)
	}
}

func TestC1_AStopWaitsForTheLastProcess(t *testing.T) {
	p := newPlane(t)
	saver := p.file("t.py", `import signal, sys, time
def stop(*_):
    for i in range(6):
        print("saving", i, flush=True); time.sleep(0.5)
    open(sys.argv[1], "w").write("done"); sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True: time.sleep(0.1)
`)
	saved := filepath.Join(filepath.Dir(p.dir), "saved")
	id := p.run("--", "sh", "-c", "python3 "+saver+" "+saved+"; true")
	eventually(t, time.Minute, "the program is ready", func() bool { return strings.Contains(string(p.rawLog(id)), "ready") })
	p.cdui("cancel", "-d", id)
	r := p.ended(id)
	if r.Status != run.Cancelled {
		t.Errorf("%s %q", r.Status, r.Error)
	}
	if _, err := os.Stat(saved); err != nil {
		t.Error("it was killed before it had saved")
	}
	if got := string(p.rawLog(id)); !strings.Contains(got, "saving 5") {
		t.Errorf("output was lost: %q", got)
	}

	stubborn := p.file("stubborn.py", "import signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready',flush=True)\nwhile True: time.sleep(0.1)\n")
	id = p.run("--", "sh", "-c", "python3 "+stubborn+"; true")
	eventually(t, time.Minute, "the program is ready", func() bool { return strings.Contains(string(p.rawLog(id)), "ready") })
	p.cdui("cancel", "-d", "--grace", "2s", id)
	if r = p.ended(id); r.Status != run.Cancelled {
		t.Errorf("%s %q", r.Status, r.Error)
	}
	if left := withEnv("CDUI_RUN_ID=" + id); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Proves K-07, CAN-02.
func TestAScriptThatIgnoresSIGTERMIsKilledAfterTheGrace(t *testing.T) {
	needTorch(t)
	p := newPlane(t)
	script := p.file("deaf.py", "import signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready',flush=True)\nwhile True: time.sleep(0.1)\n")
	id := p.run(script)
	eventually(t, time.Minute, "the script is ready", func() bool { return strings.Contains(string(p.rawLog(id)), "ready") })
	p.cdui("cancel", "-d", "--grace", "1s", id)
	if p.show(id).StoppingDeadline == nil {
		t.Error("no deadline is shown")
	}
	if r := p.ended(id); r.Status != run.Cancelled || r.EndClass != run.EndCancel {
		t.Errorf("%s %s %q", r.Status, r.EndClass, r.Error)
	}
}

// Proves R-03.
func TestATimeLimitEndsTheRun(t *testing.T) {
	p := newPlane(t, "CDUI_CANCEL_GRACE_S=1")
	r := p.ended(p.run("--time-limit", "1s", "--", "sleep", "1000"))
	if r.Status != run.Failed || r.EndClass != run.EndTimeout || !strings.Contains(r.Error, "1s") && !strings.Contains(r.Error, "1 s") {
		t.Errorf("%s %s %q", r.Status, r.EndClass, r.Error)
	}
}

// supervisors finds the shim and the keeper of a run.
func supervisors(p *plane, id string) []int {
	var out []int
	for _, pid := range withArgs(filepath.Join(p.dir, "agent-runs", id)) {
		out = append(out, pid)
	}
	return out
}

// Proves P-04.
func TestTheSupervisorsDeathEndsTheRun(t *testing.T) {
	users(t, func(t *testing.T, p *plane) {
		for i := range 2 {
			id := p.run("--", "sh", "-c", hostile+"sleep 1005")
			p.running(id)
			pids := supervisors(p, id)
			if i >= len(pids) {
				continue // a pid namespace needs no keeper
			}
			if err := syscall.Kill(pids[i], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			r := p.ended(id)
			if r.Status != run.Interrupted || r.EndClass != run.EndKilled {
				t.Errorf("supervisor %d of %d killed: %s %s %q", i+1, len(pids), r.Status, r.EndClass, r.Error)
			}
			eventually(t, 10*time.Second, "no process is left", func() bool { return len(withEnv("CDUI_RUN_ID="+id)) == 0 })
		}
		// The slots are free again.
		if r := p.ended(p.run("--", "true")); r.Status != run.Succeeded {
			t.Errorf("afterwards: %s", r.Status)
		}
	})
}
