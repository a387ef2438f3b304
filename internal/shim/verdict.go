package shim

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"cdui/internal/childproto"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/shim/launch"
)

// stopCause is why a run was made to stop.
type stopCause int

const (
	notStopped stopCause = iota
	stoppedByCancel
	stoppedByLimit
	stoppedByKeeperLoss
)

// The codes of ends.
const (
	CodeSupervisorKilled = "supervisor_killed"
	CodeProcessStuck     = "process_stuck"
	CodeTimeLimit        = "time_limit"
	CodeOutOfMemory      = "out_of_memory"
)

// end is all that is known about how a child ended.
type end struct {
	startFault *launch.Fault
	status     syscall.WaitStatus
	cause      stopCause
	// killed is set when the stop came to SIGKILL.
	killed bool
	grace  time.Duration
	limit  time.Duration
	// said is the child's own finished line, when it sent one.
	said *childproto.Up
	// oom is the evidence that the system killed a process of this run for
	// memory, in words; empty without evidence.
	oom string
	// stuck lists what is still there long after SIGKILL.
	stuck []protocol.KilledProcess
	wait  time.Duration
}

// verdict says what an end means. The exit status decides whether a run
// succeeded; the child's own words only say why it did not.
func verdict(e end) protocol.Finished {
	f := protocol.Finished{Exit: exitOf(e.status)}
	if e.startFault != nil {
		f.Exit = protocol.Exit{}
		return failed(f, run.EndUserCode, e.startFault.Code, e.startFault.Text)
	}
	if e.said != nil {
		_ = json.Unmarshal(e.said.PeakMemory, &f.PeakMemory)
	}
	switch {
	case len(e.stuck) > 0:
		return failed(f, run.EndKilled, CodeProcessStuck, fmt.Sprintf(
			"process %d (%s) is still there %s after SIGKILL; the kernel holds it, often a driver or a network disk",
			e.stuck[0].PID, e.stuck[0].Name, e.wait))
	case e.cause == stoppedByKeeperLoss:
		f = failed(f, run.EndKilled, CodeSupervisorKilled, "the process that watches over the run was killed from outside")
		f.Status = string(run.Interrupted)
		return f
	case e.cause == stoppedByLimit:
		return failed(f, run.EndTimeout, CodeTimeLimit, fmt.Sprintf("ran longer than its time limit of %s", e.limit))
	case e.cause == stoppedByCancel:
		f.Status, f.EndClass = string(run.Cancelled), string(run.EndCancel)
		if e.killed && e.grace > 0 {
			f.Error = fmt.Sprintf("did not stop within %s and was killed", e.grace)
		}
		return f
	case e.status.Exited() && e.status.ExitStatus() == 0:
		f.Status = string(run.Succeeded)
		return f
	case e.oom != "":
		return failed(f, run.EndOutOfMemory, CodeOutOfMemory, e.oom)
	case e.status.Signaled():
		sig := e.status.Signal()
		return failed(f, run.EndKilled, "", fmt.Sprintf("killed by signal %d (%s)", sig, unix.SignalName(sig)))
	}
	f = failed(f, run.EndUserCode, "", fmt.Sprintf("exit code %d", e.status.ExitStatus()))
	if e.said != nil && e.said.Error != "" {
		f.Error, f.ErrorType = e.said.Error, e.said.ErrorType
		// A child knows these two better than its exit code; others it can't claim.
		if c := run.EndClass(e.said.EndClass); c == run.EndOutOfMemory || c == run.EndBadGraph {
			f.EndClass = string(c)
		}
	}
	return f
}

func failed(f protocol.Finished, class run.EndClass, code, text string) protocol.Finished {
	f.Status, f.EndClass, f.Code, f.Error = string(run.Failed), string(class), code, text
	return f
}

func exitOf(s syscall.WaitStatus) protocol.Exit {
	if s.Signaled() {
		n := int(s.Signal())
		return protocol.Exit{Signal: &n}
	}
	n := s.ExitStatus()
	return protocol.Exit{Code: &n}
}

// nodeStatus translates a run's end into its node's.
func nodeStatus(f protocol.Finished) string {
	switch run.Status(f.Status) {
	case run.Succeeded:
		return run.NodeCompleted
	case run.Failed:
		return run.NodeError
	default:
		return run.NodeInterrupted
	}
}

// tailText gives the last max bytes of output as valid text.
func tailText(b []byte, max int) string {
	if len(b) > max {
		b = b[len(b)-max:]
		for len(b) > 0 && !utf8.RuneStart(b[0]) {
			b = b[1:]
		}
	}
	s := strings.ToValidUTF8(string(b), "\uFFFD")
	for len(s) > max {
		_, n := utf8.DecodeRuneInString(s)
		s = s[n:]
	}
	return s
}
