//go:build !linux

package spawn

import (
	"syscall"

	"cdui/internal/shim/wire"
)

// keepDescriptors has no way to know them all here.
func keepDescriptors() {}

// HostNamespace is this process's pid namespace, as its inode; 0 where there is none.
func HostNamespace() uint64 { return 0 }

// processAttributes detaches a shim.
func processAttributes(string) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// autoOrder lists the ways to try, best first.
func autoOrder() []string { return []string{wire.IsolateNone} }
