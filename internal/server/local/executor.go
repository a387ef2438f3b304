package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"cdui/internal/console"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/shimhost"
)

// Host starts and finds shims.
type Host interface {
	Start(ctx context.Context, a protocol.Assignment) (*shimhost.Run, error)
	Find(ctx context.Context) ([]shimhost.Found, error)
	Attach(ctx context.Context, runID string) (*shimhost.Run, error)
	Remove(runID string) error
}

// Config is what an Executor is made of.
type Config struct {
	Host Host
	// ShimDir holds the folders of runs that execute, RunsDir what is kept of
	// those that have ended.
	ShimDir, RunsDir string
	Surroundings     *Surroundings
	PayloadCap       int
	Logger           *slog.Logger
}

// Executor is the local executor.
type Executor struct {
	cfg Config
	log *slog.Logger
	wg  sync.WaitGroup

	mu   sync.Mutex
	live map[string]*shimhost.Run
}

// New builds an executor.
func New(cfg Config) *Executor {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Executor{cfg: cfg, log: cfg.Logger, live: map[string]*shimhost.Run{}}
}

// Wait waits until every tail has ended; the context that Start and Adopt were
// given must be over. The shims go on.
func (x *Executor) Wait() { x.wg.Wait() }

// Start implements execution.Executor.
func (x *Executor) Start(ctx context.Context, job execution.Job, sink execution.Sink) error {
	a, err := x.cfg.Surroundings.Assignment(ctx, job, filepath.Join(x.cfg.RunsDir, job.Row.ID))
	if err != nil {
		return err
	}
	a.PayloadCap = x.cfg.PayloadCap
	r, err := x.cfg.Host.Start(ctx, a)
	if err != nil {
		return fmt.Errorf("start run %s: %w", run.Short(job.Row.ID), err)
	}
	x.follow(ctx, r, job.Row.ID, job.Row.Attempt, sink)
	return nil
}

// Cancel implements execution.Executor.
func (x *Executor) Cancel(ctx context.Context, runID string, grace time.Duration, force bool) error {
	x.mu.Lock()
	r := x.live[runID]
	x.mu.Unlock()
	if r == nil {
		return nil // it has ended meanwhile
	}
	return r.Cancel(ctx, grace, force)
}

// Adopt implements execution.Executor: it attaches to shims that live on, reads
// what ended ones left, and clears away folders that belong to no active run.
func (x *Executor) Adopt(ctx context.Context, jobs []execution.Job, sink execution.Sink) error {
	found, err := x.cfg.Host.Find(ctx)
	if err != nil {
		return fmt.Errorf("look for runs of an earlier process: %w", err)
	}
	byID := map[string]shimhost.Found{}
	for _, f := range found {
		byID[f.RunID] = f
	}
	for _, job := range jobs {
		id, attempt := job.Row.ID, job.Row.Attempt
		f, ok := byID[id]
		delete(byID, id)
		if !ok || f.Attempt != attempt || f.State == shimhost.NeverStarted {
			if ok {
				if err := x.cfg.Host.Remove(id); err != nil {
					return fmt.Errorf("clear the folder of run %s: %w", run.Short(id), err)
				}
			}
			x.wg.Go(func() { x.report(ctx, id, func() error { return sink.NeverStarted(ctx, id, attempt) }) })
			continue
		}
		r, err := x.cfg.Host.Attach(ctx, id)
		if err != nil {
			return fmt.Errorf("attach to run %s: %w", run.Short(id), err)
		}
		r.From(job.Row.RecordedSeq)
		x.follow(ctx, r, id, attempt, sink)
	}
	for id, f := range byID {
		x.clear(ctx, id, f)
	}
	return nil
}

// clear tidies the folder of a run that the store does not hold as active: its
// end was committed by a process that died before it could tidy up, or the
// database is older than the folder. A shim that still runs is told to stop.
func (x *Executor) clear(ctx context.Context, id string, f shimhost.Found) {
	x.wg.Go(func() {
		if f.State == shimhost.Live {
			x.log.Warn("a run that the database does not know is stopped", "run_id", id)
			if r, err := x.cfg.Host.Attach(ctx, id); err == nil {
				if err := r.Cancel(ctx, 0, true); err != nil {
					x.log.Warn("stop unknown run", "run_id", id, "error", err)
				}
				for err == nil {
					_, err = r.Next(ctx)
				}
				r.Close()
			}
		}
		if ctx.Err() == nil {
			x.tidy(id)
		}
	})
}

