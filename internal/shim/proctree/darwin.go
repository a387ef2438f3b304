//go:build darwin

package proctree

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/shim/wire"
)

const zombie = 5

// Dead tells whether p only waits to be reaped.
func (p Process) Dead() bool { return p.State == zombie }

func fromKinfo(k *unix.KinfoProc) Process {
	name, _, _ := bytes.Cut(k.Proc.P_comm[:], []byte{0})
	return Process{
		PID: int(k.Proc.P_pid), PPID: int(k.Eproc.Ppid), Name: string(name), State: byte(k.Proc.P_stat),
		Start: uint64(k.Proc.P_starttime.Sec)*1_000_000 + uint64(k.Proc.P_starttime.Usec),
	}
}

// All lists the processes of the system.
func All(string) []Process {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	out := make([]Process, 0, len(list))
	for i := range list {
		out = append(out, fromKinfo(&list[i]))
	}
	return out
}

// Read reads one process.
func Read(_ string, pid int) (Process, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return Process{}, err
	}
	return fromKinfo(k), nil
}

// BootID names the present boot of this machine.
func BootID() string {
	tv, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return ""
	}
	return strconv.FormatInt(tv.Sec, 10)
}

// Namespace is 0: there are none.
func Namespace() uint64 { return 0 }

// Identify gives the identity of pid.
func Identify(pid int) (wire.Identity, error) {
	p, err := Read("", pid)
	if err != nil {
		return wire.Identity{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	return wire.Identity{PID: pid, Start: p.Start, BootID: BootID()}, nil
}

// Handle is a process that was identified when it was opened.
type Handle struct{ p Process }

// Open takes hold of the process with that identity. Its errors wrap ErrGone
// when the process ended, whoever has its pid now.
func Open(id wire.Identity) (*Handle, error) {
	p, err := Read("", id.PID)
	if id.PID <= 0 || err != nil || id.BootID != BootID() || p.Start != id.Start {
		return nil, ErrGone
	}
	return &Handle{p: p}, nil
}

func (h *Handle) there() bool {
	now, err := Read("", h.p.PID)
	return err == nil && now.Start == h.p.Start && !now.Dead()
}

// Signal sends sig.
func (h *Handle) Signal(sig syscall.Signal) error {
	if !h.there() {
		return ErrGone
	}
	return syscall.Kill(h.p.PID, sig)
}

// Ended waits up to ms milliseconds for the process to end.
func (h *Handle) Ended(ms int) bool {
	deadline := time.Now().Add(time.Duration(ms) * time.Millisecond)
	for h.there() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

// Close lets go of the process.
func (h *Handle) Close() {}

// Signal sends sig to p, unless p is gone and another process has its pid.
func Signal(p Process, sig syscall.Signal) { _ = (&Handle{p: p}).Signal(sig) }

// Catches can't be known here.
func Catches(int, syscall.Signal) (handler, ignored bool) { return false, true }

// ByEnv lists the living processes, but for this one, whose environment holds
// NAME=value with a value that wanted accepts, by value.
func ByEnv(name string, wanted func(value string) bool) map[string][]Process {
	found := map[string][]Process{}
	for _, p := range All("") {
		if p.PID == os.Getpid() || p.Dead() {
			continue
		}
		b, err := unix.SysctlRaw("kern.procargs2", p.PID)
		if err != nil || len(b) < 4 || binary.NativeEndian.Uint32(b) == 0 {
			continue
		}
		for entry := range strings.SplitSeq(string(b[4:]), "\x00") {
			if value, ok := strings.CutPrefix(entry, name+"="); ok && wanted(value) {
				found[value] = append(found[value], p)
			}
		}
	}
	return found
}
