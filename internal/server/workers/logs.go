package workers

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

// logChunk passes a chunk on to whoever asked for it. One that is read too
// slowly loses the rest: the reader of the connection waits for nobody.
func (r *Registry) logChunk(s *session, c *protocol.LogChunk) {
	r.mu.Lock()
	f := s.fetches[c.RequestID]
	r.mu.Unlock()
	if f == nil {
		return
	}
	select {
	case f.chunks <- c:
	default:
		f.close()
	}
}

// Console reads the output of a run where it lies: on its worker, over the
// worker's own connection. It is of one request, whose context it keeps.
type Console struct {
	ctx      context.Context //nolint:containedctx // it lives as long as the request
	registry *Registry
	worker   string
	runID    string
}

// Console gives a reader of a run's output on a worker.
func (r *Registry) Console(ctx context.Context, worker, runID string) *Console {
	return &Console{ctx: ctx, registry: r, worker: worker, runID: runID}
}

// Size is how much the run has written so far.
func (c *Console) Size() (int64, error) {
	var size int64
	err := c.registry.fetch(c.ctx, c.worker, protocol.FetchLog{RunID: c.runID, Limit: 1, Credit: 1}, fetchPatience, func(chunk *protocol.LogChunk) bool {
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
	err := c.registry.fetch(ctx, c.worker, protocol.FetchLog{RunID: c.runID, Offset: offset, Limit: 1, Follow: true, Credit: 1}, wait, func(*protocol.LogChunk) bool { return false })
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
	request := protocol.FetchLog{RunID: c.runID, Offset: off, Limit: int64(len(p)), Credit: int64(len(p))}
	err = c.registry.fetch(c.ctx, c.worker, request, fetchPatience, func(chunk *protocol.LogChunk) bool {
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
	err := c.registry.fetch(c.ctx, c.worker, protocol.FetchLog{RunID: c.runID, Offset: from, Index: true}, fetchPatience, func(chunk *protocol.LogChunk) bool {
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

// fetch asks a worker for console output and hands on each chunk until take
// wants no more or the worker has said all.
func (r *Registry) fetch(ctx context.Context, worker string, request protocol.FetchLog, patience time.Duration, take func(*protocol.LogChunk) bool) error {
	s, f, err := r.open(worker, &request)
	if err != nil {
		return err
	}
	defer r.closeFetch(s, request.RequestID)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case chunk := <-f.chunks:
			if p := chunk.Problem; p != nil {
				if p.Code == protocol.LogNotFound {
					return api.Errorf(api.NotFound, "worker %s has no output of this run: %s", worker, p.Text).With("worker", worker)
				}
				return api.Errorf(api.Unavailable, "worker %s can't read the output of this run: %s", worker, p.Text).With("worker", worker)
			}
			if !take(chunk) || chunk.Final {
				return nil
			}
		case <-f.gone:
			return unreachable(worker)
		case <-timer.C:
			return api.Errorf(api.Unavailable, "worker %s did not answer within %s", worker, patience).With("worker", worker)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func unreachable(worker string) error {
	return api.Errorf(api.Unavailable, "worker %s is not connected, and the output of this run is there", worker).With("worker", worker)
}

// open sends a request and enters it among the worker's.
func (r *Registry) open(worker string, request *protocol.FetchLog) (*session, *fetch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.workers[worker]
	if w == nil || w.session == nil {
		return nil, nil, unreachable(worker)
	}
	s := w.session
	switch {
	case !s.caps.Has(protocol.CapLogs):
		return nil, nil, api.Errorf(api.Unavailable, "worker %s can't show the output of its runs while they go on", worker).With("worker", worker)
	case len(s.fetches) >= maxFetches:
		return nil, nil, api.Errorf(api.Unavailable, "too many read the output of runs on worker %s; try again", worker).With("worker", worker)
	}
	s.lastFetch++
	request.RequestID = "log-" + strconv.FormatUint(s.lastFetch, 10)
	f := &fetch{chunks: make(chan *protocol.LogChunk, fetchChunks), gone: make(chan struct{})}
	s.fetches[request.RequestID] = f
	if !s.send(request) {
		delete(s.fetches, request.RequestID)
		return nil, nil, unreachable(worker)
	}
	return s, f, nil
}

// closeFetch ends a request, at the worker too if that goes on with it.
func (r *Registry) closeFetch(s *session, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, open := s.fetches[id]; open {
		delete(s.fetches, id)
		s.send(&protocol.CancelFetch{RequestID: id})
	}
}
