package spool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Record is one record as it was appended.
type Record struct {
	Seq  uint64
	Data []byte
}

// Reader follows a spool. It tolerates what happens to one that is in use:
// segments that vanish because they were acknowledged, a last line that is not
// whole yet, a last line that is cut off and written again. It is not safe for
// concurrent use.
type Reader struct {
	dir string
	// seq is the number of the record that Next looks for.
	seq uint64
	// The open segment: line is the number of the record at off.
	f       *os.File
	br      *bufio.Reader
	first   uint64
	line    uint64
	off     int64
	damaged int64
}

// NewReader reads the records of dir's spool after number after.
func NewReader(dir string, after uint64) *Reader {
	return &Reader{dir: dir, seq: after + 1}
}

// Seq is the number of the record that Next will look for.
func (r *Reader) Seq() uint64 { return r.seq }

// Damaged counts the lines that were whole but wrong, and skipped.
func (r *Reader) Damaged() int64 { return r.damaged }

// Next gives the records that follow, at most maxRecords and about maxBytes of
// them, but at least one where there is one. None and no error means that
// there is nothing more for now.
func (r *Reader) Next(maxRecords, maxBytes int) ([]Record, error) {
	var out []Record
	size := 0
	for len(out) < maxRecords && (size < maxBytes || len(out) == 0) {
		rec, ok, err := r.one()
		if err != nil {
			return out, err
		}
		if !ok {
			break
		}
		out = append(out, rec)
		size += len(rec.Data)
	}
	return out, nil
}

// one gives the next good record that is not before r.seq.
func (r *Reader) one() (Record, bool, error) {
	for {
		if r.f == nil {
			if ok, err := r.open(0); err != nil || !ok {
				return Record{}, false, err
			}
		}
		line, whole, err := r.readLine()
		if err != nil {
			return Record{}, false, err
		}
		if !whole {
			if ok, err := r.advance(); err != nil || !ok {
				return Record{}, false, err
			}
			continue
		}
		seq := r.line
		r.line++
		rec, good := parseLine(line)
		switch {
		case !good:
			r.damaged++
		case seq >= r.seq:
			r.seq = seq + 1
			return Record{Seq: seq, Data: bytes.Clone(rec)}, true, nil
		}
	}
}

// advance goes to the segment after the open one. A segment that has a
// successor is complete, so what was appended between the last read and the
// look at the folder is read first.
func (r *Reader) advance() (bool, error) {
	next, err := r.successor()
	if err != nil || next == 0 {
		return false, err
	}
	r.rewind()
	if whole, err := r.peekLine(); err != nil || whole {
		return whole, err
	}
	r.Close()
	return r.open(next)
}

func (r *Reader) successor() (uint64, error) {
	firsts, err := listSegments(r.dir)
	if err != nil {
		return 0, err
	}
	for _, first := range firsts {
		if first > r.first {
			return first, nil
		}
	}
	return 0, nil
}

// open opens the segment that starts at first, or for 0 the one that holds
// r.seq, or else the oldest one after it.
func (r *Reader) open(first uint64) (bool, error) {
	for range 16 {
		pick := first
		if pick == 0 {
			firsts, err := listSegments(r.dir)
			if errors.Is(err, fs.ErrNotExist) || err == nil && len(firsts) == 0 {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			pick = firsts[0]
			for _, f := range firsts {
				if f <= r.seq {
					pick = f
				}
			}
		}
		f, err := os.Open(filepath.Join(r.dir, segmentName(pick)))
		if errors.Is(err, fs.ErrNotExist) {
			// Acknowledged and deleted since the listing.
			first = 0
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read spool: %w", err)
		}
		r.f, r.first, r.line, r.off = f, pick, pick, 0
		r.br = bufio.NewReaderSize(f, 64<<10)
		return true, nil
	}
	return false, nil
}

// readLine consumes the next record line, past the version line. It is not
// whole at the end of what is written.
func (r *Reader) readLine() (line []byte, whole bool, err error) {
	if r.off == 0 {
		head, whole, err := r.rawLine()
		if err != nil || !whole {
			return nil, false, err
		}
		if string(head)+"\n" != header {
			if version, ok := strings.CutPrefix(string(head), headerPrefix); ok {
				return nil, false, fmt.Errorf("read segment %s: %w %q, this release reads %d",
					segmentName(r.first), ErrVersion, version, Version)
			}
			r.damaged++
		}
	}
	return r.rawLine()
}

// peekLine tells whether readLine would give a line, and consumes none.
func (r *Reader) peekLine() (bool, error) {
	off, damaged := r.off, r.damaged
	_, whole, err := r.readLine()
	if whole {
		r.off = off
		r.rewind()
	}
	r.damaged = damaged
	return whole, err
}

// rawLine consumes a line. Of one that is too long only the beginning is
// given; parseLine refuses it. An unfinished line is not consumed.
func (r *Reader) rawLine() ([]byte, bool, error) {
	var long []byte
	n := int64(0)
	for {
		part, err := r.br.ReadSlice('\n')
		n += int64(len(part))
		if err == nil && long == nil {
			r.off += n
			return part[:len(part)-1], true, nil
		}
		if room := MaxRecordBytes + sumLen + 2 - len(long); room > 0 {
			long = append(long, part[:min(room, len(part))]...)
		}
		switch {
		case err == nil:
			r.off += n
			if n > int64(len(long)) {
				return long[:sumLen], true, nil
			}
			return long[:len(long)-1], true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			r.rewind()
			return nil, false, nil
		default:
			return nil, false, fmt.Errorf("read segment %s: %w", segmentName(r.first), err)
		}
	}
}

// rewind makes the next read start at off again, since an unfinished line may
// be cut off and written anew.
func (r *Reader) rewind() {
	if _, err := r.f.Seek(r.off, io.SeekStart); err == nil {
		r.br.Reset(r.f)
	}
}

// Close closes the open segment; the reader may be used again.
func (r *Reader) Close() error {
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f, r.br = nil, nil
	return f.Close()
}
