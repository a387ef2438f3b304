package proctree

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

func TestParseStat(t *testing.T) {
	rest := " S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 1 2"
	for _, c := range []struct {
		in, name string
		ok       bool
	}{
		{"42 (sh)" + rest, "sh", true},
		{"42 (a) S 1 (b)" + rest, "a) S 1 (b", true},
		{"42 ()" + rest, "", true},
		{"42 (sh) S 7", "", false},
		{"(sh)" + rest, "", false},
		{"42 sh" + rest, "", false},
		{"", "", false},
	} {
		p, err := parseStat([]byte(c.in))
		if (err == nil) != c.ok {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if c.ok && (p.PID != 42 || p.PPID != 7 || p.Name != c.name || p.Start != 123456 || p.State != 'S') {
			t.Errorf("%q: %+v", c.in, p)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (sh) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 1 2"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = parseStat(b) })
}

func TestOnlyTheWholeIdentityOpensAProcess(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for what, wrong := range map[string]func(){
		"start":     func() { id.Start++ },
		"boot":      func() { id.BootID = "x" },
		"namespace": func() { id.PIDNS++ },
		"pid":       func() { id.PID = 0 },
	} {
		was := id
		wrong()
		if _, err := Open(id); !errors.Is(err, ErrGone) {
			t.Errorf("another %s: %v", what, err)
		}
		id = was
	}
	h, err := Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if h.Ended(0) {
		t.Error("a living process is said to have ended")
	}
	if err := h.Signal(syscall.SIGKILL); err != nil || !h.Ended(10_000) {
		t.Error("the process did not end:", err)
	}
	_ = cmd.Wait()
	if _, err := Open(id); !errors.Is(err, ErrGone) {
		t.Errorf("a reaped process: %v", err)
	}
}

func TestDescendantsAndEnvironment(t *testing.T) {
	const mark = "CDUI_TEST_MARK"
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo ready; wait")
	cmd.Env = append(os.Environ(), mark+"=one")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	below := Descendants(cmd.Process.Pid)
	if len(below) != 1 || below[0].PPID != cmd.Process.Pid {
		t.Errorf("%+v", below)
	}
	all := Descendants(os.Getpid())
	if !slices.ContainsFunc(all, func(p Process) bool { return p.PID == below[0].PID }) {
		t.Errorf("a grandchild is not among %+v", all)
	}
	marked := ByEnv(mark, func(v string) bool { return v == "one" })
	if len(marked["one"]) != 2 || len(ByEnv(mark, func(v string) bool { return v == "on" })) != 0 {
		t.Errorf("%+v", marked)
	}
	for KillBelow(os.Getpid()) > 0 {
		_, _ = syscall.Wait4(-1, nil, 0, nil)
	}
	_ = cmd.Wait()
}

func TestCatches(t *testing.T) {
	for script, want := range map[string][2]bool{
		"echo; exec sleep 60":                         {false, false},
		"trap '' TERM; echo; exec sleep 60":           {false, true},
		"trap 'exit' TERM; echo; while :; do :; done": {true, false},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		handler, ignored := Catches(cmd.Process.Pid, syscall.SIGTERM)
		if handler != want[0] || ignored != want[1] {
			t.Errorf("%q: handler %v, ignored %v", script, handler, ignored)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
