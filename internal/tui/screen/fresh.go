package screen

import (
	"context"
	"time"

	"cdui/internal/api"
)

const (
	// freshPace is the least time between two reads, freshAgain that after one
	// that failed.
	freshPace  = time.Second
	freshAgain = 5 * time.Second
)

// fresh says when a screen reads what the feed doesn't carry: once the feed has
// told of something that may have changed it, and once more after that, as the
// control plane may take in the end of a run a moment after it has told of it.
// Without news nothing is read.
type fresh struct {
	// ctx ends what is read.
	ctx    context.Context //nolint:containedctx // commands take none
	cancel context.CancelFunc

	due    int
	busy   bool
	failed bool
	last   time.Time
}

func newFresh(ctx context.Context) fresh {
	ctx, cancel := context.WithCancel(ctx)
	return fresh{ctx: ctx, cancel: cancel, due: 1}
}

// news says that what was read may not be so any more.
func (f *fresh) news() { f.due = 2 }

// anew says that everything is read once more.
func (f *fresh) anew() { f.due = max(f.due, 1) }

// begin tells whether to read now, and takes it that this is done.
func (f *fresh) begin(now time.Time) bool {
	pace := freshPace
	if f.failed {
		pace = freshAgain
	}
	if f.due == 0 || f.busy || !f.last.IsZero() && now.Sub(f.last) < pace {
		return false
	}
	f.due, f.busy, f.last = f.due-1, true, now
	return true
}

// end is told how a read went.
func (f *fresh) end(err error) {
	f.busy, f.failed = false, err != nil
	switch {
	case api.CodeOf(err) == api.NotFound && err != nil:
		f.due = 0
	case err != nil:
		f.due = max(f.due, 1)
	}
}

// turned tells whether a frame says more of a run than how far it is: that it is
// new, stands otherwise, or was asked to stop.
func turned(before api.Run, known bool, r api.LiveRun) bool {
	return !known || before.Status != r.Status || (before.CancelRequestedAt == nil) != (r.CancelRequestedAt == nil) || before.WorkerID != r.Worker
}
