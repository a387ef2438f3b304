package hostinfo

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Platform is the operating system.
type Platform struct {
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Kernel   string `json:"kernel,omitempty"`
	Hostname string `json:"hostname,omitempty"`
}

func (p Platform) String() string { return p.OS + "/" + p.Arch }

func platform() Platform {
	p := Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		p.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if name, err := os.Hostname(); err == nil {
		p.Hostname = name
	}
	return p
}
