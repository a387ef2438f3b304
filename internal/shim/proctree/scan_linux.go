package proctree

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// All lists the processes below a mounted /proc.
func All(proc string) []Process {
	d, err := os.Open(proc)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var out []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := Read(proc, pid); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Signal sends sig to p, unless p is gone and another process has its pid.
func Signal(p Process, sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) {
			_ = syscall.Kill(p.PID, sig)
		}
		return
	}
	defer unix.Close(fd)
	if now, err := Read("/proc", p.PID); err == nil && now.Start == p.Start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// Catches tells what pid does with SIGTERM: whether it has a handler, and
// whether it ignores it.
func Catches(pid int, sig syscall.Signal) (handler, ignored bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false, false
	}
	bit := uint64(1) << (uint(sig) - 1)
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigCgt" && name != "SigIgn" {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil || mask&bit == 0 {
			continue
		}
		if name == "SigCgt" {
			handler = true
		} else {
			ignored = true
		}
	}
	return handler, ignored
}

// ByEnv lists the living processes, but for this one, whose environment holds
// NAME=value with a value that wanted accepts, by value.
func ByEnv(name string, wanted func(value string) bool) map[string][]Process {
	found := map[string][]Process{}
	for _, p := range All("/proc") {
		if p.PID == os.Getpid() || p.Dead() {
			continue
		}
		b, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/environ")
		if err != nil || len(b) == 0 {
			continue
		}
		for entry := range strings.SplitSeq(string(b), "\x00") {
			value, ok := strings.CutPrefix(entry, name+"=")
			if ok && wanted(value) {
				found[value] = append(found[value], p)
			}
		}
	}
	return found
}
