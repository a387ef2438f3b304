package proctree

import (
	"errors"
	"syscall"
)

// Process is one process of this machine. Start, in the system's own units,
// tells it from an older process with its PID.
type Process struct {
	PID   int
	PPID  int
	Name  string
	State byte
	Start uint64
}

// ErrGone is returned for an identity that nothing bears any more.
var ErrGone = errors.New("no such process any more")

// Descendants lists the living processes below root, root not included.
func Descendants(root int) []Process {
	all := All("/proc")
	children := map[int][]Process{}
	for _, p := range all {
		children[p.PPID] = append(children[p.PPID], p)
	}
	var out []Process
	todo := []int{root}
	for len(todo) > 0 {
		for _, p := range children[todo[0]] {
			if !p.Dead() {
				out = append(out, p)
			}
			todo = append(todo, p.PID)
		}
		todo = todo[1:]
	}
	return out
}

// KillBelow stops and then kills every living process below root, and tells
// how many there were. Processes that fork meanwhile are found by the next
// call: repeat it until there were none.
func KillBelow(root int) int {
	list := Descendants(root)
	for _, p := range list {
		Signal(p, syscall.SIGSTOP)
	}
	list = Descendants(root)
	for _, p := range list {
		Signal(p, syscall.SIGKILL)
	}
	return len(list)
}

// SignalBelow sends sig once to every living process below root, also to those
// that are born while it looks.
func SignalBelow(root int, sig syscall.Signal) {
	type one struct {
		pid   int
		start uint64
	}
	told := map[one]bool{}
	// A program that forks without end is for KillBelow.
	for range 10 {
		news := false
		for _, p := range Descendants(root) {
			if id := (one{p.PID, p.Start}); !told[id] {
				told[id], news = true, true
				Signal(p, sig)
			}
		}
		if !news {
			return
		}
	}
}
