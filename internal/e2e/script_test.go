package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"cdui/internal/api"
)

// TestScripts runs the program as a person would, by the scripts in
// testdata/script: real control planes, a home folder of its own.
//
// Proves S-04, M-01.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			for name, value := range map[string]string{
				"PATH": filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME": home, "XDG_RUNTIME_DIR": "", "LANG": "C.UTF-8", "TERM": "xterm", "CDUI_WARM": "-1",
			} {
				e.Setenv(name, value)
			}
			e.Defer(func() { stopAll(e.WorkDir) })
			return os.Mkdir(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cdui": call, "control": control, "exits": exits, "shows": shows, "mode": mode, "waits": waits,
		},
	})
}

// stopAll ends what a script left: its control planes as a person would, then
// whatever has its folder for a home.
func stopAll(dir string) {
	found, _ := filepath.Glob(filepath.Join(dir, "*", "server.json"))
	for _, path := range found {
		cmd := exec.Command(binary, "stop", "--cancel-runs", "--data", filepath.Dir(path))
		cmd.Env = []string{"HOME=" + filepath.Join(dir, "home")}
		_ = cmd.Run()
	}
	_, _ = killMatching(dir)
}

// call runs this program.
func call(ts *testscript.TestScript, neg bool, args []string) {
	if err := ts.Exec(binary, args...); (err != nil) != neg {
		ts.Fatalf("cdui %v: %v", args, err)
	}
}

// control NAME [FLAGS] starts a control plane whose data folder is NAME, and
// sets NAME_url and NAME_pin.
func control(ts *testscript.TestScript, _ bool, args []string) {
	name := args[0]
	start := append([]string{"start", "--json", "--listen", "127.0.0.1:0", "--data", ts.MkAbs(name)}, args[1:]...)
	ts.Check(ts.Exec(binary, start...))
	var info api.ServerInfo
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &info))
	ts.Setenv(name+"_url", info.Address)
	ts.Setenv(name+"_pin", info.Pin)
}

// exits CODE COMMAND runs a command that must end with that exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case err == nil && want == 0:
	case errors.As(err, &exit) && exit.ExitCode() == want:
	default:
		ts.Fatalf("%v ended with %v, want %d; stderr: %s", args[1:], err, want, ts.ReadFile("stderr"))
	}
}

// shows PATTERN COMMAND runs a command that goes on, on a terminal, until the
// pattern is on it.
func shows(ts *testscript.TestScript, _ bool, args []string) {
	re := regexp.MustCompile(args[0])
	cmd := exec.Command(binary, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "LANG", "TERM", "CDUI_CONTEXT", "CDUI_SERVER"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	ts.Check(err)
	defer tty.Close()
	deadline := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer deadline.Stop()
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	for !re.Match(seen.Bytes()) {
		n, err := tty.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			_ = cmd.Wait()
			ts.Fatalf("%v ended without %q; it wrote %q", args[1:], args[0], seen.String())
		}
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_, _ = io.Copy(io.Discard, tty) // a terminal that nobody reads holds the program up
	_ = cmd.Wait()
}

// waits PATTERN FILE waits until a file that grows has a line like that.
func waits(ts *testscript.TestScript, _ bool, args []string) {
	re := regexp.MustCompile("(?m)" + args[0])
	deadline := time.Now().Add(30 * time.Second)
	for {
		raw, _ := os.ReadFile(ts.MkAbs(args[1]))
		if re.Match(raw) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s has no %q: %s", args[1], args[0], raw)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// mode OCTAL PATH compares the mode of a file or folder.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	st, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(st.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}
