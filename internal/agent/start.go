package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"cdui/internal/agent/prepare"
	"cdui/internal/agent/session"
	"cdui/internal/agent/supervise"
	"cdui/internal/protocol"
	"cdui/internal/pyruntime"
	"cdui/internal/run"
)

// fetchPatience is how long the files of a run may take to begin to come:
// within it, a connection that fails is tried again.
const fetchPatience = 5 * time.Minute

// failed is the end of an attempt that never began.
func failed(code, text string) protocol.Finished {
	return protocol.Finished{Status: string(run.Failed), Error: text, Code: code, EndClass: string(run.EndServer)}
}

// start begins to prepare an ordered attempt; the lock is held.
func (b *book) start(o *protocol.Assign) {
	key := keyOf(o.RunID, o.Attempt)
	ctx, abandon := context.WithCancel(b.ctx)
	h := &held{
		Run:  supervise.Run{Key: key, Phase: supervise.Preparing, Followed: true},
		feed: b.newFeed(key), abandon: abandon, grace: o.GraceS.Duration(),
	}
	b.runs[key] = h
	// A refused attempt of the same number would have been dropped by Step.
	b.follower.Follow(session.Key(key), h.feed)
	b.wg.Go(func() {
		defer abandon()
		err := b.prepare(ctx, h, o)
		switch {
		case err == nil:
		case b.ctx.Err() != nil:
			// Nothing was started; the control plane places it again.
		case ctx.Err() != nil:
			b.change(func() {
				b.refused(key, protocol.Finished{Status: string(run.Cancelled), EndClass: string(run.EndCancel)})
			})
		default:
			b.log.WarnContext(ctx, "run can't be started", "run_id", o.RunID, "attempt", o.Attempt, "error", err)
			b.change(func() { b.refused(key, startFailure(err)) })
		}
	})
}

// prepare fetches the run's files, builds its surroundings and starts its shim.
func (b *book) prepare(ctx context.Context, h *held, o *protocol.Assign) error {
	job := b.job(h.Key)
	if err := b.makeFolders(job, o); err != nil {
		return err
	}
	fetching, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	err := persist(fetching, func() error { return b.storage.Fetch(ctx, job, o) })
	if err != nil {
		return &fetchError{err}
	}
	s := b.surroundings
	s.Offered = b.offered()
	if port, err := pyruntime.FreePort(); err == nil {
		s.Port = port
	}
	a, err := s.Assignment(o, job.Folders)
	if err != nil {
		return err
	}
	r, err := b.stock.Start(ctx, a)
	if err != nil {
		return err
	}
	b.log.InfoContext(ctx, "run started", "run_id", o.RunID, "attempt", o.Attempt, "devices", o.Devices)
	b.begin(h, r)
	return nil
}

// makeFolders makes a run's folders, empty but for the checkpoints of earlier
// attempts.
func (b *book) makeFolders(job Job, o *protocol.Assign) error {
	for _, dir := range []string{job.Folders.Code, job.Folders.Data, job.Folders.Outputs} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("clear the folders of run %s: %w", o.RunID, err)
		}
	}
	dirs := []string{job.Folders.Data, job.Folders.Checkpoints}
	if o.Code != nil {
		dirs = append(dirs, job.Folders.Code)
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the folders of run %s: %w", o.RunID, err)
		}
	}
	return nil
}

// fetchError is why the files of a run did not come.
type fetchError struct{ err error }

func (e *fetchError) Error() string { return "the run's files did not come: " + e.err.Error() }
func (e *fetchError) Unwrap() error { return e.err }

// startFailure words why an attempt did not begin.
func startFailure(err error) protocol.Finished {
	var unfit *prepare.Unfit
	var fetch *fetchError
	switch {
	case errors.As(err, &unfit):
		return failed(unfit.Code, unfit.Text)
	case errors.As(err, &fetch):
		return failed(protocol.CodeWorkerTransferFailed, err.Error())
	}
	return failed(protocol.RefuseStartFailed, err.Error())
}

// persist tries until f succeeds, fails for good, or ctx is over.
func persist(ctx context.Context, f func() error) error {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		err := f()
		var unfit *prepare.Unfit
		if err == nil || errors.Is(err, ErrLasting) || errors.As(err, &unfit) || !pause(ctx, wait) {
			return err
		}
	}
}
