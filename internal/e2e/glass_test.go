package e2e_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// glass is a terminal with a program on it: what the program sends is counted,
// drawn, and answered as terminals do.
type glass struct {
	t             testing.TB
	master, slave *os.File
	before        unix.Termios
	cmd           *exec.Cmd
	exited        chan struct{}

	mu   sync.Mutex
	em   *vt.Emulator
	sent []byte
	// bytes is how much was sent, paints how often, last when.
	bytes, paints int64
	last          time.Time
	// painted has something once more was drawn.
	painted chan struct{}
}

// newGlass starts a program on a terminal of w by h.
func newGlass(t testing.TB, w, h int, cmd *exec.Cmd) *glass {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(slave, &pty.Winsize{Rows: uint16(h), Cols: uint16(w)}); err != nil { //nolint:gosec // small
		t.Fatal(err)
	}
	// One that is closed must not wait for its reader.
	fd, err := unix.FcntlInt(master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master.Close()
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "master") //nolint:gosec // a descriptor
	x := &glass{t: t, master: master, slave: slave, cmd: cmd, em: vt.NewEmulator(w, h), exited: make(chan struct{}), painted: make(chan struct{}, 1)}
	x.before = x.modes()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(x.draw)
	wg.Go(func() { _, _ = io.Copy(master, x.em) }) // until the terminal is gone
	go func() {
		defer close(x.exited)
		_ = cmd.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-x.exited
		slave.Close()
		master.Close()
		_ = x.em.InputPipe().(io.Closer).Close() //nolint:forcetypeassert // a pipe; Close would race with the reader
		wg.Wait()
		if t.Failed() {
			t.Logf("the screen:\n%s", x.text())
		}
	})
	return x
}

// screen starts `cdui tui` on a terminal of w by h.
func (p *plane) screen(t testing.TB, w, h int) *glass {
	t.Helper()
	cmd := p.command("tui", "--theme", "dark")
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	return newGlass(t, w, h, cmd)
}

// glassKept bounds what a glass remembers of what it was sent.
const glassKept = 1 << 20

func (x *glass) draw() {
	buf := make([]byte, 256<<10)
	for {
		n, err := x.master.Read(buf)
		at := time.Now()
		x.mu.Lock()
		_, _ = x.em.Write(buf[:n]) // never fails
		x.sent = append(x.sent, buf[:n]...)
		if len(x.sent) > 2*glassKept {
			x.sent = append([]byte{}, x.sent[len(x.sent)-glassKept:]...)
		}
		x.bytes += int64(n)
		x.paints++
		x.last = at
		x.mu.Unlock()
		select {
		case x.painted <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (x *glass) modes() unix.Termios {
	x.t.Helper()
	m, err := unix.IoctlGetTermios(int(x.slave.Fd()), unix.TCGETS)
	if err != nil {
		x.t.Fatal(err)
	}
	return *m
}

// text is what a person reads on it now.
func (x *glass) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.em.String()
}

// look is the text with its colours.
func (x *glass) look() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.em.Render()
}

// log is the end of all that was sent.
func (x *glass) log() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.sent)
}

func (x *glass) traffic() (bytes, paints int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bytes, x.paints
}

// keys types.
func (x *glass) keys(s string) {
	x.t.Helper()
	if _, err := io.WriteString(x.master, s); err != nil {
		x.t.Fatal(err)
	}
}

// until waits for a paint that makes ok true, and tells when it came.
func (x *glass) until(what string, ok func() bool) time.Time {
	x.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for !ok() {
		select {
		case <-x.painted:
		case <-deadline.C:
			x.t.Fatalf("the screen doesn't show %s", what)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.last
}

// shows waits until all words stand on the screen.
func (x *glass) shows(words ...string) time.Time {
	x.t.Helper()
	return x.until(strings.Join(words, ", "), func() bool {
		s := x.text()
		for _, w := range words {
			if !strings.Contains(s, w) {
				return false
			}
		}
		return true
	})
}

func (x *glass) hides(words string) time.Time {
	x.t.Helper()
	return x.until("no "+words, func() bool { return !strings.Contains(x.text(), words) })
}

// ended waits for the end of the program and fails unless the terminal is as it
// was: modes, screen, cursor, mouse.
func (x *glass) ended(code int) {
	x.t.Helper()
	x.gone(code)
	if now := x.modes(); now != x.before {
		x.t.Errorf("the terminal's modes are %+v, were %+v", now, x.before)
	}
	x.restored()
}

// gone waits for the end of the program, with one of some exit codes.
func (x *glass) gone(codes ...int) {
	x.t.Helper()
	select {
	case <-x.exited:
	case <-time.After(time.Minute):
		x.t.Fatal("the program goes on")
	}
	if got := x.cmd.ProcessState.ExitCode(); !slices.Contains(codes, got) {
		x.t.Errorf("exit code %d, want %d", got, codes)
	}
}

// restored waits until the screen, the cursor and the mouse are as a shell has
// them.
func (x *glass) restored() {
	x.t.Helper()
	for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h", "\x1b[?1002h": "\x1b[?1002l"} {
		x.until(off+" after "+on, func() bool {
			sent := x.log()
			return strings.LastIndex(sent, on) < strings.LastIndex(sent, off)
		})
	}
}

// hangUp cuts the line, as sshd does when its connection breaks.
func (x *glass) hangUp() {
	x.t.Helper()
	x.slave.Close()
	if err := x.master.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		x.t.Fatal(err)
	}
}
