//go:build !linux

package shim

import (
	"os"
	"syscall"

	"cdui/internal/protocol"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
)

// isolation is what holds the processes of the run together. Here it is only
// descent, and the run's id in the environment of whatever lost its parent.
type isolation struct{ way string }

func isolate(wire.Start) (*isolation, error) { return &isolation{way: wire.IsolateNone}, nil }

func (iso *isolation) close() {}

// complete tells that no process of the run can escape from being the shim's
// child in the end. Here one can.
func (iso *isolation) complete() bool { return false }

func (iso *isolation) self() wire.Identity {
	id, err := proctree.Identify(os.Getpid())
	if err != nil {
		return wire.Identity{PID: os.Getpid()}
	}
	return id
}

func (iso *isolation) hostPID(pid int) int { return pid }

// alive lists the living processes of the run.
func (iso *isolation) alive(runID string) []proctree.Process {
	out := proctree.Descendants(os.Getpid())
	seen := map[int]bool{}
	for _, p := range out {
		seen[p.PID] = true
	}
	for _, list := range proctree.ByEnv("CDUI_RUN_ID", func(id string) bool { return id == runID }) {
		for _, p := range list {
			if !seen[p.PID] {
				out = append(out, p)
			}
		}
	}
	return out
}

func (iso *isolation) signal(runID string, sig syscall.Signal) {
	for _, p := range iso.alive(runID) {
		proctree.Signal(p, sig)
	}
}

// kill is one round of SIGKILL for every process of the run.
func (iso *isolation) kill(runID string) {
	iso.signal(runID, syscall.SIGSTOP)
	iso.signal(runID, syscall.SIGKILL)
}

func (iso *isolation) killed(list []proctree.Process) []protocol.KilledProcess {
	var out []protocol.KilledProcess
	for _, p := range list[:min(len(list), maxKilledListed)] {
		out = append(out, protocol.KilledProcess{PID: p.PID, Name: p.Name})
	}
	return out
}
