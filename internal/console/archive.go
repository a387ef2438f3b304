package console

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

// ErrBadArchive is the cause of every refusal of an archive.
var ErrBadArchive = errors.New("bad archive of console output")

const (
	// headShare is the part of an archive's bytes that the beginning gets when
	// not all fits.
	headShare = 4
	// maxIndexBytes and maxPieces bound what is taken in beside the output.
	maxIndexBytes = 64 << 20
	maxPieces     = 4096
)

// Export writes what a run printed as a tar of console files, at most max bytes
// of output: of more, the beginning and the newest bytes. The run has ended.
func Export(w io.Writer, r *Reader, max int64) error {
	ranges, err := r.kept()
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, g := range within(ranges, max) {
		name := headName
		if g.From > 0 {
			name = partName(g.From)
		}
		if err := out.WriteHeader(&tar.Header{Name: name, Size: g.To - g.From, Mode: 0o600}); err != nil {
			return fmt.Errorf("export console: %w", err)
		}
		if err := r.copyRange(out, g); err != nil {
			return fmt.Errorf("export console: %w", err)
		}
	}
	if err := r.exportIndex(out); err != nil {
		return fmt.Errorf("export console: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("export console: %w", err)
	}
	return nil
}

// kept lists the ranges that are kept, in order and without overlaps.
func (r *Reader) kept() ([]Range, error) {
	list, err := r.pieces()
	if err != nil {
		return nil, err
	}
	var out []Range
	end := int64(0)
	for _, p := range list {
		if from := max(p.start, end); from < p.end() {
			out, end = append(out, Range{From: from, To: p.end()}), p.end()
		}
	}
	return out, nil
}

// within gives the first and the newest of the ranges' bytes, max in all.
func within(ranges []Range, max int64) []Range {
	total := int64(0)
	for _, g := range ranges {
		total += g.To - g.From
	}
	if total <= max {
		return ranges
	}
	head := max / headShare
	// Bytes from skipFrom to skipTo, counted among the kept ones, are left out.
	skipFrom, skipTo := head, total-(max-head)
	var out []Range
	at := int64(0)
	for _, g := range ranges {
		n := g.To - g.From
		if first := min(n, skipFrom-at); first > 0 {
			out = append(out, Range{From: g.From, To: g.From + first})
		}
		if skip := skipTo - at; skip < n {
			if skip < 0 {
				skip = 0
			}
			out = append(out, Range{From: g.From + skip, To: g.To})
		}
		at += n
	}
	return out
}

func (r *Reader) copyRange(w io.Writer, g Range) error {
	buf := make([]byte, 256<<10)
	for off := g.From; off < g.To; {
		n, at, err := r.ReadAt(buf[:min(int64(len(buf)), g.To-off)], off)
		if err != nil {
			return err
		}
		if at != off {
			return fmt.Errorf("bytes from %d on went while they were read", off)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

func (r *Reader) exportIndex(out *tar.Writer) error {
	x, err := r.index()
	if err != nil || x.f == nil {
		return err
	}
	defer x.close()
	size := min(int64(len(indexHeader)+x.n*markBytes), maxIndexBytes)
	if err := out.WriteHeader(&tar.Header{Name: indexName, Size: size, Mode: 0o600}); err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(x.f, 0, size))
	return err
}

// Import puts the console files of an archive into dir, which exists. Archives
// come from other machines: only names of console files are taken, and at most
// max bytes of output. Nothing appears in dir before the whole archive is read.
func Import(ctx context.Context, dir string, r io.Reader, max int64) (err error) {
	tmp, err := os.MkdirTemp(dir, ".console-")
	if err != nil {
		return fmt.Errorf("import console: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	names, err := importTo(ctx, tmp, tar.NewReader(r), max)
	if err != nil {
		return fmt.Errorf("import console: %w", err)
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("import console: %w", err)
		}
	}
	return nil
}

func importTo(ctx context.Context, dir string, in *tar.Reader, max int64) ([]string, error) {
	var names []string
	room, indexRoom := max, int64(maxIndexBytes)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, badArchive(ctx, err)
		}
		left := &room
		start, isPiece := pieceStart(h.Name)
		if h.Name == indexName {
			left, isPiece = &indexRoom, true
		}
		switch {
		case !isPiece || h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("%w: it holds %.80q", ErrBadArchive, h.Name)
		case h.Size > *left || start > math.MaxInt64-h.Size:
			return nil, fmt.Errorf("%w: %s has %d bytes, %d may come", ErrBadArchive, h.Name, h.Size, *left)
		case len(names) == maxPieces:
			return nil, fmt.Errorf("%w: it has more than %d files", ErrBadArchive, maxPieces)
		}
		*left -= h.Size
		if err := importFile(ctx, filepath.Join(dir, h.Name), in); err != nil {
			return nil, err
		}
		names = append(names, h.Name)
	}
}

func importFile(ctx context.Context, path string, in *tar.Reader) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: it holds %s twice", ErrBadArchive, filepath.Base(path))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, 256<<10)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := in.Read(buf)
		if _, werr := f.Write(buf[:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return f.Sync()
		}
		if err != nil {
			return badArchive(ctx, err)
		}
	}
}

// badArchive says that an archive can't be read, unless the reason is its
// reader's context.
func badArchive(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrBadArchive, err)
}
