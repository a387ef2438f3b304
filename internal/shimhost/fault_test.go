package shimhost_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
	"cdui/internal/shimhost"
)

func TestC4_AStrangerWithTheSavedPidIsLeftAlone(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		dir := t.TempDir()
		a := shell("sleep 99")
		startFromOtherProcess(t, dir, way, a)
		note, ok, err := wire.ReadNote(filepath.Join(dir, a.RunID))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		p, err := proctree.Read("/proc", note.Shim.PID)
		if err != nil {
			t.Fatal(err)
		}
		if way == wire.IsolateKeeper {
			kill(t, p.PPID, syscall.SIGSTOP)
			defer func() { kill(t, p.PPID, syscall.SIGKILL)() }()
		}
		kill(t, note.Shim.PID, syscall.SIGKILL)()

		// A stranger has the pid now, and even one that began at the same time.
		stranger := exec.CommandContext(t.Context(), "sleep", "99")
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		id, err := proctree.Identify(stranger.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, edit := range []func(*wire.Identity){
			func(i *wire.Identity) { i.PID = id.PID },
			func(i *wire.Identity) { *i = id; i.BootID = "another boot" },
			func(i *wire.Identity) { *i = id; i.PIDNS = 1 },
			func(i *wire.Identity) { *i = id; i.Start++ },
		} {
			n := note
			edit(&n.Shim)
			path := filepath.Join(dir, a.RunID, wire.NoteFile)
			if err := os.WriteFile(path, []byte(mustJSON(n)), 0o600); err != nil {
				t.Fatal(err)
			}
			h := newHost(t, shimhost.Config{Dir: dir, Isolate: way})
			r, err := h.Attach(t.Context(), a.RunID)
			if err != nil {
				t.Fatal(err)
			}
			if way == wire.IsolatePIDNS {
				var lost *shimhost.LostError
				if _, err := follow(t, r, nil); !errors.As(err, &lost) || lost.BootChanged != (n.Shim.BootID != id.BootID) {
					t.Fatal(err)
				}
			}
			// The keeper of this arm holds the lock, so the shim counts as
			// one that does not react.
			_ = r.Cancel(t.Context(), 0, true)
			r.Close()
		}
		if now, err := proctree.Identify(stranger.Process.Pid); err != nil || now != id {
			t.Fatalf("the stranger was harmed: %v", err)
		}
		if err := syscall.Kill(stranger.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = stranger.Wait()
	})
}

func TestC6_AnEnvironmentTooLargeIsNamed(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	one := shell("true")
	one.Env = append(one.Env, "FOO="+strings.Repeat("x", 200<<10))
	many := shell("true")
	for i := range 40 {
		many.Env = append(many.Env, fmt.Sprintf("BAR%d=%s", i, strings.Repeat("y", 100<<10+i)))
	}
	args := command("true", strings.Repeat("z", 100<<10))
	for range 40 {
		args.Argv = append(args.Argv, args.Argv[1])
	}
	for _, c := range []struct {
		a    protocol.Assignment
		want string
	}{
		{one, "environment too large: FOO has 200 KB, the system takes 128 KB for one variable; pass it in a file"},
		{many, "environment too large: BAR39 is the largest with 100 of 4001 KB in all; pass it in a file"},
		{args, "arguments too large: 4100 KB; pass them in a file"},
	} {
		r := launch(t, h, c.a)
		recs := toEnd(t, r)
		f := finished(t, recs)
		if f.Status != "failed" || f.EndClass != "user_code" || f.Code != "environment_too_large" || f.Error != c.want {
			t.Fatalf("%+v", f)
		}
		if got := words(recs); got != "run_finished" {
			t.Fatal(got)
		}
	}
}

