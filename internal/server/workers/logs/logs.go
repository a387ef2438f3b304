// Package logs fetches the console output of runs from the workers that they
// execute on, over the workers' own connections. A Desk holds the requests that
// one connection has open; a Console reads one run's output through it.
package logs

import (
	"context"
	"io"
	"strconv"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/console"
	"cdui/internal/protocol"
)

const (
	// maxFetches bounds the requests that one worker has open.
	maxFetches = 24
	// fetchChunks is how many chunks may wait for whoever asked.
	fetchChunks = 64
	// fetchPatience is how long a worker may take for an answer that doesn't
	// wait for anything.
	fetchPatience = 30 * time.Second
)

// fetch is one request for console output.
type fetch struct {
	chunks chan *protocol.LogChunk
	once   sync.Once
	gone   chan struct{}
}

// close ends a request that will get no more answers.
func (f *fetch) close() { f.once.Do(func() { close(f.gone) }) }

// Desk is the requests of one connection.
type Desk struct {
	worker string
	// able: the worker answers such requests.
	able bool
	send func(protocol.Frame) bool

	mu     sync.Mutex
	open   map[string]*fetch
	last   uint64
	closed bool
}

// NewDesk makes a desk for a worker's connection, of which caps is what both
// sides can; send puts a frame into its outbox.
func NewDesk(worker string, caps protocol.Capabilities, send func(protocol.Frame) bool) *Desk {
	return &Desk{worker: worker, able: caps.Has(protocol.CapLogs), send: send, open: map[string]*fetch{}}
}

// Take passes a chunk on to whoever asked for it, and doesn't wait: one that is
// read too slowly loses the rest.
func (d *Desk) Take(c *protocol.LogChunk) {
	d.mu.Lock()
	f := d.open[c.RequestID]
	d.mu.Unlock()
	if f == nil {
		return
	}
	select {
	case f.chunks <- c:
	default:
		f.close()
	}
}

// Close ends all requests: the connection is gone.
func (d *Desk) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, f := range d.open {
		f.close()
	}
}

// Console reads the output of a run where it lies: on its worker, over the
// worker's own connection. It is of one request, whose context it keeps.
type Console struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the request
	desk   func() *Desk
	worker string
	runID  string
}

// NewConsole gives a reader of a run's output on a worker. desk gives that of
// the worker's present connection, nil for none.
func NewConsole(ctx context.Context, worker, runID string, desk func() *Desk) *Console {
	return &Console{ctx: ctx, desk: desk, worker: worker, runID: runID}
}

func (c *Console) fetch(ctx context.Context, request protocol.FetchLog, patience time.Duration, take func(*protocol.LogChunk) bool) error {
	d := c.desk()
	if d == nil {
		return unreachable(c.worker)
	}
	request.RunID = c.runID
	return d.fetch(ctx, request, patience, take)
}

// Size is how much the run has written so far.
func (c *Console) Size() (int64, error) {
	var size int64
	err := c.fetch(c.ctx, protocol.FetchLog{Limit: 1, Credit: 1}, fetchPatience, func(chunk *protocol.LogChunk) bool {
		size = chunk.Size
		return false
	})
	return size, err
}

// Await waits until there is output beyond offset, the run's output has ended,
// or wait is over.
func (c *Console) Await(offset int64, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(c.ctx, wait)
	defer cancel()
	err := c.fetch(ctx, protocol.FetchLog{Offset: offset, Limit: 1, Follow: true, Credit: 1}, wait+fetchPatience, func(*protocol.LogChunk) bool { return false })
	if ctx.Err() != nil && c.ctx.Err() == nil {
		return nil
	}
	return err
}

// ReadAt reads from off on; at is where the bytes lie, behind off where the
// cap has cut the output.
func (c *Console) ReadAt(p []byte, off int64) (n int, at int64, err error) {
	p = p[:min(len(p), protocol.LogCreditBytes)]
	at = off
	if len(p) == 0 {
		return 0, at, nil
	}
	request := protocol.FetchLog{Offset: off, Limit: int64(len(p)), Credit: int64(len(p))}
	err = c.fetch(c.ctx, request, fetchPatience, func(chunk *protocol.LogChunk) bool {
		if n == 0 && len(chunk.Data) > 0 {
			at = chunk.Offset
		}
		if chunk.Offset != at+int64(n) {
			return false // a hole; the next read begins behind it
		}
		n += copy(p[n:], chunk.Data)
		return n < len(p)
	})
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, at, err
}

// Marks gives the time index between two offsets, thinned to most marks.
func (c *Console) Marks(from, to int64, most int) ([]console.Mark, error) {
	var all []console.Mark
	err := c.fetch(c.ctx, protocol.FetchLog{Offset: from, Index: true}, fetchPatience, func(chunk *protocol.LogChunk) bool {
		for _, m := range chunk.Marks {
			if m.Offset <= to && len(all) < maxMarks {
				all = append(all, console.Mark{Offset: m.Offset, At: time.UnixMilli(m.UnixMS)})
			}
		}
		return len(all) < maxMarks
	})
	if most > 0 && len(all) > most {
		thin := make([]console.Mark, 0, most)
		for i := range most {
			thin = append(thin, all[i*len(all)/most])
		}
		all = thin
	}
	return all, err
}

const maxMarks = 1 << 20

// fetch asks the worker for console output and hands on each chunk until take
// wants no more or the worker has said all.
func (d *Desk) fetch(ctx context.Context, request protocol.FetchLog, patience time.Duration, take func(*protocol.LogChunk) bool) error {
	f, id, err := d.ask(request)
	if err != nil {
		return err
	}
	final := false
	defer func() { d.drop(id, final) }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case chunk := <-f.chunks:
			final = chunk.Final
			if p := chunk.Problem; p != nil {
				if p.Code == protocol.LogNotFound {
					return api.Errorf(api.NotFound, "worker %s has no output of this run: %s", d.worker, p.Text).With("worker", d.worker)
				}
				return api.Errorf(api.Unavailable, "worker %s can't read the output of this run: %s", d.worker, p.Text).With("worker", d.worker)
			}
			if !take(chunk) || final {
				return nil
			}
		case <-f.gone:
			return unreachable(d.worker)
		case <-timer.C:
			return api.Errorf(api.Unavailable, "worker %s did not answer within %s", d.worker, patience).With("worker", d.worker)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func unreachable(worker string) error {
	return api.Errorf(api.Unavailable, "worker %s is not connected, and the output of this run is there", worker).With("worker", worker)
}

// ask sends a request.
func (d *Desk) ask(request protocol.FetchLog) (*fetch, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.able {
		return nil, "", api.Errorf(api.Unavailable, "worker %s can't show the output of its runs while they go on", d.worker).With("worker", d.worker)
	}
	if len(d.open) >= maxFetches {
		return nil, "", api.Errorf(api.Unavailable, "too many read the output of runs on worker %s; try again", d.worker).With("worker", d.worker)
	}
	d.last++
	request.RequestID = "log-" + strconv.FormatUint(d.last, 10)
	f := &fetch{chunks: make(chan *protocol.LogChunk, fetchChunks), gone: make(chan struct{})}
	if d.closed || !d.send(&request) {
		return nil, "", unreachable(d.worker)
	}
	d.open[request.RequestID] = f
	return f, request.RequestID, nil
}

// drop ends a request, at the worker too if that goes on with it.
func (d *Desk) drop(id string, final bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, id)
	if !final && !d.closed {
		d.send(&protocol.CancelFetch{RequestID: id})
	}
}
