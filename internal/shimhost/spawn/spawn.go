// Package spawn starts shims as processes of their own, detached from this one,
// and collects those that have ended. It finds out which isolation holds here,
// and knows a run's folder only as the place of the lock and the socket that a
// shim is born with.
package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/shim/unixsock"
	"cdui/internal/shim/wire"
)

// ErrIsolation is wrapped when a shim could not set up its isolation.
var ErrIsolation = errors.New("isolation is refused here")

// Config is what a Spawner needs.
type Config struct {
	// Exe is the cdui binary, Log the file that takes what shims have to say,
	// and Env what they get beside what they need.
	Exe, Log string
	Env      []string
	Logger   *slog.Logger
}

// Spawner starts shims. It is safe for concurrent use.
type Spawner struct {
	exe, log string
	env      []string
	logger   *slog.Logger

	mu sync.Mutex
	// unreaped are shims that this process started and has not collected.
	unreaped map[int]bool
}

// New makes a Spawner. Every descriptor of this process is closed on exec from
// then on, those included that it inherited.
func New(c Config) *Spawner {
	keepDescriptors()
	return &Spawner{exe: c.Exe, log: c.Log, env: c.Env, logger: c.Logger, unreaped: map[int]bool{}}
}

// Shim starts a shim with a bound socket and a held lock, so that from the
// first moment others see it as live.
func (s *Spawner) Shim(start wire.Start) (int, error) {
	lock, err := lockNew(start.Dir)
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	ln, _, err := unixsock.Listen(start.Dir, wire.SocketFile)
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	lnFile, err := ln.File()
	if err != nil {
		return 0, fmt.Errorf("pass on listener: %w", err)
	}
	defer lnFile.Close()
	log, err := os.OpenFile(s.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	return s.exec(start, log, lnFile, lock)
}

// exec starts the binary as a shim, detached: in a session of its own, with
// nothing that ties it to this process.
func (s *Spawner) exec(start wire.Start, log *os.File, inherit ...*os.File) (int, error) {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec(s.exe, append([]string{s.exe, "shim"}, start.Args()...), &syscall.ProcAttr{
		Dir: "/", Env: s.shimEnv(), Files: files, Sys: processAttributes(start.Isolation),
	})
	if err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC) {
			return 0, fmt.Errorf("%w: %w", ErrIsolation, err)
		}
		return 0, fmt.Errorf("start shim %s: %w", s.exe, err)
	}
	s.unreaped[pid] = true
	return pid, nil
}

// shimEnv is all that a shim gets from this process's environment. The child's
// own comes with the assignment.
func (s *Spawner) shimEnv() []string {
	// A shim shares the machine with its run: little garbage, few threads.
	// A shim shares the machine with its run: one thread of Go code is plenty,
	// and saves a third of what a start costs.
	env := []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}
	for _, name := range []string{"TMPDIR", "PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, s.env...)
}

// StartError says why a shim that was just started does not answer.
func (s *Spawner) StartError(pid int, err error) error {
	if !errors.Is(err, syscall.ECONNREFUSED) && !isEOF(err) {
		return err
	}
	for range 200 {
		if status, done := s.collect(pid); done {
			if status.Exited() && status.ExitStatus() == wire.ExitIsolation {
				return ErrIsolation
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

// Kill ends a shim that this process started. Its pid can't be anybody
// else's while it is not reaped. In a session of its own it is a group too.
func (s *Spawner) Kill(pid int) {
	s.mu.Lock()
	if s.unreaped[pid] {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	s.mu.Unlock()
	s.Reap(pid, 5*time.Second)
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

// Locked tells whether dir's lock is held: whether its shim lives.
func Locked(dir string) (bool, error) {
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

// Reap collects the started shims that are dead. For pid, which is known to be
// dying, it waits up to the given time.
func (s *Spawner) Reap(pid int, patience time.Duration) {
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if s.reapNow(pid) || time.Now().After(deadline) {
			return
		}
		time.Sleep(pause)
	}
}

// reapNow tells whether pid is collected, or was none of ours.
func (s *Spawner) reapNow(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.unreaped {
		got, err := syscall.Wait4(p, nil, syscall.WNOHANG, nil)
		if got == p || err == syscall.ECHILD {
			delete(s.unreaped, p)
		}
	}
	return !s.unreaped[pid]
}
