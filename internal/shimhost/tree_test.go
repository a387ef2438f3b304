package shimhost_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost"
)

// leavers are programs that leave processes behind in every way.
var leavers = map[string]string{
	"plain":     `sleep 99 & `,
	"setsid":    `setsid sleep 99 & `,
	"nohup":     `nohup sleep 99 >/dev/null 2>&1 & `,
	"fork":      `(setsid sh -c 'nohup sleep 99 >/dev/null 2>&1 &' &) ; `,
	"stubborn":  `setsid sh -c 'trap "" TERM HUP; for i in $(seq 99); do sleep 1; done' & `,
	"fork loop": `setsid sh -c 'trap "" TERM; for i in $(seq 2000); do setsid sleep 20 & sleep 0.01; done' & `,
}

func TestC2_NothingOutlivesARunThatEnds(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		for name, leave := range leavers {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				a := shell(leave + "echo left; sleep 0.1; exit 0")
				r := launch(t, h, a)
				recs := toEnd(t, r)
				f := finished(t, recs)
				if f.Status != "succeeded" || len(f.Killed) == 0 {
					t.Fatalf("%+v", f)
				}
				for _, k := range f.Killed {
					if k.PID <= 1 || k.Name == "" {
						t.Fatalf("%+v", k)
					}
				}
				if !strings.Contains(words(recs), "warning:processes_killed") {
					t.Fatal(words(recs))
				}
				wantNoProcess(t, a.RunID)
			})
		}
	})
}

func TestC2_NothingOutlivesACancel(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		dir := t.TempDir()
		for name, leave := range leavers {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inner := filepath.Join(dir, name)
				if err := os.WriteFile(inner, []byte(leave+"sleep 0.3; echo ready; sleep 99"), 0o600); err != nil {
					t.Fatal(err)
				}
				a := shell("sh '" + inner + "'; true")
				r := launch(t, h, a)
				waitOutput(t, r, "ready")
				cancel(t, r, 500*time.Millisecond, false)
				f := finished(t, toEnd(t, r))
				stubborn := name == "stubborn" || name == "fork loop"
				if f.Status != "cancelled" || stubborn != (len(f.Killed) > 0) {
					t.Fatalf("%+v", f)
				}
				wantNoProcess(t, a.RunID)
			})
		}
	})
}

// mess is a run that has left processes everywhere and goes on.
func mess() protocol.Assignment {
	all := ""
	for _, leave := range leavers {
		all += leave
	}
	return shell(all + "sleep 0.3; echo ready; sleep 99")
}

// shimOf gives the shim's identity, and the keeper's pid where there is one.
func shimOf(t *testing.T, r *shimhost.Run) (shim, keeper int) {
	t.Helper()
	note, ok, err := wire.ReadNote(r.Dir())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	id, err := proctree.Identify(note.Shim.PID)
	if err != nil || id != note.Shim {
		t.Fatalf("the note says %+v, /proc says %+v: %v", note.Shim, id, err)
	}
	p, err := proctree.Read("/proc", note.Shim.PID)
	if err != nil {
		t.Fatal(err)
	}
	return note.Shim.PID, p.PPID
}

// Proves P-04.
func TestKill9OfTheShimLeavesNothing(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		a := mess()
		r := launch(t, h, a)
		waitOutput(t, r, "ready")
		shim, _ := shimOf(t, r)
		if err := syscall.Kill(shim, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		recs, err := follow(t, r, nil)
		wantNoProcess(t, a.RunID)
		if way == wire.IsolateKeeper {
			f := finished(t, recs)
			if f.Status != "interrupted" || f.EndClass != "killed" || f.Code != "supervisor_killed" {
				t.Fatalf("%+v: %v", f, err)
			}
			return
		}
		var lost *shimhost.LostError
		if !errors.Is(err, shimhost.ErrLost) || !errors.As(err, &lost) || lost.BootChanged {
			t.Fatalf("%v after %s", err, words(recs))
		}
		if found, err := h.Find(t.Context()); err != nil || len(found) != 1 || found[0].State != shimhost.Lost || found[0].Attempt != 1 {
			t.Fatalf("%+v %v", found, err)
		}
	})
}

// Proves P-04.
func TestKill9OfTheKeeperLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{Isolate: wire.IsolateKeeper})
	a := mess()
	r := launch(t, h, a)
	waitOutput(t, r, "ready")
	_, keeper := shimOf(t, r)
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f := finished(t, toEnd(t, r))
	if f.Status != "interrupted" || f.EndClass != "killed" || f.Code != "supervisor_killed" {
		t.Fatalf("%+v", f)
	}
	wantNoProcess(t, a.RunID)
}

