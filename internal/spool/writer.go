package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Options sizes a spool; a zero field takes its default.
type Options struct {
	// SegmentBytes is where a segment ends and the next one begins.
	SegmentBytes int64
	// CapBytes bounds all segments together; ReserveBytes of it are kept for
	// end records.
	CapBytes     int64
	ReserveBytes int64
}

func (o Options) withDefaults() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 1 << 20
	}
	if o.CapBytes <= 0 {
		o.CapBytes = 512 << 20
	}
	if o.ReserveBytes <= 0 {
		o.ReserveBytes = 1 << 20
	}
	return o
}

type segment struct {
	first uint64
	size  int64
}

// Writer appends records to a spool. It is not safe for concurrent use.
type Writer struct {
	dir  string
	opt  Options
	next uint64
	// done lists the segments before the current one; cur is open in f, which
	// is nil until the first record after a start.
	done  []segment
	cur   segment
	f     *os.File
	total int64
	line  []byte
}

// OpenWriter opens the spool in dir, which it makes when it is missing, and
// cuts a torn tail. The next record follows the last whole one.
func OpenWriter(dir string, opt Options) (*Writer, error) {
	w := &Writer{dir: dir, opt: opt.withDefaults(), next: 1}
	if err := os.Mkdir(dir, 0o700); err == nil {
		return w, nil
	} else if !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make spool %s: %w", dir, err)
	}
	firsts, err := listSegments(dir)
	if err != nil {
		return nil, err
	}
	for i, first := range firsts {
		path := filepath.Join(dir, segmentName(first))
		if i < len(firsts)-1 {
			st, err := os.Stat(path)
			if err != nil {
				return nil, fmt.Errorf("open spool: %w", err)
			}
			w.done = append(w.done, segment{first: first, size: st.Size()})
			w.total += st.Size()
			continue
		}
		if err := w.reopenLast(path, first); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *Writer) reopenLast(path string, first uint64) error {
	r := NewReader(w.dir, first-1)
	defer r.Close()
	w.next = first
	good := int64(0)
	for {
		recs, err := r.Next(1, 1)
		if err != nil {
			return fmt.Errorf("open spool: %w", err)
		}
		if len(recs) == 0 {
			break
		}
		w.next, good = recs[len(recs)-1].Seq+1, r.off
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open spool: %w", err)
	}
	if good == 0 {
		// No whole record: the segment is made anew with the next one.
		f.Close()
		if err := removeSegment(w.dir, first); err != nil {
			return fmt.Errorf("cut spool: %w", err)
		}
		return nil
	}
	if err := f.Truncate(good); err != nil {
		f.Close()
		return fmt.Errorf("cut spool: %w", err)
	}
	w.f, w.cur = f, segment{first: first, size: good}
	w.total += good
	return nil
}

// Next is the number that the next record bears.
func (w *Writer) Next() uint64 { return w.next }

// Append writes rec as record seq, which must be Next(). An end record may use
// the bytes that are reserved below the cap. After an error, ErrFull among
// them, the spool is as it was and seq is still free.
func (w *Writer) Append(rec []byte, seq uint64, end bool) error {
	if seq != w.next {
		return fmt.Errorf("append record %d: the next one is %d", seq, w.next)
	}
	if len(rec) > MaxRecordBytes || bytes.IndexByte(rec, '\n') >= 0 {
		return fmt.Errorf("append record %d: %d bytes, or a line break in it", seq, len(rec))
	}
	limit := w.opt.CapBytes
	if !end {
		limit -= w.opt.ReserveBytes
	}
	size := int64(len(rec) + sumLen + 2)
	if w.total+size > limit {
		return fmt.Errorf("append record %d: %w: its cap of %d bytes is reached", seq, ErrFull, w.opt.CapBytes)
	}
	fresh := w.f == nil || w.cur.size+size > w.opt.SegmentBytes
	if fresh {
		return w.appendFresh(rec, seq)
	}
	w.line = appendLine(w.line[:0], rec)
	if err := writeAt(w.f, w.line, w.cur.size); err != nil {
		return fmt.Errorf("append record %d: %w", seq, err)
	}
	w.advance()
	return nil
}

// appendFresh writes rec as the first record of a new segment.
func (w *Writer) appendFresh(rec []byte, seq uint64) error {
	path := filepath.Join(w.dir, segmentName(seq))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("append record %d: %w", seq, diskError(err))
	}
	w.line = appendLine(append(w.line[:0], header...), rec)
	if err := writeAt(f, w.line, 0); err != nil {
		f.Close()
		return errors.Join(fmt.Errorf("append record %d: %w", seq, err), removeSegment(w.dir, seq))
	}
	if w.f != nil {
		w.f.Close()
		w.done = append(w.done, w.cur)
	}
	w.f, w.cur = f, segment{first: seq}
	w.advance()
	return nil
}

func (w *Writer) advance() {
	w.cur.size += int64(len(w.line))
	w.total += int64(len(w.line))
	w.next++
	if cap(w.line) > 1<<20 {
		w.line = nil
	}
}

// writeAt writes b at off and cuts what a failed write left.
func writeAt(f *os.File, b []byte, off int64) error {
	if _, err := f.WriteAt(b, off); err != nil {
		// Should the cut fail too, the next write goes over the same place.
		return errors.Join(diskError(err), f.Truncate(off))
	}
	return nil
}

func diskError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// DeleteThrough removes the segments whose records all have numbers up to seq.
// The segment that is being written stays.
func (w *Writer) DeleteThrough(seq uint64) error {
	for len(w.done) > 0 {
		after := w.cur.first
		if len(w.done) > 1 {
			after = w.done[1].first
		}
		if after > seq+1 {
			return nil
		}
		if err := removeSegment(w.dir, w.done[0].first); err != nil {
			return fmt.Errorf("delete acknowledged records: %w", err)
		}
		w.total -= w.done[0].size
		w.done = w.done[1:]
	}
	return nil
}

// Bytes is how much the spool holds on disk.
func (w *Writer) Bytes() int64 { return w.total }

// Fill tells how full the spool is for ordinary records, from 0 to 1.
func (w *Writer) Fill() float64 {
	return float64(w.total) / float64(max(1, w.opt.CapBytes-w.opt.ReserveBytes))
}

// Sync makes the newest segment durable.
func (w *Writer) Sync() error {
	if w.f == nil {
		return nil
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("sync spool: %w", err)
	}
	return nil
}

// Close closes the current segment.
func (w *Writer) Close() error {
	if w.f == nil {
		return nil
	}
	return w.f.Close()
}
