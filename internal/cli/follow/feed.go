package follow

import (
	"context"
	"errors"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/client"
	"cdui/internal/run"
)

// Source is what is read of a control plane.
type Source interface {
	Run(ctx context.Context, id string) (api.Run, error)
	Events(ctx context.Context, id string, cursor int64, wait time.Duration, limit int) (api.Events, error)
	Log(ctx context.Context, id string, offset int64, limit int, wait time.Duration) (client.LogChunk, error)
}

const (
	// longPoll is how long one request parks; less than proxies cut at.
	longPoll  = 30 * time.Second
	pageSize  = 500
	chunkSize = 256 << 10
	// idlePause keeps a source that doesn't park from being asked in a loop.
	idlePause = 100 * time.Millisecond
)

// update is one thing that a feed has to tell. One field is set.
type update struct {
	events []api.Event
	chunk  *client.LogChunk
	row    *api.Run
	// lost is a control plane that went away, back one that answers again.
	lost error
	back bool
	err  error
}

// feeds reads one run.
type feeds struct {
	src      Source
	id       string
	patience time.Duration

	out chan update
	// started and ended tell the row's feed that there is something new.
	started chan struct{}
	ended   chan struct{}
	wg      sync.WaitGroup
}

// want says which feeds are needed.
type want struct {
	events, console, row bool
	offset               int64
	cursor               int64
}

// open starts the feeds. The channel closes when all of them are done, which
// they are soon after ctx ends; whoever opened them reads it to its end.
func open(ctx context.Context, src Source, id string, patience time.Duration, w want) <-chan update {
	f := &feeds{
		src: src, id: id, patience: patience, out: make(chan update, 16),
		started: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if w.events || w.row {
		f.wg.Go(func() { f.readEvents(ctx, w) })
	}
	if w.console {
		f.wg.Go(func() { f.readConsole(ctx, w.offset) })
	}
	if w.row {
		f.wg.Go(func() { f.readRow(ctx) })
	}
	go func() {
		f.wg.Wait()
		close(f.out)
	}()
	return f.out
}

// send hands an update over; without a channel nobody wants to know.
func (f *feeds) send(ctx context.Context, u update) bool {
	if f.out == nil {
		return true
	}
	select {
	case f.out <- u:
		return true
	case <-ctx.Done():
		return false
	}
}

func (f *feeds) readEvents(ctx context.Context, w want) {
	defer close(f.ended)
	cursor := w.cursor
	for {
		asked := time.Now()
		var page api.Events
		err := f.try(ctx, func() (err error) {
			page, err = f.src.Events(ctx, f.id, cursor, longPoll, pageSize)
			return err
		})
		if err != nil {
			f.send(ctx, update{err: err})
			return
		}
		if len(page.Events) > 0 {
			cursor = page.Cursor
			if w.events && !f.send(ctx, update{events: page.Events}) {
				return
			}
			select {
			case f.started <- struct{}{}:
			default:
			}
			if run.TerminalEvent(page.Events[len(page.Events)-1].Type) {
				return
			}
			continue
		}
		if !page.Active {
			return
		}
		pause(ctx, idlePause-time.Since(asked))
	}
}

// readConsole reads the output. When the log of events has closed it asks once
// more without parking, so that the end doesn't wait for a long poll.
func (f *feeds) readConsole(ctx context.Context, offset int64) {
	parked, unpark := context.WithCancel(ctx)
	defer unpark()
	f.wg.Go(func() {
		select {
		case <-f.ended:
			unpark()
		case <-parked.Done():
		}
	})
	for {
		asked := time.Now()
		within, wait := parked, longPoll
		if parked.Err() != nil {
			within, wait = ctx, 0
		}
		var chunk client.LogChunk
		err := f.try(within, func() (err error) {
			chunk, err = f.src.Log(within, f.id, offset, chunkSize, wait)
			return err
		})
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			continue
		}
		if err != nil {
			f.send(ctx, update{err: err})
			return
		}
		offset = chunk.Next
		if (len(chunk.Bytes) > 0 || chunk.Cut > 0) && !f.send(ctx, update{chunk: &chunk}) {
			return
		}
		if chunk.Ended && chunk.Next >= chunk.Size {
			return
		}
		if len(chunk.Bytes) == 0 {
			pause(within, idlePause-time.Since(asked))
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// readRow reads the row as often as something can be new in it: the reason of
// a waiting run, the pid of a starting one, the deadline of a stopping one.
func (f *feeds) readRow(ctx context.Context) {
	over := false
	for {
		var row api.Run
		err := f.try(ctx, func() (err error) {
			row, err = f.src.Run(ctx, f.id)
			return err
		})
		if err != nil {
			f.send(ctx, update{err: err})
			return
		}
		if !f.send(ctx, update{row: &row}) || row.Status.Terminal() {
			return
		}
		wait := 2 * time.Second
		switch {
		case over:
			wait = 20 * time.Millisecond
		case row.Status == run.Queued:
			wait = time.Second
		case row.PID == nil:
			wait = 100 * time.Millisecond
		}
		t := time.NewTimer(wait)
		ended := f.ended
		if over {
			ended = nil // it stays closed
		}
		select {
		case <-t.C:
		case <-f.started:
		case <-ended:
			over = true
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// try repeats op while the control plane is away, for as long as patience
// lasts: a restart must not end those who follow a run.
func (f *feeds) try(ctx context.Context, op func() error) error {
	var since time.Time
	for back := 100 * time.Millisecond; ; back = min(2*back, 2*time.Second) {
		err := op()
		if workerAway(err) {
			// Its row says so, and until when it is waited for.
			if !pause(ctx, back) {
				return err
			}
			continue
		}
		if err == nil || !away(err) {
			if err == nil && !since.IsZero() {
				f.send(ctx, update{back: true})
			}
			return err
		}
		if since.IsZero() {
			since = time.Now()
			f.send(ctx, update{lost: err})
		}
		if time.Since(since) > f.patience || !pause(ctx, back) {
			return err
		}
	}
}

// away tells whether nobody answered, or somebody who is about to go.
func away(err error) bool {
	var gone *client.Unreachable
	return errors.As(err, &gone) || api.CodeOf(err) == api.Unavailable
}

// workerAway tells whether the worker that has the answer is not to be reached.
func workerAway(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && refused.Code == api.Unavailable && refused.Params["worker"] != nil
}

// pause waits, and tells whether ctx still holds.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
