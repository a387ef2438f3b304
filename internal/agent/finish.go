package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cdui/internal/agent/session"
	"cdui/internal/agent/supervise"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// newFinish makes what happens before the end of a run is reported: its files
// and its log are brought to the control plane. That goes on across sessions;
// who asks waits for it.
func (b *book) newFinish(job Job) func(context.Context, protocol.Record) (protocol.Record, error) {
	var once sync.Once
	done := make(chan struct{})
	var failure error
	return func(ctx context.Context, end protocol.Record) (protocol.Record, error) {
		once.Do(func() {
			b.wg.Go(func() {
				defer close(done)
				failure = b.bring(job)
			})
		})
		select {
		case <-done:
		case <-ctx.Done():
			return end, ctx.Err()
		}
		switch {
		case b.ctx.Err() != nil:
			// The next agent on this folder does it.
			return end, b.ctx.Err()
		case failure != nil:
			return withoutFiles(end, failure)
		}
		return end, nil
	}
}

// bring tries for as long as the control plane would keep the run.
func (b *book) bring(job Job) error {
	b.mu.Lock()
	patience := b.resume
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := persist(ctx, func() error {
		err := b.storage.Bring(ctx, job)
		if err != nil {
			b.log.WarnContext(ctx, "files of a run are not brought back yet", "run_id", job.RunID, "error", err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("bring back the files of run %s: %w", job.RunID, err)
	}
	return nil
}

// withoutFiles is the end of a run whose files did not reach the control plane:
// a success without its results is none.
func withoutFiles(end protocol.Record, failure error) (protocol.Record, error) {
	f := *end.Finished
	if f.Status == string(run.Succeeded) {
		f.Status, f.EndClass = string(run.Failed), string(run.EndWorkerLost)
		f.Code, f.Error = protocol.CodeWorkerTransferFailed, "the run succeeded, but its files did not reach the control plane: "+failure.Error()
	}
	end.Finished = &f
	if _, err := protocol.EncodeRecord(&end); err != nil {
		return end, err
	}
	return end, nil
}

// keepCheckpoints is how long the checkpoints of a run that did not succeed are
// kept for its next attempt.
const keepCheckpoints = 7 * 24 * time.Hour

// tidy removes what is left of an attempt whose end is recorded. Its
// checkpoints stay for a while: another attempt may come.
func (b *book) tidy(h *held, was supervise.Phase) {
	b.letGo(h)
	job := b.job(h.Key)
	err := b.host.Remove(h.Key.RunID)
	for _, dir := range []string{job.Folders.Code, job.Folders.Data, job.Folders.Outputs} {
		if err == nil {
			err = os.RemoveAll(dir)
		}
	}
	if err != nil {
		b.log.WarnContext(b.ctx, "clear run folder", "run_id", h.Key.RunID, "error", err)
		if pause(b.ctx, retryAction) {
			b.change(func() { h.Phase = was })
		}
		return
	}
	// Fails as long as something is in them.
	_ = os.Remove(job.Folders.Checkpoints)
	_ = os.Remove(job.Dir)
	b.change(func() { delete(b.runs, h.Key) })
}

func (b *book) forget(h *held) {
	b.letGo(h)
	b.change(func() { delete(b.runs, h.Key) })
}

// letGo ends everything that reads an attempt's files.
func (b *book) letGo(h *held) {
	if h.feed != nil {
		b.follower.Unfollow(session.Key(h.Key))
	}
	b.mu.Lock()
	r := h.run
	h.run = nil
	b.mu.Unlock()
	if r != nil {
		r.Close()
	}
}

// prune removes the files of runs that are not here any more: at once what a
// crash left of them, later what their next attempt did not come for.
func (b *book) prune(now time.Time) {
	ids, err := b.folder.FilesOf()
	if err != nil {
		b.log.WarnContext(b.ctx, "prune files of runs", "error", err)
		return
	}
	b.mu.Lock()
	here := map[string]bool{}
	for key := range b.runs {
		here[key.RunID] = true
	}
	b.mu.Unlock()
	for _, id := range ids {
		dir := b.folder.FilesDir(id)
		info, err := os.Stat(dir)
		if err != nil || here[id] {
			continue
		}
		if checkpoints, err := os.ReadDir(filepath.Join(dir, "checkpoints")); err == nil && len(checkpoints) > 0 && now.Sub(info.ModTime()) < keepCheckpoints {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			b.log.WarnContext(b.ctx, "prune files of a run", "run_id", id, "error", err)
		}
	}
}

// close lets go of every shim; the runs go on. The context is over.
func (b *book) close() {
	b.wg.Wait()
	b.mu.Lock()
	var list []*held
	for _, h := range b.runs {
		list = append(list, h)
	}
	b.mu.Unlock()
	for _, h := range list {
		b.letGo(h)
	}
}

// pause waits; false: ctx is over.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
