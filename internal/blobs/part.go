package blobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrBusy says that another caller continues the same content.
var ErrBusy = errors.New("the content is being fetched already")

// Part is a content that comes in pieces.
type Part struct {
	store  *Store
	sum    string
	file   *os.File
	hash   hash.Hash
	offset int64
}

// Resume begins a content, or goes on where an earlier Part was closed. The
// caller closes it.
func (s *Store) Resume(ctx context.Context, sum string) (*Part, error) {
	if !valid(sum) {
		return nil, fmt.Errorf("%.80q: %w", sum, ErrBadSum)
	}
	s.mu.Lock()
	busy := s.resumed[sum]
	s.resumed[sum] = true
	s.mu.Unlock()
	if busy {
		return nil, fmt.Errorf("content %.12s: %w", sum, ErrBusy)
	}
	p, err := s.openPart(ctx, sum)
	if err != nil {
		s.release(sum)
		return nil, fmt.Errorf("continue content %.12s: %w", sum, err)
	}
	return p, nil
}

func (s *Store) release(sum string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.resumed, sum)
}

func (s *Store) openPart(ctx context.Context, sum string) (*Part, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, partsName, sum), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Part{store: s, sum: sum, file: f, hash: sha256.New()}
	if err := copyUpTo(ctx, p.hash, f, 0); err != nil {
		f.Close()
		return nil, err
	}
	if p.offset, err = f.Seek(0, io.SeekCurrent); err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

// Offset is how many bytes are there.
func (p *Part) Offset() int64 { return p.offset }

// Restart throws away what is there.
func (p *Part) Restart() error {
	if err := p.file.Truncate(0); err != nil {
		return fmt.Errorf("begin content %.12s anew: %w", p.sum, err)
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("begin content %.12s anew: %w", p.sum, err)
	}
	p.hash.Reset()
	p.offset = 0
	return nil
}

// Write implements io.Writer.
func (p *Part) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.hash.Write(b[:n])
	p.offset += int64(n)
	return n, err
}

// Commit gives the content its place. When the bytes are the wrong ones it
// throws them away, ErrMismatch.
func (p *Part) Commit() error {
	if hex.EncodeToString(p.hash.Sum(nil)) != p.sum {
		return errors.Join(fmt.Errorf("keep content %.12s: %w", p.sum, ErrMismatch), p.Restart())
	}
	if err := p.file.Sync(); err != nil {
		return fmt.Errorf("keep content %.12s: %w", p.sum, err)
	}
	if err := p.store.place(p.file.Name(), p.sum); err != nil {
		return fmt.Errorf("keep content %.12s: %w", p.sum, err)
	}
	return nil
}

// Close keeps what is there for later, unless it was committed.
func (p *Part) Close() error {
	defer p.store.release(p.sum)
	err := p.file.Close()
	if p.offset == 0 {
		if rmErr := os.Remove(p.file.Name()); !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}
	return err
}
