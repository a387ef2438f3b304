package blobs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cdui/internal/sorting"
)

// Policy says what Prune removes.
type Policy struct {
	// Keep tells which contents are needed; nil needs none.
	Keep func(sum string) bool
	// Spare is how long a content, or a part of one, stays after it came or
	// was used, whatever Keep says.
	Spare time.Duration
	// MaxBytes is room for contents that are not needed: the oldest go until
	// the rest fits. 0 is no room: all go.
	MaxBytes int64
}

type kept struct {
	path string
	size int64
	used time.Time
}

// Prune removes contents that nothing needs, and what was cut off long ago. It
// gives the number of bytes that became free.
func (s *Store) Prune(p Policy, now time.Time) (int64, error) {
	var idle []kept
	spared := int64(0)
	err := s.each(func(path string, info fs.FileInfo) error {
		sum := filepath.Base(path)
		switch young := now.Sub(info.ModTime()) < p.Spare; {
		case filepath.Base(filepath.Dir(path)) == partsName:
			if young || s.isResumed(sum) {
				return nil
			}
			return os.Remove(path)
		case p.Keep != nil && p.Keep(sum):
		case young:
			spared += info.Size()
		default:
			idle = append(idle, kept{path, info.Size(), info.ModTime()})
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("prune contents: %w", err)
	}
	sorting.Sort(idle, func(a, b kept) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.path, b.path)) })
	total, freed := spared, int64(0)
	for _, k := range idle {
		if total += k.size; total <= p.MaxBytes && p.MaxBytes > 0 {
			continue
		}
		if err := os.Remove(k.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return freed, fmt.Errorf("prune contents: %w", err)
		}
		freed += k.size
	}
	return freed, nil
}

func (s *Store) isResumed(sum string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumed[sum]
}

// each calls do for every file. What vanishes meanwhile is passed over.
func (s *Store) each(do func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != s.dir {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			err = do(path, info)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}