func (x *Executor) follow(ctx context.Context, r *shimhost.Run, id string, attempt int, sink execution.Sink) {
	x.mu.Lock()
	x.live[id] = r
	x.mu.Unlock()
	x.wg.Go(func() {
		defer r.Close()
		over := x.tail(ctx, r, id, attempt, sink)
		x.mu.Lock()
		delete(x.live, id)
		x.mu.Unlock()
		if over {
			x.tidy(id)
		}
	})
}

// tail passes records on until the run is over. False: the context ended and
// the run goes on. The next ones are read while some are being stored.
func (x *Executor) tail(ctx context.Context, r *shimhost.Run, id string, attempt int, sink execution.Sink) bool {
	reading, stop := context.WithCancel(ctx)
	found := make(chan finding)
	go func() {
		defer close(found)
		x.read(reading, r, id, found)
	}()
	defer func() {
		stop()
		for range found { //nolint:revive // until the reader has ended
		}
	}()
	for f := range found {
		if len(f.records) > 0 {
			if !x.report(ctx, id, func() error { return sink.Record(ctx, id, attempt, f.records) }) {
				return ctx.Err() == nil
			}
			r.Ack(f.records[len(f.records)-1].Seq)
		}
		var lost *shimhost.LostError
		switch {
		case errors.Is(f.err, io.EOF):
			return true
		case errors.As(f.err, &lost):
			loss := execution.Loss{EndClass: run.EndKilled, Text: "the run's supervisor was killed; its processes were ended with it"}
			if lost.BootChanged {
				loss = execution.Loss{EndClass: run.EndServer, Text: "the machine restarted while the run executed"}
			}
			return x.report(ctx, id, func() error { return sink.Lost(ctx, id, attempt, loss) }) || ctx.Err() == nil
		}
	}
	return false
}

// finding is what one look for records gave.
type finding struct {
	records []protocol.Record
	err     error
}

// read looks for records until there are no more, or the context is over.
func (x *Executor) read(ctx context.Context, r *shimhost.Run, id string, found chan<- finding) {
	for {
		records, err := r.Next(ctx)
		if ctx.Err() != nil {
			return // what was read is read again
		}
		select {
		case found <- finding{records, err}:
		case <-ctx.Done():
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || errors.Is(err, shimhost.ErrLost):
			return
		default:
			x.log.Error("read records", "run_id", id, "error", err)
			if !pause(ctx, retryMost) {
				return
			}
		}
	}
}

const (
	retryFirst = 250 * time.Millisecond
	retryMost  = 10 * time.Second
)

// report tries until the service has taken a report. False: it never will,
// since the run is gone or the context over.
func (x *Executor) report(ctx context.Context, id string, deliver func() error) bool {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := deliver()
		switch {
		case err == nil:
			return true
		case errors.Is(err, execution.ErrGone) || ctx.Err() != nil:
			return false
		}
		x.log.Warn("report delayed", "run_id", id, "error", err)
		if !pause(ctx, wait) {
			return false
		}
	}
}

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

// tidy keeps an ended run's console and removes its shim folder.
func (x *Executor) tidy(id string) {
	if err := x.keepConsole(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.log.Warn("keep console", "run_id", id, "error", err)
		return
	}
	if err := x.cfg.Host.Remove(id); err != nil {
		x.log.Warn("clear run folder", "run_id", id, "error", err)
	}
	if err := os.RemoveAll(filepath.Join(x.cfg.RunsDir, id, codeDir)); err != nil {
		x.log.Warn("clear folder of a program", "run_id", id, "error", err)
	}
}

// keepConsole moves the output of a run that printed something.
func (x *Executor) keepConsole(id string) error {
	from, kept := filepath.Join(x.cfg.ShimDir, id), filepath.Join(x.cfg.RunsDir, id)
	size, err := console.NewReader(from).Size()
	if err != nil || size == 0 {
		return err
	}
	if err := os.MkdirAll(kept, 0o700); err != nil {
		return err
	}
	return console.Move(from, kept)
}

// Console reads a run's output where it lies: with the shim while the run
// executes, among the kept files later.
func (x *Executor) Console(id string) *console.Reader {
	return console.NewReader(filepath.Join(x.cfg.ShimDir, id), filepath.Join(x.cfg.RunsDir, id))
}

// Forget removes what is kept of an ended run.
func (x *Executor) Forget(id string) {
	if err := os.RemoveAll(filepath.Join(x.cfg.RunsDir, id)); err != nil {
		x.log.Warn("remove kept files", "run_id", id, "error", err)
	}
}
