package spawn

import (
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cdui/internal/shim/proctree"
	"cdui/internal/shim/wire"
)

// keepDescriptors keeps what this process has open, or was given by whoever
// started it, from shims: a lock or pipe of a shell must not be held by a
// training for days.
func keepDescriptors() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

// HostNamespace is this process's pid namespace, as its inode; 0 where there is none.
func HostNamespace() uint64 { return proctree.Namespace() }

// processAttributes detaches a shim and gives it its namespaces. There is no
// parent-death signal: a shim outlives its host.
func processAttributes(isolation string) *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Setsid: true}
	switch isolation {
	case wire.IsolatePIDNS:
		sys.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS
	case wire.IsolateUserNS:
		sys.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return sys
}

// autoOrder lists the ways to try, best first.
func autoOrder() []string {
	if os.Geteuid() == 0 {
		return []string{wire.IsolatePIDNS, wire.IsolateKeeper}
	}
	return []string{wire.IsolateKeeper}
}
