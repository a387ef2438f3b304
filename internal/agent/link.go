package agent

import (
	"context"
	"time"

	"cdui/internal/agent/session"
	"cdui/internal/agent/supervise"
)

// door watches how the control plane takes this worker. One that it refuses
// keeps its runs for as long as they could be resumed, and stops them then
// (K-08); one that it will never take again, and that has no runs, ends.
type door struct {
	book *book
	// giveUp ends the agent.
	giveUp context.CancelCauseFunc

	// Written under the book's lock.
	link    session.Link
	since   time.Time
	refused time.Time
	timer   *time.Timer
}

// moved takes the news of the connection.
func (d *door) moved(l session.Link) {
	b := d.book
	b.change(func() {
		if l.Up != d.link.Up || d.since.IsZero() {
			d.since = time.Now()
		}
		d.link = l
		switch {
		case l.Up:
			d.refused = time.Time{}
			if d.timer != nil {
				d.timer.Stop()
				d.timer = nil
			}
			if !b.stopping {
				b.stopAll = nil
			}
		case l.Refusal != nil && d.refused.IsZero():
			d.refused = time.Now()
			b.log.WarnContext(b.ctx, "refused: runs go on until the grace is over", "grace", b.resume, "runs", len(b.runs))
			d.timer = time.AfterFunc(b.resume, d.graceOver)
		}
	})
	d.endWhereUnwanted()
}

// graceOver stops the runs of a worker that is not wanted any more.
func (d *door) graceOver() {
	b := d.book
	b.change(func() {
		if d.refused.IsZero() || b.stopping {
			return
		}
		b.log.WarnContext(b.ctx, "refused for too long: runs are stopped", "runs", len(b.runs))
		b.stopAll = &supervise.Stop{Grace: b.grace}
	})
	d.endWhereUnwanted()
}

// endWhereUnwanted ends an agent that can do nothing any more.
func (d *door) endWhereUnwanted() {
	b := d.book
	b.mu.Lock()
	defer b.mu.Unlock()
	r := d.link.Refusal
	if r == nil || !r.Lasting() {
		return
	}
	for _, h := range b.runs {
		// Ends that nobody will take any more keep nobody once their time is over.
		waits := h.Phase == supervise.Ended || h.Phase == supervise.Refused
		if !waits || b.stopAll == nil {
			return
		}
	}
	d.giveUp(r)
}

func (d *door) stop() {
	d.book.mu.Lock()
	defer d.book.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}
