package nvml

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"cdui/internal/run"
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
	return owner{uid: stat.Uid, name: strings.TrimSpace(string(name)), runID: runOf(folder)}, true
}

// maxEnviron bounds what is read of a process's environment.
const maxEnviron = 4 << 20

// runOf reads the run id in a process's environment, "" where there is none or
// it is not ours to read.
func runOf(folder string) string {
	f, err := os.Open(folder + "/environ")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return ""
	}
	for entry := range strings.SplitSeq(string(raw), "\x00") {
		if id, ok := strings.CutPrefix(entry, runVariable+"="); ok && run.ValidID(id) {
			return id
		}
	}
	return ""
}

// runVariable names a process's run in its environment.
const runVariable = "CDUI_RUN_ID"
