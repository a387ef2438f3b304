package shim

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/childproto"
	"cdui/internal/protocol"
	"cdui/internal/shim/isolation"
	"cdui/internal/shim/launch"
	"cdui/internal/shim/reports"
	"cdui/internal/shim/wire"
)

// spare is a child that was started before there was a run for it.
type spare struct {
	// name is what it bears in place of a run's id.
	name  string
	ready bool
	// over says why it can serve no run any more.
	over string
}

// warm starts the child of a spare. a says how; its run id is the spare's name.
func (r *shimRun) warm(a protocol.Assignment) error {
	r.reports = reports.New()
	if fault := r.startChild(a, launch.Env(a, "")); fault != nil {
		return errors.New(fault.Text)
	}
	r.spare, r.state = &spare{name: a.RunID}, wire.Warm
	r.log = r.log.With("spare", a.RunID)
	return nil
}

// takeFromSpare waits for the one line that a spare's child has to say. What it
// prints would be missing from the output of the run that it serves, so one
// that prints serves none.
func (r *shimRun) takeFromSpare(p reports.Line) {
	if p.Faulty || !p.From.Main || p.Up.Type != childproto.UpReady {
		return
	}
	if unread(r.child.Console) {
		r.giveUpSpare("importing torch prints something, which would be missing from the output of a run")
		return
	}
	r.spare.ready = true
	if r.host != nil {
		r.host.Send(wire.Message{Op: wire.OpReady, PID: r.iso.HostPID(r.child.PID), Modules: p.Up.Modules, Paths: p.Up.Paths})
	}
}

// serves tells why the spare can't serve a after all.
func (r *shimRun) serves(a protocol.Assignment) error {
	select {
	case d, ok := <-r.reaper.Deaths:
		r.bury(d, ok)
	default:
	}
	if r.spare.over != "" {
		return fmt.Errorf("the spare is over: %s", r.spare.over)
	}
	if !r.spare.ready || unread(r.child.Console) {
		return errors.New("the spare is not ready")
	}
	if fault := launch.Check(a, launch.Env(a, "")); fault != nil {
		return errors.New(fault.Text)
	}
	return nil
}

func (s *spare) bury(d isolation.Death, ok bool) {
	if ok && s.over == "" {
		s.over = fmt.Sprintf("its child ended (exit code %d, signal %d)", d.Status.ExitStatus(), d.Status.Signal())
	}
}

// giveUpSpare ends a spare that has no run; otherwise it does nothing.
func (r *shimRun) giveUpSpare(why string) {
	if r.spare != nil && r.a.RunID == "" && r.spare.over == "" {
		r.spare.over = why
	}
}

// tooLate tells that no assignment will be taken any more, and ends the spare.
func (r *shimRun) tooLate(now time.Time) (bool, error) {
	expired := !now.Before(r.giveUpAt)
	if r.spare == nil {
		if !expired {
			return false, nil
		}
		return true, fmt.Errorf("wait for an assignment: none came within %s", r.start.AssignWait)
	}
	if expired {
		r.giveUpSpare("it was told to end, or nothing came for too long")
	}
	if r.spare.over == "" {
		return false, nil
	}
	if r.host != nil {
		r.host.Send(wire.Message{Op: wire.OpRefused, Code: wire.CodeSpareOver, Error: r.spare.over})
	}
	r.endSpare()
	return true, nil
}

// endSpare ends the child, which has nothing to lose, and waits until no
// process of it is left.
func (r *shimRun) endSpare() {
	r.reports.Abandon()
	if words := lastWords(r.child.Console); words != "" {
		r.log.Warn("spare ends", "why", r.spare.over, "printed", words)
	}
	deadline := time.NewTimer(r.start.StuckAfter)
	defer deadline.Stop()
	again := time.NewTicker(killEvery)
	defer again.Stop()
	for !r.treeEmpty {
		r.iso.Kill(r.spare.name)
		select {
		case d, ok := <-r.reaper.Deaths:
			r.bury(d, ok)
			r.treeEmpty = !ok
		case <-again.C:
		case <-deadline.C:
			r.log.Error("a spare won't end", "processes", r.iso.Report(r.iso.Alive(r.spare.name)))
			r.reaper.Stop()
			r.treeEmpty = true
		}
	}
	r.child.Console.Close()
	r.oom.Close()
}

// unread tells whether f, the end of a pipe, has something to read.
func unread(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return true
	}
	ready := true
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // descriptors are small
		_, err := unix.Poll(fds, 0)
		ready = err != nil || fds[0].Revents&unix.POLLIN != 0
	})
	return ready || err != nil
}

// lastWords is what a spare printed, cut to what a log can bear.
func lastWords(f *os.File) string {
	if !unread(f) {
		return ""
	}
	buf := make([]byte, 64<<10)
	_ = f.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	n, err := f.Read(buf)
	if err != nil {
		return ""
	}
	return tailText(buf[:n], 400)
}
