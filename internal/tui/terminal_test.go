package tui_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"cdui/internal/api"
	"cdui/internal/client/live"
	"cdui/internal/tui"
	"cdui/internal/tui/ui"
)

// childEnv makes this test binary the program under test, in the way it names.
const childEnv = "CDUI_TUI_CHILD"

func TestMain(m *testing.M) {
	if how := os.Getenv(childEnv); how != "" {
		os.Exit(child(how))
	}
	os.Exit(m.Run())
}

// still is a connection with one frame.
type still struct {
	ctx  context.Context
	sent bool
	how  string
}

func (s *still) Next() (api.LiveFrame, error) {
	if !s.sent {
		s.sent = true
		return small(), nil
	}
	if s.how == "reader" {
		<-time.After(300 * time.Millisecond) // the screen is up by then
		panic("boom in a reader")
	}
	<-s.ctx.Done()
	return api.LiveFrame{}, s.ctx.Err()
}

func (*still) Close() {}

type fragile struct{ *source }

func (fragile) Run(context.Context, string) (api.Run, error) { panic("boom in a batch") }
func (fragile) Cancel(context.Context, string, api.CancelRequest) (api.CancelReply, error) {
	panic("boom in a command")
}

// child shows the screen on the terminal that it was started on.
func child(how string) int {
	if how == "widths" {
		return widths()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGTERM)
	go func() {
		sig := <-caught
		cancel(errors.New("stopped by " + sig.String()))
	}()
	armed := time.Now().Add(time.Second)
	src := fragile{sweepRun()}
	err := tui.Run(ctx, tui.Config{
		Dial: func(ctx context.Context, _ string, _ int64) (live.Conn, error) {
			return &still{ctx: ctx, how: how}, nil
		},
		Source: src, Sweeps: src, Act: ui.Actions{Runs: src, Workers: src, Queue: src, Sweeps: src, Submit: src.submit, SubmitSweep: src.submitSweep}, Theme: "dark", Lang: "en", Unicode: true,
		In: os.Stdin, Out: os.Stdout, Environ: os.Environ(), Now: func() time.Time {
			if how == "main" && time.Now().After(armed) {
				panic("boom in the main loop")
			}
			return time.Now()
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// terminal is a pseudo terminal with a program on it.
type terminal struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	before unix.Termios
	cmd    *exec.Cmd
	done   chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func start(t *testing.T, how string, argv ...string) *terminal {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	// Setsize made it block; one that is closed must not wait for its reader.
	fd, err := unix.Dup(int(master.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	master.Close()
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "master")
	x := &terminal{t: t, master: master, slave: slave, done: make(chan struct{})}
	x.before = x.modes()
	if len(argv) == 0 {
		argv = []string{os.Args[0]}
	}
	x.cmd = exec.Command(argv[0], argv[1:]...)
	x.cmd.Env = append(os.Environ(), childEnv+"="+how, "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = slave, slave, slave
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := master.Read(buf)
			x.mu.Lock()
			x.out.Write(buf[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(x.done)
		_ = x.cmd.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill() // it may have ended
		<-x.done
		slave.Close()
		master.Close()
	})
	return x
}

func (x *terminal) modes() unix.Termios {
	x.t.Helper()
	m, err := unix.IoctlGetTermios(int(x.slave.Fd()), unix.TCGETS)
	if err != nil {
		x.t.Fatal(err)
	}
	return *m
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String()
}

// wait waits until the terminal was sent words, after from bytes.
func (x *terminal) wait(words string, from int) {
	x.t.Helper()
	x.until(words, func() bool { s := x.text(); return len(s) > from && strings.Contains(s[from:], words) })
}

func (x *terminal) until(what string, ok func() bool) {
	x.t.Helper()
	deadline, tick := time.NewTimer(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			out := x.text()
			x.t.Fatalf("no %q in the last of %q", what, out[max(0, len(out)-1500):])
		}
	}
}

func (x *terminal) keys(s string) {
	x.t.Helper()
	if _, err := io.WriteString(x.master, s); err != nil {
		x.t.Fatal(err)
	}
}

// restored fails unless the terminal is as it was: modes, screen, cursor, mouse.
func (x *terminal) restored(from int) {
	x.t.Helper()
	x.until("a terminal as it was", func() bool { return x.modes() == x.before })
	last := func(on, off string) {
		x.until(off+" after "+on, func() bool {
			out := x.text()[from:]
			return strings.LastIndex(out, on) < strings.LastIndex(out, off)
		})
	}
	last("\x1b[?1049h", "\x1b[?1049l")
	last("\x1b[?25l", "\x1b[?25h")
	last("\x1b[?1002h", "\x1b[?1002l")
}

func (x *terminal) ended(code int, says string) {
	x.t.Helper()
	select {
	case <-x.done:
	case <-time.After(30 * time.Second):
		x.t.Fatalf("it goes on: %q", x.text())
	}
	x.restored(0)
	x.until(says, func() bool { return strings.Contains(x.text(), says) })
	if got := x.cmd.ProcessState.ExitCode(); got != code {
		x.t.Errorf("exit code %d, want %d", got, code)
	}
}

// up waits for the first screen; the terminal is in other modes then.
func (x *terminal) up() {
	x.t.Helper()
	x.wait("resnet epoch", 0)
	if x.modes() == x.before {
		x.t.Fatal("the terminal is still as it was")
	}
}

// Proves U2 and T-04: the terminal is as it was after a panic anywhere, after
// SIGTERM, after q; what happened can be read, and the exit code tells.
func TestU2_TheTerminalIsRestored(t *testing.T) {
	for name, c := range map[string]struct {
		keys string
		code int
		says string
	}{
		"quit":    {keys: "q", code: 0},
		"main":    {code: 1, says: "boom in the main loop"},
		"command": {keys: "c", code: 1, says: "boom in a command"},
		"batch":   {keys: "\r", code: 1, says: "boom in a batch"},
		"reader":  {code: 1, says: "boom in a reader"},
		"term":    {code: 1, says: "stopped by terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := start(t, name)
			x.up()
			if name == "term" {
				if err := x.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			x.keys(c.keys)
			x.ended(c.code, c.says)
			if c.code == 1 && name != "term" {
				x.wait(tui.ErrCrashed.Error(), 0)
			}
		})
	}
}

// Proves U2: Ctrl-Z gives the shell its terminal back, fg the screen.
func TestU2_ToTheShellAndBack(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	x := start(t, "quit", shell, "--norc", "--noprofile", "-i")
	x.keys("PS1=; stty -a >/dev/null; exec 2>&1\n")
	x.keys("'" + os.Args[0] + "'\n")
	x.wait("resnet epoch", 0)
	at := len(x.text())
	x.keys("\x1a")
	x.wait("Stopped", at)
	x.keys("stty -a; echo mode\"s\"\n")
	x.wait("modes", at)
	out := x.text()[at:]
	if !strings.Contains(out, "\x1b[?1049l") || !strings.Contains(out, "\x1b[?25h") {
		t.Errorf("the screen stayed: %q", out)
	}
	if strings.Contains(out, "-icanon") || strings.Contains(out, "-isig") {
		t.Errorf("the modes stayed: %q", out)
	}
	at = len(x.text())
	x.keys("fg\n")
	x.wait("\x1b[?1049h", at)
	x.wait("resnet epoch", at)
	x.keys("q")
	x.wait("\x1b[?1049l", at)
	x.keys("echo left with $?\n")
	x.wait("left with 0", at)
	x.keys("exit\n")
	<-x.done
}

// Proves U2: a line that is cut ends the program.
func TestU2_ATerminalThatIsGone(t *testing.T) {
	t.Parallel()
	x := start(t, "quit")
	x.up()
	x.slave.Close()
	x.master.Close()
	select {
	case <-x.done:
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on without a terminal")
	}
	if x.cmd.ProcessState.Success() {
		t.Error("it ended as if all were well")
	}
}
