package launch

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// growPipe gives a busy child room to go on while the shim is not scheduled.
func growPipe(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, 1<<20) }

const (
	scoreFile = "/proc/self/oom_score_adj"
	scoreMore = 500
	scoreMax  = 1000
)

// preferAsVictim makes the processes that are started from now on likelier
// victims when memory runs out than the shim, the agent and the control plane.
// The score is inherited, so it is raised around the start: a later write
// would miss what the child has started by then. It gives the way back.
func preferAsVictim() (restore func()) {
	b, err := os.ReadFile(scoreFile)
	if err != nil {
		return func() {}
	}
	old, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || os.WriteFile(scoreFile, strconv.AppendInt(nil, int64(min(old+scoreMore, scoreMax)), 10), 0) != nil {
		return func() {}
	}
	return func() { _ = os.WriteFile(scoreFile, strconv.AppendInt(nil, int64(old), 10), 0) }
}
