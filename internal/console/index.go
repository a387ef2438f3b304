package console

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"
)

// Mark says that the byte at Offset, and those up to the next mark, came at At.
type Mark struct {
	Offset int64
	At     time.Time
}

// The index is a header and marks of fixed size, so that it can be searched in
// place: offset and Unix milliseconds, both little endian.
const (
	indexHeader = "cdui-console 1\n\x00"
	markBytes   = 16
)

func encodeMark(m Mark) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, markBytes), uint64(m.Offset))
	return binary.LittleEndian.AppendUint64(b, uint64(m.At.UnixMilli()))
}

func decodeMark(b []byte) Mark {
	return Mark{
		Offset: int64(binary.LittleEndian.Uint64(b)),
		At:     time.UnixMilli(int64(binary.LittleEndian.Uint64(b[8:]))).UTC(),
	}
}

// index is an open output.idx with n whole marks.
type index struct {
	f *os.File
	n int
}

// openIndex opens dir's index; without a usable one it has no marks.
func openIndex(dir string) (index, error) {
	f, err := os.Open(filepath.Join(dir, indexName))
	if errors.Is(err, fs.ErrNotExist) {
		return index{}, nil
	}
	if err != nil {
		return index{}, fmt.Errorf("open console index: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return index{}, fmt.Errorf("open console index: %w", err)
	}
	head := make([]byte, len(indexHeader))
	if n, _ := f.ReadAt(head, 0); string(head[:n]) != indexHeader {
		f.Close()
		return index{}, nil
	}
	return index{f: f, n: int((st.Size() - int64(len(indexHeader))) / markBytes)}, nil
}

func (x index) close() {
	if x.f != nil {
		x.f.Close()
	}
}

func (x index) at(i int) (Mark, error) {
	var b [markBytes]byte
	if _, err := x.f.ReadAt(b[:], int64(len(indexHeader)+i*markBytes)); err != nil {
		return Mark{}, fmt.Errorf("read console index: %w", err)
	}
	return decodeMark(b[:]), nil
}

// search gives the number of the first mark for which past is true.
func (x index) search(past func(Mark) bool) (int, error) {
	var failed error
	i := sort.Search(x.n, func(i int) bool {
		m, err := x.at(i)
		if err != nil {
			failed = err
			return true
		}
		return past(m)
	})
	return i, failed
}

// Marks gives the marks that say when the bytes from..to came, at most max of
// them: the last one at or before from, and those up to to.
func (r *Reader) Marks(from, to int64, max int) ([]Mark, error) {
	x, err := r.index()
	if err != nil {
		return nil, err
	}
	defer x.close()
	first, err := x.search(func(m Mark) bool { return m.Offset > from })
	if err != nil {
		return nil, err
	}
	if first > 0 {
		first--
	}
	n := min(x.n-first, max)
	if n <= 0 {
		return nil, nil
	}
	b := make([]byte, n*markBytes)
	got, err := x.f.ReadAt(b, int64(len(indexHeader)+first*markBytes))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read console index: %w", err)
	}
	var marks []Mark
	for ; got >= markBytes; got, b = got-markBytes, b[markBytes:] {
		m := decodeMark(b)
		if m.Offset > to {
			break
		}
		marks = append(marks, m)
	}
	return marks, nil
}

// OffsetAt gives the offset of the first byte that is known to have come at t
// or later, or the size when there is none.
func (r *Reader) OffsetAt(t time.Time) (int64, error) {
	x, err := r.index()
	if err != nil {
		return 0, err
	}
	defer x.close()
	i, err := x.search(func(m Mark) bool { return !m.At.Before(t) })
	if err != nil {
		return 0, err
	}
	if i == x.n {
		return r.Size()
	}
	m, err := x.at(i)
	return m.Offset, err
}
