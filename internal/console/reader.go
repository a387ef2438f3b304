package console

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Range is a range of logical offsets, To not included.
type Range struct{ From, To int64 }

// Reader reads the console of one run. It holds no file open and may be used
// by several goroutines, also while the run writes.
type Reader struct{ dirs []string }

// NewReader reads the console files in dirs; a folder that isn't there holds
// none. Name the folder that files are moved from before the one that they are
// moved to: then a reader sees the whole output at any moment of the Move.
func NewReader(dirs ...string) *Reader { return &Reader{dirs: dirs} }

// pieces lists the files of all folders in order of their offsets.
func (r *Reader) pieces() ([]piece, error) {
	var all []piece
	for _, dir := range r.dirs {
		list, err := pieces(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(all, list...)
	}
	sortPieces(all)
	return all, nil
}

// index opens the index in whichever folder holds it.
func (r *Reader) index() (index, error) {
	for _, dir := range r.dirs {
		x, err := openIndex(dir)
		if err != nil || x.f != nil {
			return x, err
		}
	}
	return index{}, nil
}

// Size is how many bytes the run is known to have written.
func (r *Reader) Size() (int64, error) {
	list, err := r.pieces()
	if err != nil {
		return 0, err
	}
	size := int64(0)
	for _, p := range list {
		size = max(size, p.end())
	}
	return size, nil
}

// Cuts lists the ranges that are not kept, because of the cap or of a full
// disk, in order.
func (r *Reader) Cuts() ([]Range, error) {
	list, err := r.pieces()
	if err != nil {
		return nil, err
	}
	var cuts []Range
	end := int64(0)
	for _, p := range list {
		if p.start > end && p.size > 0 {
			cuts = append(cuts, Range{From: end, To: p.start})
		}
		end = max(end, p.end())
	}
	return cuts, nil
}

// ReadAt reads the bytes that are kept from off on. at is the offset of the
// first one that it gives: more than off when those before it are cut. It
// gives fewer than len(p) bytes at the end of a file, and io.EOF with none
// when the run has not written beyond off.
func (r *Reader) ReadAt(p []byte, off int64) (n int, at int64, err error) {
	for range 8 {
		n, at, err = r.readOnce(p, off)
		if !errors.Is(err, fs.ErrNotExist) {
			return n, at, err
		}
		// The cap removed the file since the listing: look again.
	}
	return 0, off, err
}

func (r *Reader) readOnce(p []byte, off int64) (n int, at int64, err error) {
	list, err := r.pieces()
	if err != nil {
		return 0, off, err
	}
	for _, piece := range list {
		if piece.end() <= off || piece.size == 0 {
			continue
		}
		at = max(off, piece.start)
		f, err := os.Open(piece.path)
		if err != nil {
			return 0, off, fmt.Errorf("read console: %w", err)
		}
		defer f.Close()
		want := min(int64(len(p)), piece.end()-at)
		n, err := f.ReadAt(p[:want], at-piece.start)
		if err != nil && !(errors.Is(err, io.EOF) && n > 0) {
			return 0, off, fmt.Errorf("read console: %w", err)
		}
		return n, at, nil
	}
	return 0, off, io.EOF
}

// Tail gives the last n bytes that are kept without a gap between them, fewer
// when there are fewer, and the offset of the first.
func (r *Reader) Tail(n int) ([]byte, int64, error) {
	size, err := r.Size()
	if err != nil {
		return nil, 0, err
	}
	off := max(0, size-int64(n))
	first := off
	var out []byte
	buf := make([]byte, min(n, 1<<20))
	for off < size {
		got, at, err := r.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		if at > off {
			out, first = out[:0], at
		}
		out = append(out, buf[:got]...)
		off = at + int64(got)
	}
	return out, first, nil
}