// It is not parallel: a program that a test just wrote is busy while a fork of
// another test has it open.
func TestWhatCanNotStartSaysWhy(t *testing.T) {
	h := newHost(t, shimhost.Config{})
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	elsewhere := shell("true")
	elsewhere.Dir = filepath.Join(dir, "none")
	for _, c := range []struct {
		a          protocol.Assignment
		code, want string
	}{
		{command("no-such-thing"), "no_such_program", "no such program: no-such-thing is not in PATH ("},
		{command("./missing"), "no_such_program", "no such program: ./missing"},
		{command(dir), "not_executable", "is a directory, not a program"},
		{command(write("plain", "x", 0o644)), "not_executable", "is not executable; allow it with chmod +x"},
		{command(write("odd", "\x01\x02", 0o755)), "not_executable", "needs a first line such as #!/bin/sh"},
		{command(write("lost", "#!/no/such/sh\n", 0o755)), "no_such_interpreter", "its interpreter /no/such/sh does not exist"},
		{command(write("dos", "#!/bin/sh\r\n", 0o755)), "no_such_interpreter", "convert it with dos2unix"},
		{elsewhere, "no_such_directory", "no such directory: " + elsewhere.Dir},
	} {
		f := finished(t, toEnd(t, launch(t, h, c.a)))
		if f.Status != "failed" || f.EndClass != "user_code" || f.Code != c.code || !strings.Contains(f.Error, c.want) {
			t.Errorf("%v: %+v", c.a.Argv, f)
		}
		if f.Exit.Code != nil || f.Exit.Signal != nil {
			t.Errorf("%v: exit %+v", c.a.Argv, f.Exit)
		}
	}
}

func TestC8_ThreeWaysToDieOf137(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		h := newHost(t, shimhost.Config{Isolate: way})
		killed := finished(t, toEnd(t, launch(t, h, shell("kill -9 $$"))))
		if killed.EndClass != "killed" || killed.Error != "killed by signal 9 (SIGKILL)" {
			t.Errorf("%+v", killed)
		}
		code := finished(t, toEnd(t, launch(t, h, shell("exit 137"))))
		if code.EndClass != "user_code" || code.Error != "exit code 137" {
			t.Errorf("%+v", code)
		}
		group := memoryGroup(t, 32<<20)
		hog := `x=$(head -c 200000000 /dev/zero | tr '\0' x); echo ${#x}`
		for name, script := range map[string]string{
			// The shell itself is the victim.
			"main": "echo $$ > " + group + "/cgroup.procs; " + hog,
			// A helper is, and the shell passes its end on.
			"helper": "sh -c 'echo $$ > " + group + "/cgroup.procs; exec python3 -c \"import time; time.sleep(0.5); b=bytearray(200000000)\"'; exit 137",
		} {
			f := finished(t, toEnd(t, launch(t, h, shell(script))))
			if f.Status != "failed" || f.EndClass != "out_of_memory" || f.Error == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
	})
}

// memoryGroup makes a cgroup with a memory limit.
func memoryGroup(t *testing.T, limit int) string {
	t.Helper()
	const v1, v2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a memory cgroup")
	}
	name := "cdui-test-" + strconv.Itoa(os.Getpid())
	dir, file := filepath.Join(v1, name), "memory.limit_in_bytes"
	if err := os.Mkdir(dir, 0o755); err != nil {
		dir, file = filepath.Join(v2, name), "memory.max"
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("no memory cgroup can be made: %v", err)
		}
	}
	t.Cleanup(func() {
		eventually(t, "the group is empty", func() bool { return os.Remove(dir) == nil })
	})
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0o644); err != nil {
		t.Skipf("the memory cgroup takes no limit: %v", err)
	}
	return dir
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it did not come about that %s", what)
		}
	}
}

func TestAPathTooLongForASocketWorks(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		long := filepath.Join(t.TempDir(), strings.Repeat("long", 30), strings.Repeat("x", 50))
		h := newHost(t, shimhost.Config{Dir: long, Isolate: way})
		r := launch(t, h, shell("echo ready; sleep 99"))
		waitOutput(t, r, "ready")
		other, err := h.Attach(t.Context(), r.ID())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		cancel(t, other, time.Second, false)
		if f := finished(t, toEnd(t, other)); f.Status != "cancelled" {
			t.Fatalf("%+v", f)
		}
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal("records are for everybody:", err)
		}
	})
}

