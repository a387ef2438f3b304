package store

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy of the database to path while writes go on,
// and gives its size. It never overwrites: path appears whole or not at all.
func (s *Store) Backup(ctx context.Context, path string) (int64, error) {
	size, err := s.backup(ctx, path)
	if err != nil {
		return 0, fmt.Errorf("back up to %s: %w", path, err)
	}
	return size, nil
}

func (s *Store) backup(ctx context.Context, path string) (int64, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return 0, err
	}
	if _, err := os.Lstat(path); err == nil {
		return 0, fmt.Errorf("%w; choose another name", fs.ErrExist)
	}
	if dir := filepath.Dir(path); !isDir(dir) {
		return 0, fmt.Errorf("the folder %s does not exist", dir)
	}
	conn, err := s.read.Conn(ctx)
	if err != nil {
		return 0, explain(err, s.path, s.patience)
	}
	defer func() { _ = conn.Close() }()
	partial, err := partialFile(path)
	if err != nil {
		return 0, explain(err, path, s.patience)
	}
	defer func() { _ = os.Remove(partial) }()
	if err := vacuumInto(ctx, conn, partial); err != nil {
		return 0, explain(err, path, s.patience)
	}
	info, err := os.Stat(partial)
	if err != nil {
		return 0, err
	}
	// A hard link, unlike a rename, fails when the name is taken meanwhile.
	if err := os.Link(partial, path); err != nil {
		return 0, err
	}
	return info.Size(), syncPath(filepath.Dir(path))
}

// partialFile makes an empty file beside path.
func partialFile(path string) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// vacuumInto writes a copy of the database into an empty file and syncs it.
func vacuumInto(ctx context.Context, conn *sql.Conn, path string) error {
	if _, err := conn.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		_ = os.Remove(path + "-journal")
		return err
	}
	return syncPath(path)
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	syncErr := f.Sync()
	if err := f.Close(); err != nil {
		return err
	}
	return syncErr
}