// Proves P-04.
func TestKill9OfBothIsSweptByTheNextHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHost(t, shimhost.Config{Dir: dir, Isolate: wire.IsolateKeeper})
	a := mess()
	r := launch(t, h, a)
	waitOutput(t, r, "ready")
	shim, keeper := shimOf(t, r)
	kill(t, keeper, syscall.SIGSTOP)
	ended := []func(){kill(t, shim, syscall.SIGKILL), kill(t, keeper, syscall.SIGKILL)}
	for _, wait := range ended {
		wait()
	}
	again := newHost(t, shimhost.Config{Dir: dir, Isolate: wire.IsolateKeeper})
	found, err := again.Find(t.Context())
	if err != nil || len(found) != 1 || found[0].State != shimhost.Lost {
		t.Fatalf("%+v %v", found, err)
	}
	if _, err := follow(t, r, nil); !errors.Is(err, shimhost.ErrLost) {
		t.Fatal(err)
	}
	wantNoProcess(t, a.RunID)
	if err := again.Remove(a.RunID); err != nil {
		t.Fatal(err)
	}
}

// kill sends sig and gives a function that waits for the end of the process.
func kill(t *testing.T, pid int, sig syscall.Signal) (wait func()) {
	t.Helper()
	id, err := proctree.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proctree.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Signal(sig); err != nil {
		t.Fatal(err)
	}
	return func() {
		if !p.Ended(10_000) {
			t.Fatalf("process %d did not end", pid)
		}
	}
}

func TestKill9OfTheChildSaysSo(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		r := launch(t, h, shell("echo ready; sleep 99"))
		recs, err := follow(t, r, isStarted)
		if err != nil {
			t.Fatal(err)
		}
		waitOutput(t, r, "ready")
		if err := syscall.Kill(recs[0].Started.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		f := finished(t, toEnd(t, r))
		if f.Status != "failed" || f.EndClass != "killed" || f.Error != "killed by signal 9 (SIGKILL)" || f.OutputTail != "ready\n" {
			t.Fatalf("%+v", f)
		}
	})
}

// Proves P-03, W-05.
func TestKill9OfTheHostLosesNothing(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		dir, release := t.TempDir(), filepath.Join(t.TempDir(), "release")
		a := shell(`i=0; while [ $i -lt 10 ]; do echo line $i; i=$((i+1)); sleep 0.05; done; while ! [ -e ` + release + ` ]; do sleep 0.05; done; exit 5`)
		pid := startFromOtherProcess(t, dir, way, a)

		h := newHost(t, shimhost.Config{Dir: dir, Isolate: way})
		found, err := h.Find(t.Context())
		if err != nil || len(found) != 1 || found[0].RunID != a.RunID || found[0].State != shimhost.Live || found[0].Attempt != 1 {
			t.Fatalf("%+v %v", found, err)
		}
		r, err := h.Attach(t.Context(), a.RunID)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := os.WriteFile(release, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.From(2)
		recs := toEnd(t, r)
		if got := words(recs); got != "error run_finished" || recs[0].Seq != 3 {
			t.Fatal(got)
		}
		if f := finished(t, recs); f.Error != "exit code 5" || !strings.Contains(f.OutputTail, "line 9") {
			t.Fatalf("%+v", f)
		}
		if _, err := proctree.Read("/proc", pid); err == nil {
			t.Error("the child is still there")
		}
		// A run that ended while nobody looked is read the same way.
		r2, err := h.Attach(t.Context(), a.RunID)
		if err != nil {
			t.Fatal(err)
		}
		defer r2.Close()
		if got := words(toEnd(t, r2)); got != "run_started running error run_finished" {
			t.Fatal(got)
		}
		wantNoProcess(t, a.RunID)
	})
}

// startFromOtherProcess starts a in a host process of its own, which is killed
// when the run has started. It gives the child's pid.
func startFromOtherProcess(t *testing.T, dir, way string, a protocol.Assignment) int {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "host", dir, way)
	cmd.Stdin = strings.NewReader(mustJSON(a))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var rec protocol.Record
	br := bufio.NewReader(out)
	line, err := br.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &rec)
	}
	if err == nil {
		_, err = br.ReadBytes('\n')
	}
	if err != nil || rec.Started == nil {
		t.Fatalf("%s: %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	return rec.Started.PID
}