// Proves P-04.
func TestAProcessThatNothingKillsIsReported(t *testing.T) {
	t.Parallel()
	const freezer = "/sys/fs/cgroup/freezer"
	group := filepath.Join(freezer, "cdui-test-"+strconv.Itoa(os.Getpid()))
	if os.Geteuid() != 0 {
		t.Skip("needs root to freeze a process")
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no process can be frozen here: %v", err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile(filepath.Join(group, "freezer.state"), []byte("THAWED"), 0o644)
		eventually(t, "the group is empty", func() bool { return os.Remove(group) == nil })
	})
	h := newHost(t, shimhost.Config{Isolate: wire.IsolateKeeper, Limits: shimhost.Limits{StuckAfter: 300 * time.Millisecond}})
	r := launch(t, h, shell("echo $$ > "+group+"/cgroup.procs; echo ready; while :; do sleep 0.05; done"))
	waitOutput(t, r, "ready")
	if err := os.WriteFile(filepath.Join(group, "freezer.state"), []byte("FROZEN"), 0o644); err != nil {
		t.Fatal(err)
	}
	cancel(t, r, 0, true)
	recs, err := follow(t, r, func(rec protocol.Record) bool { return rec.Type == protocol.RunFinished })
	if err != nil {
		t.Fatal(err)
	}
	if f := finished(t, recs); f.Status != "failed" || f.EndClass != "killed" || f.Code != "process_stuck" {
		t.Fatalf("%+v", f)
	}
	if err := os.WriteFile(filepath.Join(group, "freezer.state"), []byte("THAWED"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process has ended", func() bool {
		return len(proctree.ByEnv("CDUI_RUN_ID", func(id string) bool { return id == r.ID() })) == 0
	})
}

func TestAShimWithoutAnAssignmentNeverStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHost(t, shimhost.Config{Dir: dir})
	for _, id := range []string{"empty", "locked"} {
		if err := os.Mkdir(filepath.Join(dir, id), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "locked", wire.NoteFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := h.Find(t.Context())
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	for _, f := range found {
		if f.State != shimhost.NeverStarted {
			t.Errorf("%+v", f)
		}
		r, err := h.Attach(t.Context(), f.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := follow(t, r, nil); !errors.Is(err, shimhost.ErrNeverStarted) {
			t.Error(err)
		}
		r.Close()
		if err := h.Remove(f.RunID); err != nil {
			t.Error(err)
		}
	}
}

func TestDamagedFilesOfADeadRunAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHost(t, shimhost.Config{Dir: dir})
	zeros := make([]byte, 300)
	for name, b := range map[string][]byte{wire.NoteFile: zeros, wire.ExitFile: zeros, "00000000000000000001.seg": zeros} {
		if err := os.MkdirAll(filepath.Join(dir, "torn"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "torn", name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := h.Find(t.Context())
	if err != nil || len(found) != 1 || found[0].State != shimhost.Lost || !found[0].BootChanged {
		t.Fatalf("%+v %v", found, err)
	}
	r, err := h.Attach(t.Context(), "torn")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := follow(t, r, nil); !errors.Is(err, shimhost.ErrLost) {
		t.Fatal(err)
	}
}

func TestAFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := newHost(t, shimhost.Config{Dir: dir, Isolate: wire.IsolateNone, Exe: "/bin/false"})
	if _, err := h.Start(t.Context(), shell("true")); err == nil {
		t.Fatal("a shim that ends at once was started")
	}
	h = newHost(t, shimhost.Config{Dir: dir, Isolate: wire.IsolateNone, Exe: filepath.Join(dir, "none")})
	if _, err := h.Start(t.Context(), shell("true")); err == nil {
		t.Fatal("a shim that is not there was started")
	}
	for _, id := range []string{"", "..", "a/b", ".hidden", strings.Repeat("x", 200)} {
		a := shell("true")
		a.RunID = id
		if _, err := h.Start(t.Context(), a); err == nil {
			t.Fatalf("run id %q was taken", id)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Fatal(left, err)
	}
}
