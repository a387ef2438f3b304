package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/workers/admit"
	"cdui/internal/server/workers/conn"
	"cdui/internal/server/workers/mailbox"
)

// earlyHeartbeats is how many heartbeats may come before the run_alive that
// each welcome asks for.
const earlyHeartbeats = 3

// handle takes one frame. An error ends the session.
func (r *Registry) handle(s *session, f protocol.Frame) error {
	switch f := f.(type) {
	case *protocol.Heartbeat:
		return r.heartbeat(s, f)
	case *protocol.RunAlive:
		r.runAlive(s, f)
	case *protocol.Frames:
		for i := range f.Runs {
			if err := r.records(s, &f.Runs[i]); err != nil {
				return err
			}
		}
	case *protocol.SingleRecord:
		return r.records(s, &protocol.RunRecords{RunID: f.RunID, Attempt: f.Attempt, Records: []json.RawMessage{f.Record}})
	case *protocol.CatalogChanged:
		r.catalogChanged(s, f)
	case *protocol.LogChunk:
		s.desk.Take(f)
	case *protocol.OutputAnswer:
		// Nobody asks for outputs of this worker: it lists no such capability.
	case *protocol.Hello:
		return fmt.Errorf("%w: a second hello", protocol.ErrBadFrame)
	default:
		if t := f.FrameType(); !s.warned[t] && len(s.warned) < maxUnknownTypes {
			s.warned[t] = true
			s.log.Warn("frames of an unknown type are skipped", "worker", s.Name, "type", t)
		}
	}
	return nil
}

const maxUnknownTypes = 32

// mine gives the session's worker as long as the session is its present one.
// The caller holds mu.
func (r *Registry) mine(s *session) *worker {
	w := r.workers[s.Name]
	if w == nil || w.session != s {
		return nil
	}
	return w
}

func (r *Registry) heartbeat(s *session, h *protocol.Heartbeat) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.mine(s)
	if w == nil {
		return nil
	}
	if !s.settled {
		if s.early++; s.early > earlyHeartbeats {
			return fmt.Errorf("%w: no run_alive after the welcome", protocol.ErrBadFrame)
		}
	}
	w.lastSeen = time.Now()
	changed := !reflect.DeepEqual(w.devices.Names(), h.Devices.Names()) || !reflect.DeepEqual(w.devices.Ill(), h.Devices.Ill())
	w.devices, w.selfDraining = h.Devices, h.Draining
	if changed {
		r.save(w)
	}
	r.tell(w)
	return nil
}

// runAlive brings what is held and what the worker has together; from then on
// it takes runs.
func (r *Registry) runAlive(s *session, alive *protocol.RunAlive) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.mine(s)
	if w == nil {
		return
	}
	w.lastSeen = time.Now()
	mine := make([]admit.Held, 0, len(w.runs))
	for _, p := range w.sorted() {
		mine = append(mine, p.held())
	}
	rec := admit.Reconcile(mine, alive.Runs)
	back := link(w, protocol.CodeWorkerReconnected, nil)
	for _, h := range rec.Back {
		p := w.runs[h.RunID]
		r.tellSink(p, "link back", func(ctx context.Context, sink execution.Sink) error {
			return sink.LinkBack(ctx, p.id, p.attempt, back)
		})
		if p.cancel != nil {
			s.Send(p.cancel)
		}
	}
	for _, h := range rec.Gone {
		r.log.Warn("run is gone from its worker", "worker", w.name, "run_id", h.RunID)
		r.lose(w, w.runs[h.RunID], execution.Loss{
			EndClass: run.EndWorkerLost, Code: protocol.CodeWorkerGone,
			Text: fmt.Sprintf("worker %s came back without the run", w.name),
			Params: map[string]any{"worker": w.name, "reason": protocol.Problem{
				Code: protocol.CauseNotListed, Text: "the worker doesn't list it among its runs",
			}},
		})
	}
	for _, h := range rec.NeverStarted {
		p := w.runs[h.RunID]
		delete(w.runs, h.RunID)
		r.tellSink(p, "never started", func(ctx context.Context, sink execution.Sink) error {
			return sink.NeverStarted(ctx, p.id, p.attempt)
		})
	}
	for _, a := range rec.Strays {
		r.stray(s, conn.Key{RunID: a.RunID, Attempt: a.Attempt})
	}
	if len(alive.Runs) > 0 || len(mine) > 0 {
		r.log.Info("worker lists its runs", "worker", w.name, "back", len(rec.Back), "gone", len(rec.Gone), "never_started", len(rec.NeverStarted), "strays", len(rec.Strays))
	}
	s.settled, w.restarted = true, false
	r.tell(w)
}

// stray takes in a run that a worker has and nobody here asks for: it is
// stopped at once. The caller holds mu.
func (r *Registry) stray(s *session, k conn.Key) *placed {
	if p := s.strays[k]; p != nil {
		return p
	}
	p := &placed{worker: s.Name, id: k.RunID, attempt: k.Attempt, stray: true}
	s.strays[k] = p
	s.stopNow(p)
	return p
}

