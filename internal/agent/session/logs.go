package session

import (
	"context"
	"errors"
	"io"
	"sync"

	"cdui/internal/protocol"
)

const (
	// maxLogs bounds the log requests that are answered at a time.
	maxLogs = 32
	// marksAtOnce is how many marks of the time index one chunk holds.
	marksAtOnce = 4096
)

// logServer answers fetch_log requests, each in a goroutine of the session.
type logServer struct {
	s *session

	mu   sync.Mutex
	open map[string]*logRequest
}

type logRequest struct {
	cancel context.CancelFunc
	// more has one element after credit came in.
	more chan struct{}

	mu     sync.Mutex
	credit int64
}

func newLogServer(s *session) *logServer { return &logServer{s: s, open: map[string]*logRequest{}} }

// fetch begins an answer.
func (l *logServer) fetch(f *protocol.FetchLog) {
	ctx, cancel := context.WithCancel(l.s.stopped)
	r := &logRequest{cancel: cancel, more: make(chan struct{}, 1), credit: f.Credit}
	l.mu.Lock()
	busy := l.open[f.RequestID] != nil || len(l.open) >= maxLogs
	if !busy {
		l.open[f.RequestID] = r
	}
	l.mu.Unlock()
	if busy {
		cancel()
		l.refuse(f, &protocol.Problem{Code: protocol.LogUnreadable, Text: "the worker answers as many log requests as it can already; try again"})
		return
	}
	l.s.wg.Go(func() {
		defer func() {
			cancel()
			l.mu.Lock()
			delete(l.open, f.RequestID)
			l.mu.Unlock()
		}()
		l.answer(ctx, f, r)
	})
}

func (l *logServer) answer(ctx context.Context, f *protocol.FetchLog, r *logRequest) {
	log, err := l.s.worker.Log(f.RunID)
	if err != nil {
		l.refuse(f, &protocol.Problem{Code: protocol.LogNotFound, Text: err.Error()})
		return
	}
	if f.Index {
		err = l.marks(ctx, f, log)
	} else {
		err = l.bytes(ctx, f, r, log)
	}
	if err != nil && ctx.Err() == nil {
		l.refuse(f, &protocol.Problem{Code: protocol.LogUnreadable, Text: err.Error()})
	}
}

// refuse ends a request with a problem. Nobody waits for the answer of a
// connection that is that full.
func (l *logServer) refuse(f *protocol.FetchLog, p *protocol.Problem) {
	_ = l.s.out.urge(&protocol.LogChunk{RequestID: f.RequestID, Offset: max(0, f.Offset), Final: true, Problem: p})
}

func (l *logServer) credit(c *protocol.Credit) {
	l.mu.Lock()
	r := l.open[c.RequestID]
	l.mu.Unlock()
	if r == nil {
		return
	}
	r.mu.Lock()
	r.credit += c.Bytes
	r.mu.Unlock()
	select {
	case r.more <- struct{}{}:
	default:
	}
}

func (l *logServer) cancel(requestID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.open[requestID]; r != nil {
		r.cancel()
	}
}

// room waits until some bytes may be sent, and says how many, up to want.
func (r *logRequest) room(ctx context.Context, want int64) (int64, error) {
	for {
		r.mu.Lock()
		n := min(want, r.credit)
		r.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-r.more:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (r *logRequest) spend(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.credit -= n
}

// bytes sends the output from the wanted offset on, as credit comes in.
func (l *logServer) bytes(ctx context.Context, f *protocol.FetchLog, r *logRequest, log Log) error {
	reader := log.Reader()
	size, err := reader.Size()
	if err != nil {
		return err
	}
	off := f.Offset
	if off < 0 {
		off = max(0, size+off)
	}
	left := f.Limit
	buf := make([]byte, protocol.LogChunkBytes)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		// What was written before these two are known is read after it.
		changed, ended := log.Changed(), log.Ended()
		if size, err = reader.Size(); err != nil {
			return err
		}
		chunk := &protocol.LogChunk{RequestID: f.RequestID, Offset: off, Size: size, Ended: ended}
		if off < size {
			want := int64(len(buf))
			if f.Limit > 0 {
				want = min(want, left)
			}
			if want, err = r.room(ctx, want); err != nil {
				return err
			}
			n, at, err := reader.ReadAt(buf[:want], off)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			r.spend(int64(n))
			off, left = at+int64(n), left-int64(n)
			chunk.Offset, chunk.Data = at, append([]byte(nil), buf[:n]...)
			chunk.Ended = ended && off >= size
			chunk.Final = f.Limit > 0 && left <= 0
			if n > 0 {
				if err := l.s.out.bring(ctx, bulk{frame: chunk}); err != nil || chunk.Final {
					return err
				}
				continue
			}
			chunk.Offset, off = size, size // the rest is cut away
		}
		if ended || !f.Follow {
			chunk.Ended, chunk.Final = ended, true
			return l.s.out.bring(ctx, bulk{frame: chunk})
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// marks sends the time index.
func (l *logServer) marks(ctx context.Context, f *protocol.FetchLog, log Log) error {
	reader, ended := log.Reader(), log.Ended()
	size, err := reader.Size()
	if err != nil {
		return err
	}
	from := max(0, f.Offset)
	first := true
	for {
		marks, err := reader.Marks(from, size, marksAtOnce)
		if err != nil {
			return err
		}
		if !first && len(marks) > 0 {
			marks = marks[1:] // it is the last one of the chunk before
		}
		first = false
		chunk := &protocol.LogChunk{RequestID: f.RequestID, Offset: from, Size: size, Ended: ended, Final: len(marks) == 0}
		for _, m := range marks {
			chunk.Marks = append(chunk.Marks, protocol.LogMark{Offset: m.Offset, UnixMS: m.At.UnixMilli()})
			from = max(from, m.Offset)
		}
		if err := l.s.out.bring(ctx, bulk{frame: chunk}); err != nil || chunk.Final {
			return err
		}
	}
}
