package isolation

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"cdui/internal/protocol"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
)

// Group is what holds the processes of the run together: a pid namespace
// whose first process is the shim, or the shim as the reaper of all orphans
// below it. Either way every process of the run is the shim's child in the
// end, so having no child means that none is left.
type Group struct {
	way string
	// hostProc is the /proc from before a namespace's own was mounted: there
	// processes have the numbers that the host knows.
	hostProc *os.File
	hostSelf int
	hostNS   uint64
}

// Setup sets up the given way in this process.
func Setup(start wire.Start) (*Group, error) {
	g := &Group{way: start.Isolation, hostNS: start.HostNS}
	if !g.namespaced() {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("become the reaper of orphans: %w", err)
		}
		return g, nil
	}
	if os.Getpid() != 1 {
		return nil, errors.New("isolate in a pid namespace: this is not its first process")
	}
	// The new mount namespace must not tell the old one what is mounted in it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	proc, err := os.OpenFile("/proc", os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("keep the old /proc: %w", err)
	}
	g.hostProc = proc
	if self, err := os.Readlink("/proc/self"); err == nil {
		g.hostSelf, _ = strconv.Atoi(self)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		proc.Close()
		return nil, fmt.Errorf("mount a fresh /proc: %w", err)
	}
	return g, nil
}

// Way is how the run is held together.
func (g *Group) Way() string { return g.way }

func (g *Group) namespaced() bool {
	return g.way == wire.IsolatePIDNS || g.way == wire.IsolateUserNS
}

// Close lets go of what the Group has open.
func (g *Group) Close() {
	if g.hostProc != nil {
		g.hostProc.Close()
	}
}

// Complete tells that no process of the run can escape from being the shim's
// child in the end.
func (g *Group) Complete() bool { return true }

// Self is the shim as the host sees it.
func (g *Group) Self() wire.Identity {
	id := wire.Identity{PID: os.Getpid(), BootID: proctree.BootID()}
	p, err := proctree.Read("/proc", id.PID)
	if err == nil {
		id.Start = p.Start
	}
	if g.hostProc == nil {
		id.PIDNS = proctree.Namespace()
		return id
	}
	// A process can't ask for the namespace above its own: the host told it.
	id.PID, id.PIDNS = g.hostSelf, g.hostNS
	return id
}

// HostPID gives the number that the host knows pid by.
func (g *Group) HostPID(pid int) int {
	if g.hostProc == nil {
		return pid
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	// A pidfd's info tells the pid in the numbers of the /proc it is read from.
	path := fmt.Sprintf("/proc/self/fd/%d/self/fdinfo/%d", g.hostProc.Fd(), fd)
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "Pid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return max(n, 0)
		}
	}
	return 0
}

// Alive lists the living processes of the run.
func (g *Group) Alive(string) []proctree.Process {
	if !g.namespaced() {
		return proctree.Descendants(os.Getpid())
	}
	var out []proctree.Process
	for _, p := range proctree.All("/proc") {
		if p.PID != 1 && !p.Dead() {
			out = append(out, p)
		}
	}
	return out
}

// Signal sends sig to every process of the run.
func (g *Group) Signal(_ string, sig syscall.Signal) {
	if g.namespaced() {
		_ = syscall.Kill(-1, sig)
		return
	}
	proctree.SignalBelow(os.Getpid(), sig)
}

// Kill is one round of SIGKILL for every process of the run. Without a
// namespace they are stopped first, so that none forks between the look and
// the signal; the caller repeats it until none is left.
func (g *Group) Kill(string) {
	if g.namespaced() {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	proctree.KillBelow(os.Getpid())
}

// Report gives processes in the host's numbers, as they are reported. One that
// has ended by itself since it was seen is left out.
func (g *Group) Report(list []proctree.Process) []protocol.KilledProcess {
	var out []protocol.KilledProcess
	for _, p := range list[:min(len(list), MaxListed)] {
		if pid := g.HostPID(p.PID); pid > 0 {
			out = append(out, protocol.KilledProcess{PID: pid, Name: p.Name})
		}
	}
	return out
}