// stopNow tells the worker to stop a run that nobody asks for (CAN-05).
func (s *session) stopNow(p *placed) {
	now := protocol.Seconds(0)
	s.Send(&protocol.Cancel{RunID: p.id, Attempt: p.attempt, GraceS: &now})
}

// maxStrays bounds what a worker can make this side remember.
const maxStrays = 10_000

// records takes records of one run. What is no record is left out: the gap is
// told in the run's log.
func (r *Registry) records(s *session, from *protocol.RunRecords) error {
	k := conn.Key{RunID: from.RunID, Attempt: from.Attempt}
	list := from.Decode(func(err error) {
		s.log.Warn("record left out", "worker", s.Name, "run_id", k.RunID, "error", err)
	})
	if len(list) == 0 {
		return nil
	}
	r.mu.Lock()
	w := r.mine(s)
	if w == nil {
		r.mu.Unlock()
		return nil
	}
	w.lastSeen = time.Now()
	p := w.runs[k.RunID]
	if p != nil && p.attempt == k.Attempt {
		p.reported = true
	} else {
		if len(s.strays) >= maxStrays {
			r.mu.Unlock()
			return fmt.Errorf("%w: records of more than %d runs that are not its own", protocol.ErrBadFrame, maxStrays)
		}
		p = r.stray(s, k)
	}
	r.mu.Unlock()
	return r.post(p, mailbox.Letter{Records: list})
}

func (r *Registry) catalogChanged(s *session, c *protocol.CatalogChanged) {
	here := r.hashes(r.ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.mine(s)
	if w == nil {
		return
	}
	hello := *w.hello
	if c.Python != nil {
		hello.Python = c.Python
	}
	if c.Catalog != nil {
		hello.Catalog = c.Catalog
	}
	if len(c.Fingerprint) > 0 {
		hello.Fingerprint = c.Fingerprint
	}
	w.hello = &hello
	w.compare(here)
	r.fingerprinted(w)
	r.tell(w)
	r.save(w)
}

// sorted lists the runs on a worker by id, so that what happens to them has an
// order. The caller holds mu.
func (w *worker) sorted() []*placed {
	return slices.SortedFunc(maps.Values(w.runs), func(a, b *placed) int { return cmp.Compare(a.id, b.id) })
}

// leaveSession takes a worker's session away, with what was not begun of it.
// The caller holds mu.
func (r *Registry) leaveSession(w *worker) {
	s := w.session
	w.session = nil
	for _, p := range w.runs {
		p.box.DropRecords()
	}
	for _, p := range s.strays {
		p.box.DropRecords()
	}
	s.desk.Close()
}

// sessionEnded is called once, when a connection is gone. Its worker's runs go
// on out of sight, for as long as the grace.
func (r *Registry) sessionEnded(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.mine(s)
	if w == nil {
		return // another session took over, or the worker was removed
	}
	cause := s.Ending().Cause
	r.leaveSession(w)
	if r.closed {
		return
	}
	r.log.Warn("worker disconnected", "worker", w.name, "cause", cause.Code, "text", cause.Text, "runs", len(w.runs))
	r.tell(w)
	r.save(w)
	r.startGrace(w)
	lost := link(w, protocol.CodeWorkerDisconnected, &cause)
	for _, p := range w.sorted() {
		r.tellSink(p, "link lost", func(ctx context.Context, sink execution.Sink) error {
			return sink.LinkLost(ctx, p.id, p.attempt, lost)
		})
	}
}

// startGrace lets a worker's runs go when it stays away too long. The caller
// holds mu.
func (r *Registry) startGrace(w *worker) {
	w.away++
	w.lostAt = time.Now()
	absence := w.away
	if w.grace != nil {
		w.grace.Stop()
	}
	w.grace = time.AfterFunc(r.cfg.ResumeGrace, func() { r.graceOver(w.name, absence) })
}

func (r *Registry) graceOver(name string, absence int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[name]
	if r.closed || w == nil || w.session != nil || w.away != absence {
		return
	}
	w.gone = true
	seconds := r.cfg.ResumeGrace.Seconds()
	loss := execution.Loss{
		EndClass: run.EndWorkerLost, Code: protocol.CodeWorkerUnreachable,
		Text: fmt.Sprintf("worker %s did not come back within %s", name, r.cfg.ResumeGrace),
		Params: map[string]any{"worker": name, "reason": protocol.Problem{
			Code: protocol.CauseNoReconnect, Text: "it did not come back in time", Params: map[string]any{"seconds": seconds},
		}},
	}
	if w.restarted {
		loss.Code = protocol.CodeWorkerLostAfterRestart
		loss.Text = fmt.Sprintf("worker %s did not come back within %s after the control plane's restart", name, r.cfg.ResumeGrace)
		loss.Params["reason"] = protocol.Problem{
			Code: protocol.CauseNoReconnectAfterRestart, Text: "it did not come back after the restart", Params: map[string]any{"seconds": seconds},
		}
	}
	for _, p := range w.sorted() {
		r.log.Warn("run is given up", "worker", name, "run_id", p.id)
		r.lose(w, p, loss)
	}
	if !w.listed {
		delete(r.workers, name)
	}
}
