package console

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Options sizes the files of one run; a zero field takes its default.
type Options struct {
	// HeadBytes is how much of the beginning is always kept, CapBytes how much
	// is kept in all, PartBytes the size of one file after the head.
	HeadBytes int64
	CapBytes  int64
	PartBytes int64
}

func (o Options) withDefaults() Options {
	if o.HeadBytes <= 0 {
		o.HeadBytes = 16 << 20
	}
	if o.CapBytes <= 0 {
		o.CapBytes = 256 << 20
	}
	if o.PartBytes <= 0 {
		o.PartBytes = 16 << 20
	}
	o.PartBytes = max(1, min(o.PartBytes, (o.CapBytes-o.HeadBytes)/2))
	return o
}

const (
	markEvery      = 100 * time.Millisecond
	markEveryBytes = 64 << 10
	// After sparseAfter marks only one a second is taken, so that a run of
	// weeks has an index of megabytes.
	sparseAfter = 200_000
	// retryEvery is how often a disk that was full is tried again.
	retryEvery = 250 * time.Millisecond
)

// Writer stores the output of one run. It is not safe for concurrent use.
type Writer struct {
	dir string
	opt Options
	// off is the logical offset of the next byte.
	off int64
	// cur is open in f; f is nil after a failure and before a part's first
	// byte. parts are the whole parts before it, oldest first.
	f     *os.File
	cur   piece
	parts []piece
	kept  int64
	lost  int64

	idx      *os.File
	marks    int
	lastMark Mark
	retryAt  time.Time
}

// Create starts the console of a run in dir. Its files are made with the first
// bytes: most commands print nothing.
func Create(dir string, opt Options) *Writer {
	w := &Writer{dir: dir, opt: opt.withDefaults()}
	return w
}

// Size is how many bytes the run has written.
func (w *Writer) Size() int64 { return w.off }

// Lost counts the bytes that could not be stored. Those that the cap removed
// are not among them.
func (w *Writer) Lost() int64 { return w.lost }

// Write stores p, which came at the given time. What can't be stored is
// counted as lost; there is nothing that the caller could do about it.
func (w *Writer) Write(p []byte, at time.Time) {
	w.mark(len(p), at)
	for len(p) > 0 {
		if !w.ensure(at) {
			w.lost += int64(len(p))
			w.off += int64(len(p))
			return
		}
		room := w.opt.PartBytes - w.cur.size
		if w.cur.start == 0 {
			room = w.opt.HeadBytes - w.cur.size
		}
		n, err := w.f.Write(p[:min(int64(len(p)), room)])
		w.cur.size += int64(n)
		w.off += int64(n)
		p = p[n:]
		if w.cur.start > 0 {
			w.kept += int64(n)
		}
		if err != nil {
			w.fail(at)
		}
	}
}

// ensure makes f a file with room whose end is w.off.
func (w *Writer) ensure(at time.Time) bool {
	if w.f != nil {
		limit := w.opt.PartBytes
		if w.cur.start == 0 {
			limit = w.opt.HeadBytes
		}
		if w.cur.size < limit {
			return true
		}
		w.finishPiece()
	} else if at.Before(w.retryAt) {
		return false
	}
	w.makeRoom()
	next := piece{path: filepath.Join(w.dir, partName(w.off)), start: w.off}
	if w.off == 0 {
		next.path = filepath.Join(w.dir, headName)
	}
	f, err := os.OpenFile(next.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		w.retryAt = at.Add(retryEvery)
		return false
	}
	w.f, w.cur = f, next
	return true
}

func (w *Writer) finishPiece() {
	w.f.Close()
	w.f = nil
	if w.cur.start > 0 {
		w.parts = append(w.parts, w.cur)
	}
}

// fail gives the current file up, so that the bytes that are lost from here on
// show as a gap before the next one.
func (w *Writer) fail(at time.Time) {
	w.retryAt = at.Add(retryEvery)
	if w.cur.size == 0 && w.cur.start > 0 {
		w.f.Close()
		w.f = nil
		os.Remove(w.cur.path)
		return
	}
	w.finishPiece()
}

// makeRoom removes the oldest parts until another one fits below the cap.
func (w *Writer) makeRoom() {
	for len(w.parts) > 0 && w.kept+w.opt.PartBytes > w.opt.CapBytes-w.opt.HeadBytes {
		os.Remove(w.parts[0].path)
		w.kept -= w.parts[0].size
		w.parts = w.parts[1:]
	}
}

// mark notes the time of the n bytes that come next, where the index is due
// for it.
func (w *Writer) mark(n int, at time.Time) {
	if at.Before(w.lastMark.At) {
		at = w.lastMark.At // a clock that was set back
	}
	every := markEvery
	if w.marks > sparseAfter {
		every = time.Second
	}
	due := w.marks == 0 || at.Sub(w.lastMark.At) >= every ||
		w.marks <= sparseAfter && w.off-w.lastMark.Offset >= markEveryBytes
	if n == 0 || !due {
		return
	}
	m := Mark{Offset: w.off, At: at}
	if w.marks == 0 {
		f, err := os.OpenFile(filepath.Join(w.dir, indexName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return
		}
		w.idx = f
	}
	// Each mark is written at its own place, so one that failed is written over.
	b := encodeMark(m)
	pos := int64(len(indexHeader) + w.marks*markBytes)
	if w.marks == 0 {
		b, pos = append([]byte(indexHeader), b...), 0
	}
	if _, err := w.idx.WriteAt(b, pos); err != nil {
		if w.marks == 0 {
			w.idx.Close()
			w.idx = nil
		}
		return
	}
	w.marks++
	w.lastMark = m
}

// Close closes the files.
func (w *Writer) Close() error {
	var err error
	if w.f != nil {
		err = w.f.Close()
		w.f = nil
	}
	if w.idx != nil {
		w.idx.Close()
		w.idx = nil
	}
	if err != nil {
		return fmt.Errorf("close console: %w", err)
	}
	return nil
}
