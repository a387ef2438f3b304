package agent

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"cdui/internal/agent/session"
	"cdui/internal/agent/supervise"
	"cdui/internal/console"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/shimhost"
)

// maxOrders bounds the assignments that wait; a control plane that sends more
// has lost its senses.
const maxOrders = 10_000

// order takes a frame of the control plane.
func (b *book) order(f protocol.Frame) {
	switch f := f.(type) {
	case *protocol.Welcome:
		b.change(func() {
			// A drain that still holds is said again after the welcome.
			b.grace, b.draining = f.GraceS.Duration(), f.DrainOnly
			if d := f.ResumeGraceS.Duration(); d > 0 {
				b.resume = d
			}
		})
	case *protocol.Assign:
		b.change(func() {
			if len(b.orders) < maxOrders {
				b.orders = append(b.orders, f)
			}
		})
	case *protocol.Cancel:
		b.change(func() { b.wantCancel(f) })
	case *protocol.Drain:
		b.log.InfoContext(b.ctx, "drain", "on", f.On)
		b.change(func() { b.draining = f.On })
	case *protocol.Ack:
		b.acked(f)
	}
}

// wantCancel notes that a run is to stop; the lock is held.
func (b *book) wantCancel(c *protocol.Cancel) {
	key := keyOf(c.RunID, c.Attempt)
	if h := b.runs[key]; h != nil {
		stop := &supervise.Stop{Grace: h.grace, Force: c.Force}
		if c.GraceS != nil {
			stop.Grace = c.GraceS.Duration()
		}
		if stop.Harder(h.Wanted) {
			h.Wanted = stop
		}
		return
	}
	if b.takeOrder(key) != nil {
		b.refused(key, protocol.Finished{Status: string(run.Cancelled), EndClass: string(run.EndCancel)})
	}
}

func (b *book) acked(a *protocol.Ack) {
	b.mu.Lock()
	h := b.runs[keyOf(a.RunID, a.Attempt)]
	b.mu.Unlock()
	if h == nil || h.feed == nil {
		return
	}
	if h.feed.recorded(a.Seq) {
		b.change(func() { h.Recorded = true })
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h.acked = max(h.acked, a.Seq)
	select {
	case h.ackHeard <- struct{}{}:
	default: // none of it is here yet, or its shim has yet to hear the last one
	}
}

// alive lists what this worker has, for run_alive.
func (b *book) alive() []protocol.AliveRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []protocol.AliveRun{}
	for _, o := range b.orders {
		out = append(out, protocol.AliveRun{RunID: o.RunID, Attempt: o.Attempt, State: protocol.AliveStarting})
	}
	for _, key := range b.keys() {
		h := b.runs[key]
		r := protocol.AliveRun{RunID: key.RunID, Attempt: key.Attempt}
		switch h.Phase {
		case supervise.Preparing:
			r.State = protocol.AliveStarting
		case supervise.Live:
			r.State = protocol.AliveRunning
		case supervise.Ended:
			r.State = protocol.AliveEnded
		case supervise.Refused:
			r.State, r.LastSeq = protocol.AliveEnded, 1
		default:
			continue
		}
		if h.run != nil {
			r.LastSeq = h.run.Status().Seq
		}
		if !h.Recorded {
			out = append(out, r)
		}
	}
	return out
}

// executing lists the runs that execute, for heartbeats.
func (b *book) executing() (ids []string, draining bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids = []string{}
	for _, key := range b.keys() {
		if p := b.runs[key].Phase; p == supervise.Preparing || p == supervise.Live {
			ids = append(ids, key.RunID)
		}
	}
	return slices.Compact(ids), b.draining || b.stopping
}

// runLog is what a run prints, for session.
type runLog struct {
	run *shimhost.Run
}

func (l runLog) Reader() *console.Reader  { return l.run.Console() }
func (l runLog) Changed() <-chan struct{} { return l.run.Changed() }
func (l runLog) Ended() bool              { return l.run.Status().Dead }

func (b *book) runLog(runID string) (session.Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, h := range b.runs {
		if key.RunID == runID && h.run != nil {
			return runLog{h.run}, nil
		}
	}
	return nil, fmt.Errorf("run %s has no output on this worker", runID)
}

// await waits until cond holds, but no longer than patience.
func (b *book) await(patience time.Duration, cond func() bool) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		changed, ok := b.changed, cond()
		b.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			return
		case <-b.ctx.Done():
			return
		}
	}
}

func (b *book) runDir(runID string) string { return filepath.Join(b.folder.RunsDir(), runID) }
