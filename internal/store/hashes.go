package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// FileHash is the content hash of a file, good as long as size and mtime are.
type FileHash struct {
	Path   string
	Size   int64
	ModAt  time.Time
	SHA256 string
}

// FileHash gives the hash that is known of a file in this state, "" when none
// is.
func (s *Store) FileHash(ctx context.Context, path string, size int64, modAt time.Time) (string, error) {
	var sum string
	err := s.queryRow(ctx, `SELECT sha256 FROM file_hashes WHERE path = ? AND size = ? AND mtime = ?`,
		[]any{path, size, modAt.UnixNano()}, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return sum, s.readError("read hash of "+path, err)
}

// KeepFileHashes keeps hashes; those of the same paths are replaced.
func (s *Store) KeepFileHashes(ctx context.Context, hashes ...FileHash) error {
	if len(hashes) == 0 {
		return nil
	}
	return s.write(ctx, func(v *view) error {
		for _, h := range hashes {
			if err := v.exec(`INSERT INTO file_hashes (path, size, mtime, sha256) VALUES (?, ?, ?, ?)
				ON CONFLICT (path) DO UPDATE SET size = excluded.size, mtime = excluded.mtime, sha256 = excluded.sha256`,
				h.Path, h.Size, h.ModAt.UnixNano(), h.SHA256); err != nil {
				return err
			}
		}
		return nil
	})
}
