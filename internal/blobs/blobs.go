package blobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The faults of contents.
var (
	// ErrMismatch: the bytes are not those of the hash.
	ErrMismatch = errors.New("the bytes are not those of the hash")
	// ErrTooLarge: there are more bytes than may come.
	ErrTooLarge = errors.New("the content is too large")
	// ErrBadSum: what should be a SHA-256 in lower-case hex is none.
	ErrBadSum = errors.New("not a SHA-256 in lower-case hex")
)

const (
	partsName = "parts"
	prefixLen = 2
)

// Store is a folder of contents.
type Store struct {
	dir string

	mu sync.Mutex
	// resumed are the contents that a Part is open for.
	resumed map[string]bool
}

// Open makes the folder where it is missing. Parts that an earlier process
// left are removed by Prune.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(filepath.Join(dir, partsName), 0o700); err != nil {
		return nil, fmt.Errorf("open folder of contents: %w", err)
	}
	return &Store{dir: dir, resumed: map[string]bool{}}, nil
}

func valid(sum string) bool {
	return len(sum) == 2*sha256.Size && strings.Trim(sum, "0123456789abcdef") == ""
}

func (s *Store) path(sum string) string { return filepath.Join(s.dir, sum[:prefixLen], sum) }

// Has tells whether a content is there.
func (s *Store) Has(sum string) bool {
	_, err := s.size(sum)
	return err == nil
}

func (s *Store) size(sum string) (int64, error) {
	if !valid(sum) {
		return 0, fmt.Errorf("%.80q: %w", sum, ErrBadSum)
	}
	info, err := os.Stat(s.path(sum))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Open opens a content; fs.ErrNotExist when it is not there.
func (s *Store) Open(sum string) (*os.File, error) {
	if !valid(sum) {
		return nil, fmt.Errorf("%.80q: %w", sum, ErrBadSum)
	}
	return os.Open(s.path(sum))
}

// Use marks a content as needed now, so that Prune spares it for a while. It
// tells whether it is there.
func (s *Store) Use(sum string) bool {
	if !valid(sum) {
		return false
	}
	now := time.Now()
	return os.Chtimes(s.path(sum), now, now) == nil
}

// Drop removes a content that turned out to be damaged.
func (s *Store) Drop(sum string) error {
	if !valid(sum) {
		return fmt.Errorf("%.80q: %w", sum, ErrBadSum)
	}
	if err := os.Remove(s.path(sum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop content %.12s: %w", sum, err)
	}
	return nil
}

// Put keeps what r gives under its hash, at most limit bytes when limit is
// positive. A content that is there already is left as it is, and r unread.
func (s *Store) Put(ctx context.Context, sum string, r io.Reader, limit int64) (err error) {
	if !valid(sum) {
		return fmt.Errorf("%.80q: %w", sum, ErrBadSum)
	}
	if s.Use(sum) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Join(s.dir, partsName), "put-") // 0600
	if err != nil {
		return fmt.Errorf("keep content %.12s: %w", sum, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("keep content %.12s: %w", sum, err), os.Remove(f.Name()))
		}
	}()
	h := sha256.New()
	err = copyUpTo(ctx, io.MultiWriter(f, h), r, limit)
	if err == nil && hex.EncodeToString(h.Sum(nil)) != sum {
		err = ErrMismatch
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return s.place(f.Name(), sum)
}

// place gives a whole and synced file its name.
func (s *Store) place(from, sum string) error {
	to := s.path(sum)
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(filepath.Dir(to), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		err = os.Rename(from, to)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

const copyBytes = 256 << 10

// copyUpTo copies r to w until its end, ErrTooLarge beyond limit.
func copyUpTo(ctx context.Context, w io.Writer, r io.Reader, limit int64) error {
	buf := make([]byte, copyBytes)
	for done := int64(0); ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.Read(buf)
		if done += int64(n); limit > 0 && done > limit {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		}
		if _, werr := w.Write(buf[:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
