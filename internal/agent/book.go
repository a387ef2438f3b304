package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"cdui/internal/agent/folder"
	"cdui/internal/agent/prepare"
	"cdui/internal/agent/session"
	"cdui/internal/agent/supervise"
	"cdui/internal/console"
	"cdui/internal/protocol"
	"cdui/internal/shimhost"
	"cdui/internal/sorting"
	"cdui/internal/warm/stock"
)

// retryAction is how long an action that failed is left alone.
const retryAction = 5 * time.Second

// held is one attempt that this machine has.
type held struct {
	supervise.Run
	feed *feed
	run  *shimhost.Run
	// abandon ends the preparation.
	abandon context.CancelFunc
	// acked is what the control plane has; the shim is told in a goroutine of
	// its own, since a busy shim may take its time to listen.
	acked    uint64
	ackHeard chan struct{}
	// grace is what the assignment leaves a cancelled child.
	grace time.Duration
}

// follower sends what feeds give.
type follower interface {
	Follow(key session.Key, src session.Source)
	Unfollow(key session.Key)
}

// book keeps what the control plane ordered and what is here, and carries out
// what supervise.Step makes of the two. Everything that takes time happens in
// goroutines of their own, which wait waits for.
type book struct {
	host     *shimhost.Host
	stock    *stock.Stock
	folder   *folder.Folder
	storage  Storage
	follower follower
	log      *slog.Logger
	// surroundings are completed for each assignment.
	surroundings prepare.Surroundings
	torch        bool
	offered      func() []string

	// ctx is over when the agent stops; wg counts what still works.
	ctx context.Context //nolint:containedctx // actions begin at any time of the agent's life
	wg  sync.WaitGroup

	mu       sync.Mutex
	orders   []*protocol.Assign
	runs     map[supervise.Key]*held
	draining bool
	// stopAll ends every run, stopping because this agent was told to.
	stopAll  *supervise.Stop
	stopping bool
	grace    time.Duration
	resume   time.Duration
	changed  chan struct{}
}

func keyOf(runID string, attempt int) supervise.Key {
	return supervise.Key{RunID: runID, Attempt: attempt}
}

// find takes over what an earlier agent left in the folder.
func (b *book) find(ctx context.Context) error {
	found, err := b.host.Find(ctx)
	if err != nil {
		return fmt.Errorf("look for runs of an earlier agent: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range found {
		phase := map[shimhost.State]supervise.Phase{
			shimhost.Live: supervise.Live, shimhost.Ended: supervise.Ended, shimhost.Lost: supervise.Ended,
			shimhost.NeverStarted: supervise.Blank,
		}[f.State]
		h := &held{Run: supervise.Run{Key: keyOf(f.RunID, f.Attempt), Phase: phase}, grace: b.grace}
		b.runs[h.Key] = h
		if phase != supervise.Blank {
			h.feed = b.newFeed(h.Key)
			b.log.InfoContext(ctx, "run found", "run_id", f.RunID, "attempt", f.Attempt, "state", f.State)
		}
	}
	return nil
}

// step does what is to do now.
func (b *book) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.tell()
	if b.ctx.Err() != nil {
		return
	}
	b.stock.Close(b.draining || b.stopping)
	// Each action changes the state, so that this comes to an end.
	for {
		actions := supervise.Step(b.state())
		if len(actions) == 0 {
			return
		}
		for _, a := range actions {
			b.do(a)
		}
	}
}

// change alters the state and looks what follows.
func (b *book) change(f func()) {
	b.mu.Lock()
	f()
	b.mu.Unlock()
	b.step()
}

// tell wakes who waits for a change; the lock is held.
func (b *book) tell() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// state is what Step looks at; the lock is held.
func (b *book) state() supervise.State {
	s := supervise.State{Draining: b.draining || b.stopping, StopAll: b.stopAll, Offered: b.offered(), Torch: b.torch}
	for _, o := range b.orders {
		s.Orders = append(s.Orders, supervise.Order{
			Key: keyOf(o.RunID, o.Attempt), Devices: o.Devices, NeedsTorch: o.Kind == protocol.KindGraph,
		})
	}
	for _, key := range b.keys() {
		s.Runs = append(s.Runs, b.runs[key].Run)
	}
	return s
}

func (b *book) keys() []supervise.Key {
	return sorting.Sorted(maps.Keys(b.runs), func(x, y supervise.Key) int {
		if x.RunID != y.RunID {
			return compare(x.RunID, y.RunID)
		}
		return compare(x.Attempt, y.Attempt)
	})
}

