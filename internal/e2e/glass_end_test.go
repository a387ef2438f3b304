package e2e_test

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Proves U2 and T-04 with the program as it is shipped: the terminal is as it
// was after q, SIGTERM and SIGHUP, and the exit code tells which it was.
func TestU2_TheScreenIsLeftInOrder(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	for name, c := range map[string]struct {
		sig  syscall.Signal
		code int
	}{"q": {code: 0}, "SIGTERM": {syscall.SIGTERM, 143}, "SIGHUP": {syscall.SIGHUP, 129}, "SIGINT": {syscall.SIGINT, 130}} {
		t.Run(name, func(t *testing.T) {
			x := p.screen(t, 80, 24)
			x.shows("live", "No runs yet.")
			if x.modes() == x.before {
				t.Fatal("the terminal is still as it was")
			}
			if c.sig == 0 {
				x.keys("q")
			} else if err := x.cmd.Process.Signal(c.sig); err != nil {
				t.Fatal(err)
			}
			x.ended(c.code)
		})
	}
}

// Proves U2 with the program as it is shipped: a line that is cut ends it,
// whether the kernel says so with SIGHUP or, under nohup, with nothing but a
// failed read.
func TestU2_TheScreenEndsWithItsLine(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	t.Run("hung up", func(t *testing.T) {
		x := p.screen(t, 80, 24)
		x.shows("live", "No runs yet.")
		x.hangUp()
		x.gone(129, 1) // whichever is seen first
	})
	t.Run("SIGHUP ignored", func(t *testing.T) {
		cmd := p.command()
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "trap '' HUP; exec '" + binary + "' tui --theme dark"}
		cmd.Env = append(cmd.Env, "TERM=xterm-256color")
		x := newGlass(t, 80, 24, cmd)
		x.shows("live", "No runs yet.")
		x.hangUp()
		x.gone(1)
	})
}

// Proves U2 with the program as it is shipped: Ctrl-Z gives the shell its
// terminal back, fg the screen, and the size that the terminal has by then.
func TestU2_TheScreenGoesToTheShellAndBack(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	p := newPlane(t)
	cmd := p.command()
	cmd.Path, cmd.Args = shell, []string{"bash", "--norc", "--noprofile", "-i"}
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "PS1=")
	x := newGlass(t, 80, 24, cmd)
	x.keys("'" + binary + "' tui --theme dark\n")
	x.shows("live", "No runs yet.")
	x.keys("\x1a")
	x.shows("Stopped")
	x.restored()
	x.keys("stty -a; echo mode\"s\"\n")
	x.shows("modes")
	if out := x.text(); strings.Contains(out, "-icanon") || strings.Contains(out, "-isig") || strings.Contains(out, "-echo ") {
		t.Errorf("the modes stayed: %s", out)
	}
	x.keys("fg\n")
	x.shows("live", "No runs yet.")
	x.keys("q")
	x.restored()
	x.keys("echo left with $?\n")
	x.shows("left with 0")
	x.keys("exit\n")
	x.gone(0)
}
