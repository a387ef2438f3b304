package shim

import (
	"os"
	"syscall"
	"time"

	"cdui/internal/childproto"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/reports"
	"cdui/internal/shim/wire"
)

// stopping is a stop under way: the steps that are left, counted from began.
type stopping struct {
	cause stopCause
	began time.Time
	grace time.Duration
	steps []step
	// told says that SIGTERM was sent; a second one would cut a save short.
	told   bool
	killed bool
}

// deadline is when the run will be killed.
func (s *stopping) deadline() time.Time {
	if len(s.steps) == 0 {
		return s.began
	}
	return s.began.Add(s.steps[len(s.steps)-1].after)
}

// cancel stops the run because somebody asked for it. A run whose main child
// has ended already is past that, unless it must be done with at once.
func (r *shimRun) cancel(graceMS int64, force bool) {
	r.giveUpSpare("it was told to end")
	if r.child == nil || r.a.RunID == "" {
		return
	}
	if r.mainDead && r.stop == nil {
		if force && !r.treeEmpty {
			r.startKilling(time.Now())
		}
		return
	}
	r.stopFor(stoppedByCancel, time.Duration(graceMS)*time.Millisecond, force)
}

// stopFor starts to stop the run, or makes a stop under way end sooner; it
// never makes it later, and the first cause stays.
func (r *shimRun) stopFor(cause stopCause, grace time.Duration, force bool) {
	if cause == stoppedByKeeperLoss {
		r.giveUpSpare("its keeper is gone")
	}
	if r.child == nil || r.treeEmpty || r.a.RunID == "" {
		return
	}
	now := time.Now()
	q := stopQuery{kind: r.a.Kind, grace: grace, force: force, watches: r.watches}
	q.mainCatches, q.mainIgnores = proctree.Catches(r.child.PID, syscall.SIGTERM)
	next := &stopping{cause: cause, began: now, grace: max(0, grace), steps: ladder(q)}
	if s := r.stop; s != nil {
		if !next.deadline().Before(s.deadline()) {
			return
		}
		next.cause, next.told, next.killed = s.cause, s.told, s.killed
		if cause == stoppedByKeeperLoss {
			next.cause = cause
		}
	}
	r.stop = next
	r.state = wire.Stopping
	if r.host != nil {
		r.host.Send(r.stoppingMessage())
	}
	r.climb(now)
}

func (r *shimRun) stoppingMessage() wire.Message {
	deadline := r.stop.deadline().UTC().Truncate(time.Millisecond)
	m := wire.Message{Op: wire.OpStopping, Deadline: &deadline}
	switch r.stop.cause {
	case stoppedByLimit:
		m.Reason = "timeout"
	case stoppedByKeeperLoss:
		m.Reason = "killed"
	default:
		m.Reason = "cancel"
	}
	return m
}

// nextRung is when the next step of a stop is due.
func (r *shimRun) nextRung() time.Time {
	if r.stop == nil || len(r.stop.steps) == 0 || r.treeEmpty {
		return time.Time{}
	}
	return r.stop.began.Add(r.stop.steps[0].after)
}

// climb does the steps that are due.
func (r *shimRun) climb(now time.Time) {
	for isDue(r.nextRung(), now) {
		s := r.stop
		do := s.steps[0].do
		s.steps = s.steps[1:]
		switch do {
		case sendFlag:
			r.reports.Each(func(src *reports.Source) { src.Send(r.cancelLine()) })
		case termMain:
			// It may have been reaped a moment ago; whoever has its pid then
			// is not this process's child.
			if p, err := proctree.Read("/proc", r.child.PID); !s.told && err == nil && p.PPID == os.Getpid() {
				proctree.Signal(p, syscall.SIGTERM)
			}
			s.told = true
		case termTree:
			if !s.told {
				r.iso.Signal(r.a.RunID, syscall.SIGTERM)
			}
			s.told = true
		case killTree:
			s.killed = true
			r.startKilling(now)
		}
	}
}

func (r *shimRun) cancelLine() childproto.Down {
	return childproto.Down{Type: childproto.DownCancel, RunID: r.a.RunID, GraceMS: r.stop.grace.Milliseconds()}
}
