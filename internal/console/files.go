package console

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cdui/internal/sorting"
)

// Version is the version of the files' format.
const Version = 1

const (
	headName   = "output.log"
	indexName  = "output.idx"
	partPrefix = "output."
	partSuffix = ".part"
)

// piece is one file and the range of logical offsets that it holds.
type piece struct {
	path  string
	start int64
	size  int64
}

func (p piece) end() int64 { return p.start + p.size }

func partName(start int64) string { return fmt.Sprintf("%s%020d%s", partPrefix, start, partSuffix) }

// pieceStart reads the offset that a file's name stands for; false for one that
// holds no output.
func pieceStart(name string) (int64, bool) {
	if name == headName {
		return 0, true
	}
	digits, ok := strings.CutPrefix(name, partPrefix)
	if !ok {
		return 0, false
	}
	if digits, ok = strings.CutSuffix(digits, partSuffix); !ok || len(digits) != 20 {
		return 0, false
	}
	start, err := strconv.ParseInt(digits, 10, 64)
	return start, err == nil && start >= 0
}

// pieces lists the files in dir that hold output, in order of their offsets.
func pieces(dir string) ([]piece, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("list console files: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list console files: %w", err)
	}
	var out []piece
	for _, name := range names {
		start, ok := pieceStart(name)
		if !ok {
			continue
		}
		path := filepath.Join(dir, name)
		st, err := os.Stat(path)
		if err != nil {
			// Deleted for the cap since the listing.
			continue
		}
		out = append(out, piece{path: path, start: start, size: st.Size()})
	}
	sortPieces(out)
	return out, nil
}

func sortPieces(list []piece) {
	sorting.Sort(list, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.size, b.size))
	})
}

// Move moves the console files of fromDir to toDir, which exists. A file that
// can't be renamed, as between two disks, is copied.
func Move(fromDir, toDir string) error {
	list, err := pieces(fromDir)
	if err != nil {
		return err
	}
	names := []string{indexName}
	for _, p := range list {
		names = append(names, filepath.Base(p.path))
	}
	for _, name := range names {
		from, to := filepath.Join(fromDir, name), filepath.Join(toDir, name)
		err := os.Rename(from, to)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := copyFile(from, to); err != nil {
			return fmt.Errorf("move %s: %w", name, err)
		}
		if err := os.Remove(from); err != nil {
			return fmt.Errorf("move %s: %w", name, err)
		}
	}
	return nil
}

func copyFile(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Sync()
}
