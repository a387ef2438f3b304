package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// faults is how often a fault test strikes; the long version sets CDUI_FAULTS.
func faults(t *testing.T, few int) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("CDUI_FAULTS")); err == nil {
		return n
	}
	return few
}

// counting is a script that notes that it was started, then counts in its
// console and in a metric.
const counting = `import os, sys, time, cdui
with open(sys.argv[1], "a") as f: f.write("%d\n" % os.getpid())
for i in range(60):
    print("line", i, flush=True)
    cdui.log({"i": i}, step=i)
    time.sleep(0.02)
cdui.artifact(__file__, kind="source")
`

// tally counts what must never happen.
type tally struct {
	struck, lost, doubled, copies, orphans, stuck int
}

func (c tally) String() string {
	return fmt.Sprintf("faults survived %d: lost %d, doubled %d, second copies %d, orphans %d, stuck slots %d",
		c.struck, c.lost, c.doubled, c.copies, c.orphans, c.stuck)
}

// telling is what a log says, apart from times and from how metric points were
// batched.
func telling(events []api.Event) (types []string, points []string) {
	for _, e := range events {
		if e.Type != run.EventMetric {
			types = append(types, e.Type)
			continue
		}
		var p struct {
			Points []struct {
				Name  string
				Value json.RawMessage
				Step  json.RawMessage
			}
		}
		if json.Unmarshal(e.Payload, &p) != nil {
			points = append(points, "unreadable")
		}
		for _, x := range p.Points {
			points = append(points, fmt.Sprint(x.Name, string(x.Step), string(x.Value)))
		}
	}
	return types, points
}

// Proves P-05, W-05, D.4.
func TestTheControlPlaneIsKilledAtRandomPoints(t *testing.T) {
	users(t, func(t *testing.T, p *plane) {
		script := p.file("count.py", counting)
		random := rand.New(rand.NewSource(time.Now().UnixNano()))
		var c tally
		calm := p.ended(p.run("--python", "/usr/bin/python3", script, "--", filepath.Join(filepath.Dir(p.dir), "starts-calm")))
		wantTypes, wantPoints := telling(p.events(calm.ID))
		wantLog := string(p.rawLog(calm.ID))
		if calm.Status != run.Succeeded || len(wantPoints) != 60 {
			t.Fatalf("undisturbed: %s %s, %d points", calm.Status, calm.Error, len(wantPoints))
		}
		for i := range faults(t, 6) {
			starts := filepath.Join(filepath.Dir(p.dir), fmt.Sprint("starts-", i))
			submit := func() (string, int) {
				return p.try("run", "--detach", "-q", "--key", fmt.Sprint("fault-", i), "--python", "/usr/bin/python3", script, "--", starts)
			}
			killer := time.AfterFunc(time.Duration(random.Intn(2200))*time.Millisecond, func() { _ = p.cmd.Process.Signal(syscall.SIGKILL) })
			_, code := submit()
			eventually(t, 20*time.Second, "the control plane dies", p.gone)
			killer.Stop()
			pause := time.NewTimer(time.Duration(random.Intn(1500)) * time.Millisecond)
			<-pause.C
			p.start()
			c.struck++
			id, again := submit() // the key gives the same run, whether the first call was answered or not
			if again != 0 {
				t.Fatalf("submit with the key of before: exit %d (first: %d): %s", again, code, id)
			}
			r := p.ended(strings.TrimSpace(id))
			types, points := telling(p.events(r.ID))
			log := string(p.rawLog(r.ID))
			if r.Status != run.Succeeded || !slices.Equal(types, wantTypes) || !slices.Equal(points, wantPoints) || log != wantLog {
				t.Errorf("fault %d: %s %q, %d of %d events, %d of %d points, %d of %d console bytes\n%v", i, r.Status, r.Error, len(types), len(wantTypes), len(points), len(wantPoints), len(log), len(wantLog), types)
				if len(points) > len(wantPoints) || len(types) > len(wantTypes) || len(log) > len(wantLog) {
					c.doubled++
				} else {
					c.lost++
				}
			}
			for k, e := range p.events(r.ID) {
				if e.Cursor != int64(k+1) {
					t.Errorf("fault %d: cursor %d at place %d", i, e.Cursor, k+1)
				}
			}
			raw, err := os.ReadFile(starts)
			if n := strings.Count(string(raw), "\n"); err != nil || n != 1 {
				t.Errorf("fault %d: the script was started %d times", i, n)
				c.copies += n - 1
			}
			c.orphans += len(withEnv("CDUI_RUN_ID=" + r.ID))
		}
		var st api.ServerStatus
		p.get(api.PathStatus, &st)
		for _, d := range st.Devices {
			c.stuck += d.Slots.Used
		}
		if c.orphans+c.stuck > 0 {
			t.Error("orphans or stuck slots")
		}
		eventually(t, 20*time.Second, "the folders of ended runs are cleared", func() bool {
			left, err := os.ReadDir(filepath.Join(p.dir, "agent-runs"))
			return err == nil && len(left) == 0
		})
		var check api.DBCheck
		p.get(api.PathDBCheck, &check)
		if !check.OK {
			t.Errorf("database: %v", check.Findings)
		}
		t.Log(c)
		fmt.Println(c)
	})
}

