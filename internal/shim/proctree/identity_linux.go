package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/shim/wire"
)

// Dead tells whether p only waits to be reaped.
func (p Process) Dead() bool { return p.State == 'Z' || p.State == 'X' }

// Read reads one process below a mounted /proc.
func Read(proc string, pid int) (Process, error) {
	b, err := os.ReadFile(proc + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, err
	}
	return parseStat(b)
}

// parseStat reads /proc/<pid>/stat. The name, in brackets, may hold brackets
// and spaces itself.
func parseStat(b []byte) (Process, error) {
	open, closing := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || closing < open {
		return Process{}, errors.New("read process: malformed stat")
	}
	fields := strings.Fields(string(b[closing+1:]))
	if len(fields) < 20 {
		return Process{}, errors.New("read process: short stat")
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(string(b[:open])))
	ppid, err2 := strconv.Atoi(fields[1])
	start, err3 := strconv.ParseUint(fields[19], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Process{}, fmt.Errorf("read process: %w", err)
	}
	return Process{PID: pid, PPID: ppid, Name: string(b[open+1 : closing]), State: fields[0][0], Start: start}, nil
}

// BootID names the present boot of this machine.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Namespace is the pid namespace of this process.
func Namespace() uint64 {
	var st syscall.Stat_t
	if syscall.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// Identify gives the identity of pid as /proc shows it.
func Identify(pid int) (wire.Identity, error) {
	p, err := Read("/proc", pid)
	if err != nil {
		return wire.Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return wire.Identity{PID: pid, Start: p.Start, BootID: BootID(), PIDNS: Namespace()}, nil
}

// Handle is a process that can't be mistaken for another one.
type Handle struct{ fd int }

// Open takes hold of the process with that identity. Its errors wrap ErrGone
// when the process ended, whoever has its pid now.
func Open(id wire.Identity) (*Handle, error) {
	if id.PID <= 0 || id.BootID != BootID() || id.PIDNS != Namespace() {
		return nil, ErrGone
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			return nil, ErrGone
		}
		return nil, fmt.Errorf("open process %d: %w", id.PID, err)
	}
	// Only now is the pid held; look who has it.
	p, err := Read("/proc", id.PID)
	if err != nil || p.Start != id.Start {
		unix.Close(fd)
		return nil, ErrGone
	}
	return &Handle{fd: fd}, nil
}

// Signal sends sig.
func (h *Handle) Signal(sig syscall.Signal) error {
	err := unix.PidfdSendSignal(h.fd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return err
}

// Ended waits up to ms milliseconds for the process to end.
func (h *Handle) Ended(ms int) bool {
	deadline := time.Now().Add(time.Duration(ms) * time.Millisecond)
	for {
		fds := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(0, time.Until(deadline).Milliseconds())))
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n > 0
		}
	}
}

// Close lets go of the process.
func (h *Handle) Close() { unix.Close(h.fd) }
