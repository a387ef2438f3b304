//go:build !linux

package isolation

import (
	"os"
	"syscall"

	"cdui/internal/protocol"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
)

// Group is what holds the processes of the run together. Here it is only
// descent, and the run's id in the environment of whatever lost its parent.
type Group struct{ way string }

// Setup sets up the only way that there is here.
func Setup(wire.Start) (*Group, error) { return &Group{way: wire.IsolateNone}, nil }

// Way is how the run is held together.
func (g *Group) Way() string { return g.way }

// Close lets go of what the Group has open.
func (g *Group) Close() {}

// Complete tells that no process of the run can escape from being the shim's
// child in the end. Here one can.
func (g *Group) Complete() bool { return false }

// Self is the shim as the host sees it.
func (g *Group) Self() wire.Identity {
	id, err := proctree.Identify(os.Getpid())
	if err != nil {
		return wire.Identity{PID: os.Getpid()}
	}
	return id
}

// HostPID gives the number that the host knows pid by.
func (g *Group) HostPID(pid int) int { return pid }

// Alive lists the living processes of the run.
func (g *Group) Alive(runID string) []proctree.Process {
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

// Signal sends sig to every process of the run.
func (g *Group) Signal(runID string, sig syscall.Signal) {
	for _, p := range g.Alive(runID) {
		proctree.Signal(p, sig)
	}
}

// Kill is one round of SIGKILL for every process of the run.
func (g *Group) Kill(runID string) {
	g.Signal(runID, syscall.SIGSTOP)
	g.Signal(runID, syscall.SIGKILL)
}

// Report gives processes as records list them.
func (g *Group) Report(list []proctree.Process) []protocol.KilledProcess {
	var out []protocol.KilledProcess
	for _, p := range list[:min(len(list), MaxListed)] {
		out = append(out, protocol.KilledProcess{PID: p.PID, Name: p.Name})
	}
	return out
}
