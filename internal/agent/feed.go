package agent

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/shimhost"
)

// feed is the Source of one attempt. Its shim may not be there yet, or never
// come: then the end is made here.
type feed struct {
	// finish is called before the end is given; it may replace it.
	finish func(ctx context.Context, end protocol.Record) (protocol.Record, error)
	// wrote is told of artifacts, over that the other side has everything.
	wrote func(protocol.Record)
	over  func()

	ready chan struct{}

	mu    sync.Mutex
	run   *shimhost.Run
	made  []protocol.Record
	after uint64
	last  uint64
	// held is the end, kept back until what came before it is given.
	held *protocol.Record
	// end is the number of the end once it was given, gave that it was given
	// since From.
	end  uint64
	gave bool
}

// attach gives the feed its shim.
func (f *feed) attach(r *shimhost.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = r
	r.From(f.after)
	close(f.ready)
}

// conclude gives the feed an end without a shim.
func (f *feed) conclude(end protocol.Finished) {
	rec := protocol.Record{Seq: 1, Type: protocol.RunFinished, TS: time.Now().UTC().Truncate(time.Millisecond), Finished: &end}
	// What is marshalled here can't fail.
	_, _ = protocol.EncodeRecord(&rec)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made = []protocol.Record{rec}
	close(f.ready)
}

// From implements session.Source.
func (f *feed) From(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after, f.last, f.held, f.gave = seq, seq, nil, false
	if f.run != nil {
		f.run.From(seq)
	}
}

// recorded tells whether an acknowledgement of seq covers the end.
func (f *feed) recorded(seq uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end > 0 && seq >= f.end
}

// Next implements session.Source.
func (f *feed) Next(ctx context.Context) ([]protocol.Record, error) {
	select {
	case <-f.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.mu.Lock()
	r, held, gave := f.run, f.held, f.gave
	f.mu.Unlock()
	switch {
	case gave:
		return nil, io.EOF
	case held != nil:
		return f.giveEnd(ctx, *held)
	case r == nil:
		return f.giveMade()
	}
	records, err := r.Next(ctx)
	if errors.Is(err, io.EOF) {
		f.over() // its end was recorded before
		return nil, io.EOF
	}
	if end, ok := f.loss(err); ok {
		records, err = append(records, end), nil
	}
	for i, rec := range records {
		if rec.Type == protocol.Artifact {
			f.wrote(rec)
		}
		if rec.Type != protocol.RunFinished {
			continue
		}
		f.mu.Lock()
		f.held = &rec
		f.mu.Unlock()
		if records = records[:i]; i == 0 {
			return f.giveEnd(ctx, rec)
		}
		break
	}
	if n := len(records); n > 0 {
		f.mu.Lock()
		f.last = records[n-1].Seq
		f.mu.Unlock()
	}
	return records, err
}

func (f *feed) giveEnd(ctx context.Context, rec protocol.Record) ([]protocol.Record, error) {
	rec, err := f.finish(ctx, rec)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end, f.gave, f.last = rec.Seq, true, rec.Seq
	return []protocol.Record{rec}, nil
}

func (f *feed) giveMade() ([]protocol.Record, error) {
	f.mu.Lock()
	end := f.made[0].Seq
	known := f.after >= end
	f.end, f.gave = end, true
	f.mu.Unlock()
	if known {
		f.over()
		return nil, io.EOF
	}
	return f.made, nil
}

// loss makes the end of a run whose shim is gone without a word.
func (f *feed) loss(err error) (protocol.Record, bool) {
	var lost *shimhost.LostError
	end := protocol.Finished{
		Status: string(run.Interrupted), EndClass: string(run.EndKilled), Code: protocol.CauseSupervisorLost,
		Error: "the run's supervisor was killed; its processes were ended with it",
	}
	switch {
	case errors.As(err, &lost):
		end.Killed = lost.Swept
		if lost.BootChanged {
			end.EndClass, end.Code = string(run.EndWorkerLost), protocol.CauseMachineRestarted
			end.Error = "the worker's machine restarted while the run executed"
		}
	case errors.Is(err, shimhost.ErrNeverStarted):
		end.Error = "the run's supervisor was killed before it started anything"
	default:
		return protocol.Record{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rec := protocol.Record{Seq: f.last + 1, Type: protocol.RunFinished, TS: time.Now().UTC().Truncate(time.Millisecond), Finished: &end}
	if _, err := protocol.EncodeRecord(&rec); err != nil {
		return protocol.Record{}, false
	}
	return rec, true
}