// Proves P-03, P-05, P-07.
func TestATrainingOutlivesTheControlPlane(t *testing.T) {
	users(t, func(t *testing.T, p *plane) {
		id := p.run("--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo $i; sleep 0.2; done")
		pid := p.running(id)
		p.kill9()
		if !alive(pid) {
			t.Fatal("the child died with the control plane")
		}
		p.start()
		if got := p.running(id); got != pid {
			t.Errorf("pid %d became %d", pid, got)
		}
		// An orderly stop leaves it alone as well, and says so.
		out := p.cdui("stop")
		if !strings.Contains(out, "1") {
			t.Errorf("stop says %q", out)
		}
		<-p.exited
		if !alive(pid) {
			t.Fatal("the child died with an orderly stop")
		}
		// What ends while nobody looks is found at the next start.
		eventually(t, time.Minute, "the child ends", func() bool { return !alive(pid) })
		p.start()
		if r := p.ended(id); r.Status != run.Succeeded || strings.Count(string(p.rawLog(id)), "\n") != 15 {
			t.Errorf("%s %q, console %q", r.Status, r.Error, p.rawLog(id))
		}
	})
}

func TestC4_AStrangerWithTheOldPidIsLeftAlone(t *testing.T) {
	p := newPlane(t)
	id := p.run("--", "sleep", "1000")
	p.running(id)
	folder := filepath.Join(p.dir, "agent-runs", id)
	p.kill9()
	for _, pid := range withArgs(folder) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	eventually(t, 10*time.Second, "the run's processes end", func() bool { return len(withEnv("CDUI_RUN_ID="+id)) == 0 })
	// Every pid that the folder names now belongs to somebody else.
	stranger := p.command()
	stranger.Path, stranger.Args = "/bin/sleep", []string{"sleep", "1000"}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	path := filepath.Join(folder, "shim.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	if replacePIDs(m, stranger.Process.Pid) == 0 {
		t.Fatalf("no pid in %s", raw)
	}
	if raw, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	r := p.ended(id)
	if r.Status != run.Interrupted {
		t.Errorf("%s %s %q", r.Status, r.EndClass, r.Error)
	}
	if !alive(stranger.Process.Pid) {
		t.Error("the stranger was killed")
	}
}

// replacePIDs writes pid over every pid in a document and counts them.
func replacePIDs(doc map[string]any, pid int) int {
	n := 0
	for k, v := range doc {
		if inner, ok := v.(map[string]any); ok {
			n += replacePIDs(inner, pid)
		} else if _, isNumber := v.(float64); isNumber && (strings.HasSuffix(k, "pid") || k == "child") {
			doc[k] = pid
			n++
		}
	}
	return n
}
