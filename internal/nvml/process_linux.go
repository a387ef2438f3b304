package nvml

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// hostNamespace is the first PID namespace of a machine, in every kernel.
const hostNamespace = "pid:[4026531836]"

// lookProcess finds out about a process by its pid on the host. Inside a
// container the same number is somebody else, so nothing is known there.
func lookProcess(pid int64) (owner, bool) {
	if here, err := os.Readlink("/proc/self/ns/pid"); err != nil || here != hostNamespace {
		return owner{}, false
	}
	folder := "/proc/" + strconv.FormatInt(pid, 10)
	info, err := os.Stat(folder)
	if err != nil {
		return owner{}, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return owner{}, false
	}
	name, err := os.ReadFile(folder + "/comm")
	if err != nil {
		return owner{}, false
	}
	return owner{uid: stat.Uid, name: strings.TrimSpace(string(name))}, true
}
