package oom

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Watch gathers evidence that the kernel killed a process of the run for
// memory: counters of the memory cgroups that its processes were seen in, and
// the kernel's log where it may be read.
type Watch struct {
	mu sync.Mutex
	// counters maps the files that count such kills to their first value.
	counters map[string]int64
	seen     map[string]bool
	hostPIDs map[int]bool
	kmsg     int
	mounts   []cgroupMount
}

// cgroupMount is where a hierarchy with memory control is mounted, and which
// of its groups the mount shows.
type cgroupMount struct {
	v2         bool
	root, path string
}

// New begins to watch: what is in the kernel's log by now is not this run's.
func New() *Watch {
	w := &Watch{counters: map[string]int64{}, seen: map[string]bool{}, hostPIDs: map[int]bool{}}
	// From here on; older lines are other runs'.
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Seek(fd, 0, unix.SEEK_END)
	}
	if err != nil {
		fd = -1
	}
	w.kmsg = fd
	return w
}

// Close lets go of the kernel's log.
func (w *Watch) Close() {
	if w.kmsg >= 0 {
		unix.Close(w.kmsg)
	}
}

// Own remembers a process of the run by its number on the host.
func (w *Watch) Own(hostPID int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hostPIDs[hostPID] = true
}

// NoteLast is note for a process that is dead but still has its entry. Before
// the first look at a run it is of no use: the counters have counted already.
func (w *Watch) NoteLast(pid int) {
	w.mu.Lock()
	looked := len(w.seen) > 0
	w.mu.Unlock()
	if looked {
		w.Note(pid, 0)
	}
}

// Note remembers the groups of a process and the value that their counters
// have now. hostPID is 0 when it is not known.
func (w *Watch) Note(pid, hostPID int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if hostPID > 0 {
		w.hostPIDs[hostPID] = true
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil || w.seen[string(b)] {
		return
	}
	w.seen[string(b)] = true
	if w.mounts == nil {
		w.mounts = memoryMounts()
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		v2 := fields[0] == "0" && fields[1] == ""
		if !v2 && !containsField(fields[1], "memory") {
			continue
		}
		for _, m := range w.mounts {
			file, ok := m.counterFile(v2, fields[2])
			if !ok {
				continue
			}
			if _, known := w.counters[file]; known {
				continue
			}
			if n, ok := readOOMKills(file); ok {
				w.counters[file] = n
			}
		}
	}
}

func (m cgroupMount) counterFile(v2 bool, group string) (string, bool) {
	if m.v2 != v2 {
		return "", false
	}
	rel, err := filepath.Rel(m.root, group)
	if err != nil || strings.HasPrefix(rel, "..") {
		return "", false
	}
	if v2 {
		return filepath.Join(m.path, rel, "memory.events"), true
	}
	return filepath.Join(m.path, rel, "memory.oom_control"), true
}

func readOOMKills(file string) (int64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// memoryMounts finds the cgroup mounts that can count memory kills.
func memoryMounts() []cgroupMount {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var out []cgroupMount
	for line := range strings.Lines(string(b)) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		m := cgroupMount{v2: r[0] == "cgroup2", root: l[3], path: l[4]}
		if m.v2 || r[0] == "cgroup" && containsField(r[2], "memory") {
			out = append(out, m)
		}
	}
	return out
}

func containsField(list, want string) bool {
	for field := range strings.SplitSeq(list, ",") {
		if field == want {
			return true
		}
	}
	return false
}

// Evidence says in words what speaks for a kill for memory; it is empty when
// nothing does. suspicious tells that the main child ended as from SIGKILL:
// only then does a counter alone count, which other runs may share.
func (w *Watch) Evidence(suspicious bool) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ours, others := w.kernelLog()
	if ours != "" {
		return ours
	}
	if !suspicious || others {
		return ""
	}
	for file, before := range w.counters {
		if now, ok := readOOMKills(file); ok && now > before {
			return fmt.Sprintf("killed by the system for memory, by the count in %s", file)
		}
	}
	return ""
}

// kernelLog looks for kills for memory since the start: one that names a
// process of the run, and whether there were only others.
func (w *Watch) kernelLog() (ours string, others bool) {
	if w.kmsg < 0 {
		return "", false
	}
	killedLine := regexp.MustCompile(`(?:Killed process|Kill process) (\d+) \(([^)]*)\)`)
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.Read(w.kmsg, buf)
		if errors.Is(err, syscall.EPIPE) {
			continue // older lines were overwritten
		}
		if err != nil || n <= 0 {
			return ours, others && ours == ""
		}
		line, _ := bufio.NewReader(bytes.NewReader(buf[:n])).ReadString('\n')
		m := killedLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		pid, _ := strconv.Atoi(m[1])
		if w.hostPIDs[pid] {
			ours = fmt.Sprintf("process %d (%s) was killed by the system for memory", pid, m[2])
		} else {
			others = true
		}
	}
}
