package nvml

import (
	"os/user"
	"strconv"
	"sync"
	"time"

	"cdui/internal/device"
	"cdui/internal/sorting"
)

// usage is one process as the driver lists it: its host pid and its memory.
type usage struct {
	pid int64
	mib *int64
}

// maxProcesses bounds what is told of one card.
const maxProcesses = 256

// lookupTimeout is for directories of users on a network.
const lookupTimeout = time.Second

// userNames finds out who the processes belong to, and keeps the names of
// users, since asking for them may go over a network.
type userNames struct {
	mu    sync.Mutex
	names map[uint32]string
}

// describe lists the processes by pid, each once with its largest use.
func (u *userNames) describe(used []usage) []device.Process {
	sorting.Sort(used, func(a, b usage) int { return int(a.pid - b.pid) })
	out := []device.Process{}
	for _, p := range used {
		if n := len(out); n > 0 && out[n-1].PID == p.pid {
			if last := &out[n-1]; p.mib != nil && (last.MemoryMiB == nil || *p.mib > *last.MemoryMiB) {
				last.MemoryMiB = p.mib
			}
			continue
		}
		if len(out) == maxProcesses {
			break
		}
		d := device.Process{PID: p.pid, MemoryMiB: p.mib}
		if who, ok := lookProcess(p.pid); ok {
			name := u.name(who.uid)
			d.User, d.Name = &name, &who.name
			if who.runID != "" {
				d.RunID = &who.runID
			}
		}
		out = append(out, d)
	}
	return out
}

// owner is what the system knows of a process.
type owner struct {
	uid  uint32
	name string
	// runID is the run that the process says it belongs to, as all processes of
	// a run do. Whoever places runs knows which of them are its own.
	runID string
}

// name gives the user's name, or the number when the name is not to be had
// soon.
func (u *userNames) name(uid uint32) string {
	u.mu.Lock()
	known, ok := u.names[uid]
	u.mu.Unlock()
	if ok {
		return known
	}
	number := strconv.FormatUint(uint64(uid), 10)
	found := make(chan string, 1)
	// It may outlast this call, and serves the next one then.
	go func() {
		name := number
		if who, err := user.LookupId(number); err == nil {
			name = who.Username
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.names == nil {
			u.names = map[uint32]string{}
		}
		u.names[uid] = name
		found <- name
	}()
	timer := time.NewTimer(lookupTimeout)
	defer timer.Stop()
	select {
	case name := <-found:
		return name
	case <-timer.C:
		return number
	}
}
