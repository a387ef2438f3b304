package shimhost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/protocol"
	"cdui/internal/shim/unixsock"
	"cdui/internal/shim/wire"
)

// errIsolation is wrapped when a shim could not set up its isolation.
var errIsolation = errors.New("isolation is refused here")

// startIn makes dir, starts a shim in it and hands it the assignment.
func (h *Host) startIn(ctx context.Context, dir, isolation string, a protocol.Assignment) (_ *Run, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, ErrExists
		}
		return nil, err
	}
	pid := 0
	defer func() {
		if err == nil {
			return
		}
		if pid > 0 {
			h.killStarted(pid)
		}
		if rmErr := removeFolder(dir); rmErr != nil {
			err = errors.Join(err, rmErr)
		}
	}()
	if pid, err = h.spawn(dir, isolation); err != nil {
		return nil, err
	}
	conn, err := unixsock.Dial(dir, wire.SocketFile)
	if err != nil {
		return nil, h.startError(pid, err)
	}
	br := bufio.NewReaderSize(conn, 4<<10)
	if err := handOver(ctx, conn, br, a); err != nil {
		conn.Close()
		return nil, h.startError(pid, err)
	}
	r := newRun(h, dir, a.RunID, a.Attempt, pid)
	r.follow(conn, br)
	return r, nil
}

// handOver sends the assignment and waits until the shim has noted it.
func handOver(ctx context.Context, conn *net.UnixConn, br *bufio.Reader, a protocol.Assignment) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	b, err := wire.Encode(wire.Message{Op: wire.OpAssign, Assignment: &a})
	if err != nil {
		return err
	}
	if _, err := conn.Write(b); err != nil {
		return fmt.Errorf("send assignment: %w", errors.Join(ctx.Err(), err))
	}
	for {
		m, err := wire.Read(br)
		switch {
		case err != nil:
			return fmt.Errorf("hand over assignment: %w", errors.Join(ctx.Err(), err))
		case m.Op == wire.OpAssigned:
			if !stop() {
				return ctx.Err()
			}
			return conn.SetDeadline(time.Time{})
		case m.Op == wire.OpRefused:
			return fmt.Errorf("hand over assignment: the shim refused it: %s", m.Error)
		}
	}
}

// spawn starts a shim with a bound socket and a held lock, so that from the
// first moment others see it as live.
func (h *Host) spawn(dir, isolation string) (int, error) {
	lock, err := lockNew(dir)
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	ln, _, err := unixsock.Listen(dir, wire.SocketFile)
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	lnFile, err := ln.File()
	if err != nil {
		return 0, fmt.Errorf("pass on listener: %w", err)
	}
	defer lnFile.Close()
	log, err := os.OpenFile(h.logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	pid, err := h.exec(h.startArgs(dir, isolation), log, lnFile, lock)
	if err == nil {
		h.apart(dir, pid)
	}
	return pid, err
}

// exec starts the binary as a shim, detached: in a session of its own, with
// nothing that ties it to this process.
func (h *Host) exec(start wire.Start, log *os.File, inherit ...*os.File) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	out := null.Fd()
	if log != nil {
		out = log.Fd()
	}
	files := []uintptr{null.Fd(), out, out}
	for _, f := range inherit {
		files = append(files, f.Fd())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	pid, err := syscall.ForkExec(h.exe, append([]string{h.exe, "shim"}, start.Args()...), &syscall.ProcAttr{
		Dir: "/", Env: h.shimEnv(), Files: files, Sys: processAttributes(start.Isolation),
	})
	if err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
			return 0, fmt.Errorf("%w: %w", errIsolation, err)
		}
		return 0, fmt.Errorf("start shim %s: %w", h.exe, err)
	}
	h.unreaped[pid] = true
	return pid, nil
}

// shimEnv is all that a shim gets from this process's environment. The child's
// own comes with the assignment.
func (h *Host) shimEnv() []string {
	// A shim shares the machine with its run: little garbage, few threads.
	// A shim shares the machine with its run: one thread of Go code is plenty,
	// and saves a third of what a start costs.
	env := []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}
	for _, name := range []string{"TMPDIR", "PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, h.env...)
}

// startError says why a shim that was just started does not answer.
func (h *Host) startError(pid int, err error) error {
	if !errors.Is(err, syscall.ECONNREFUSED) && !isEOF(err) {
		return err
	}
	for range 200 {
		if status, done := h.collect(pid); done {
			if status.Exited() && status.ExitStatus() == wire.ExitIsolation {
				return errIsolation
			}
			return fmt.Errorf("the shim ended with %s: %w", describe(status), err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return fmt.Sprintf("signal %d", s.Signal())
	}
	return fmt.Sprintf("exit code %d", s.ExitStatus())
}

// killStarted ends a shim that this process started. Its pid can't be anybody
// else's while it is not reaped. In a session of its own it is a group too.
func (h *Host) killStarted(pid int) {
	h.mu.Lock()
	if h.unreaped[pid] {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	h.mu.Unlock()
	h.reap(pid, 5*time.Second)
}

// lockNew makes and takes a run's lock. The shim inherits the open file and
// with it the lock, which is free again when the last process of it is gone.
func lockNew(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, wire.NoteFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w; the folder must be on a local disk", dir, err)
	}
	return f, nil
}

// locked tells whether dir's lock is held: whether its shim lives.
func locked(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, wire.NoteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		switch {
		case err == nil:
			return false, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return true, nil
		default:
			return false, fmt.Errorf("look at lock of %s: %w", dir, err)
		}
	}
}
