package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"cdui/internal/api"
	"cdui/internal/console"
)

// Console is where a run's output lies.
type Console interface {
	Size() (int64, error)
	ReadAt(p []byte, off int64) (n int, at int64, err error)
	Marks(from, to int64, max int) ([]console.Mark, error)
}

// awaiter is a Console that tells by itself when there is more.
type awaiter interface {
	Await(offset int64, wait time.Duration) error
}

const (
	logChunk = 1 << 20
	logPoll  = 100 * time.Millisecond
	// logAwait is how long another machine is asked to wait at a time.
	logAwait = 5 * time.Second
	logMarks = 4096
)

// runLog answers with console bytes from an offset. Where the cap has cut the
// output, the answer stops before the hole, and the next one starts behind it.
func (s *Server) runLog(w http.ResponseWriter, r *http.Request) error {
	id, err := s.find(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	offset := int64(0)
	if text := q.Get("offset"); text != "" {
		if offset, err = strconv.ParseInt(text, 10, 64); err != nil || offset < 0 {
			return api.Errorf(api.Invalid, "offset must be a whole number of 0 or more, not %q", text)
		}
	}
	limit, err := whole(q, "limit", 0, 1, 1<<31-1)
	if err != nil {
		return err
	}
	wait, err := seconds(q, "wait", waitMost)
	if err != nil {
		return err
	}
	end, ended, err := s.awaitLog(r, id, offset, wait)
	if err != nil {
		return err
	}
	reader := s.cfg.Host.Console(r.Context(), id)
	buf := make([]byte, logChunk)
	n, at, err := reader.ReadAt(buf[:chunkSize(limit, 0)], offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set(api.HeaderLogSize, strconv.FormatInt(end, 10))
	h.Set(api.HeaderLogEnded, strconv.FormatBool(ended))
	h.Set(api.HeaderLogOffset, strconv.FormatInt(at, 10))
	h.Set(api.HeaderLogCut, strconv.FormatInt(at-offset, 10))
	if limit > 0 {
		h.Set(api.HeaderLogNext, strconv.FormatInt(at+int64(n), 10))
		_, err = w.Write(buf[:n])
		return gone(err)
	}
	// Without a limit the whole log follows, up to where it ended when asked;
	// a hole ends the answer, so that bytes stay where their offset says.
	for next := at; n > 0; {
		if _, err := w.Write(buf[:n]); err != nil {
			return gone(err)
		}
		next += int64(n)
		if next >= end {
			return nil
		}
		n, at, err = reader.ReadAt(buf[:min(logChunk, end-next)], next)
		if err != nil || at != next {
			return nil
		}
	}
	return nil
}

func chunkSize(limit int, done int64) int64 {
	if limit <= 0 {
		return logChunk
	}
	return min(logChunk, int64(limit)-done)
}

// gone swallows the error of a write: the status is out and the caller is not
// there any more.
func gone(error) error { return nil }

// awaitLog waits until there is output beyond offset, the run has ended or
// wait is over. It gives the log's size and whether it will grow.
func (s *Server) awaitLog(r *http.Request, id string, offset int64, wait time.Duration) (int64, bool, error) {
	until := time.Now().Add(wait)
	console := s.cfg.Host.Console(r.Context(), id)
	for {
		ended, err := s.ended(r, id)
		if err != nil {
			return 0, false, err
		}
		size, err := console.Size()
		if err != nil {
			return 0, false, err
		}
		left := time.Until(until)
		if size > offset || ended || left <= 0 {
			return size, ended, nil
		}
		select {
		case <-s.done:
			return size, ended, nil
		default:
		}
		if err := s.pauseLog(r, console, offset, left); err != nil {
			return 0, false, err
		}
	}
}

// pauseLog waits for a while, or until there is output beyond offset.
func (s *Server) pauseLog(r *http.Request, c Console, offset int64, left time.Duration) error {
	if a, ok := c.(awaiter); ok {
		if err := a.Await(offset, min(left, logAwait)); err != nil {
			return err
		}
	}
	timer := time.NewTimer(min(left, logPoll))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.done:
	case <-r.Context().Done():
		return r.Context().Err()
	}
	return nil
}

func (s *Server) runLogIndex(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	reader := s.cfg.Host.Console(r.Context(), id)
	size, err := reader.Size()
	if err != nil {
		return nil, err
	}
	marks, err := reader.Marks(0, size, logMarks)
	if err != nil {
		return nil, err
	}
	out := api.LogIndex{RunID: id, Size: size, Marks: make([]api.LogMark, len(marks))}
	for i, m := range marks {
		out.Marks[i] = api.LogMark{Offset: m.Offset, TS: m.At.UTC()}
	}
	return out, nil
}