func compare[T int | string](x, y T) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// do begins one action; the lock is held.
func (b *book) do(a supervise.Action) {
	h := b.runs[a.Key]
	switch a.Do {
	case supervise.Start:
		b.start(b.takeOrder(a.Key))
	case supervise.Refuse:
		b.takeOrder(a.Key)
		b.log.WarnContext(b.ctx, "assignment refused", "run_id", a.Key.RunID, "attempt", a.Key.Attempt, "code", a.Code, "error", a.Text)
		b.refused(a.Key, failed(a.Code, a.Text))
	case supervise.Drop:
		b.takeOrder(a.Key)
		b.log.WarnContext(b.ctx, "assignment came twice", "run_id", a.Key.RunID, "attempt", a.Key.Attempt)
	case supervise.Follow:
		h.Followed = true
		b.wg.Go(func() { b.attach(h) })
	case supervise.Cancel:
		told := h.Told
		h.Told = &a.Stop
		if h.Phase == supervise.Preparing {
			h.abandon()
			return
		}
		b.wg.Go(func() { b.cancel(h, a.Stop, told) })
	case supervise.Tidy:
		was := h.Phase
		h.Phase = supervise.Tidying
		b.wg.Go(func() { b.tidy(h, was) })
	case supervise.Forget:
		h.Phase = supervise.Tidying
		b.wg.Go(func() { b.forget(h) })
	}
}

func (b *book) takeOrder(key supervise.Key) *protocol.Assign {
	for i, o := range b.orders {
		if keyOf(o.RunID, o.Attempt) == key {
			b.orders = slices.Delete(b.orders, i, i+1)
			return o
		}
	}
	return nil
}

// refused keeps the end of an attempt that did not begin until it is recorded.
func (b *book) refused(key supervise.Key, end protocol.Finished) {
	h := b.runs[key]
	if h == nil {
		h = &held{Run: supervise.Run{Key: key}, feed: b.newFeed(key)}
		b.runs[key] = h
		b.follower.Follow(session.Key(key), h.feed)
	}
	h.Phase, h.Followed = supervise.Refused, true
	h.feed.conclude(end)
}

// newFeed makes the feed of an attempt.
func (b *book) newFeed(key supervise.Key) *feed {
	job := b.job(key)
	f := &feed{ready: make(chan struct{})}
	f.wrote = func(rec protocol.Record) { b.storage.Wrote(job, rec) }
	f.over = func() { b.change(func() { b.noteRecorded(key) }) }
	f.finish = b.newFinish(job)
	return f
}

func (b *book) noteRecorded(key supervise.Key) {
	if h := b.runs[key]; h != nil {
		h.Recorded = true
	}
}

func (b *book) job(key supervise.Key) Job {
	dir := b.folder.FilesDir(key.RunID)
	return Job{
		RunID: key.RunID, Attempt: key.Attempt, Dir: dir, Folders: prepare.Under(dir),
		Console: console.NewReader(b.runDir(key.RunID)),
	}
}

// attach follows a run that was found.
func (b *book) attach(h *held) {
	r, err := b.stock.Attach(b.ctx, h.Key.RunID)
	if err != nil {
		b.log.ErrorContext(b.ctx, "follow run", "run_id", h.Key.RunID, "error", err)
		if pause(b.ctx, retryAction) {
			b.change(func() { h.Followed = false })
		}
		return
	}
	b.begin(h, r)
	b.follower.Follow(session.Key(h.Key), h.feed)
}

// begin takes a shim over: its records are sent and its end is noticed.
func (b *book) begin(h *held, r *shimhost.Run) {
	b.mu.Lock()
	h.run, h.ackHeard = r, make(chan struct{}, 1)
	if h.Phase == supervise.Preparing {
		// A stop that came meanwhile has not reached the shim.
		h.Phase, h.Told = supervise.Live, nil
	}
	b.mu.Unlock()
	h.feed.attach(r)
	b.wg.Go(func() {
		for {
			changed := r.Changed()
			if r.Status().Dead {
				break
			}
			select {
			case <-h.ackHeard:
				b.mu.Lock()
				seq := h.acked
				b.mu.Unlock()
				r.Ack(seq)
			case <-changed:
			case <-b.ctx.Done():
				return
			}
		}
		b.change(func() {
			if h.Phase == supervise.Live {
				h.Phase = supervise.Ended
			}
		})
	})
	b.step()
}

// cancel passes a stop on to a shim. One that isn't heard is tried again.
func (b *book) cancel(h *held, stop supervise.Stop, before *supervise.Stop) {
	b.mu.Lock()
	r := h.run
	b.mu.Unlock()
	err := errors.New("it is not followed yet")
	if r != nil {
		b.log.InfoContext(b.ctx, "run is asked to stop", "run_id", h.Key.RunID, "grace", stop.Grace, "force", stop.Force)
		err = r.Cancel(b.ctx, stop.Grace, stop.Force)
	}
	if err == nil || errors.Is(err, shimhost.ErrEnded) || b.ctx.Err() != nil {
		return
	}
	b.log.WarnContext(b.ctx, "run can't be asked to stop", "run_id", h.Key.RunID, "error", err)
	wait := retryAction
	if r == nil {
		wait = retryAction / 50
	}
	if pause(b.ctx, wait) {
		b.change(func() { h.Told = before })
	}
}
