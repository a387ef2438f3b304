package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"modernc.org/sqlite"

	"cdui/internal/fsinfo"
)

const (
	// writerBusy and retryEvery make up the wait for a lock that another
	// program holds: SQLite waits for the first, then the writer tries again.
	writerBusy = 250 * time.Millisecond
	retryEvery = 5 * time.Millisecond
	readers    = 8
)

// Open opens the database at c.Path, creates it when it is not there, brings
// its schema up to date and reads what the writer keeps in memory.
func Open(ctx context.Context, c Config) (*Store, error) {
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", c.Path, err)
	}
	s := &Store{
		path:     path,
		logger:   c.Logger,
		patience: c.BusyTimeout,
		active:   map[string]*runLog{},
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.patience == 0 {
		s.patience = defaultBusyTimeout
	}
	if c.ReadOnly {
		err = s.openReader(ctx)
	} else {
		err = s.open(ctx, migrations)
	}
	if err != nil {
		_ = s.closeDatabases()
		return nil, fmt.Errorf("open database: %w", explain(err, path, s.patience))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, migrations func() ([]migration, error)) error {
	if kind, yes := fsinfo.Network(s.path); yes {
		return networkError(s.path, kind)
	}
	if err := createFile(s.path); err != nil {
		return err
	}
	// The same durability for about half the time of a commit. Where the
	// platform has no choice there is nothing to switch.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return fmt.Errorf("switch to fdatasync: %w", err)
	}
	known, err := migrations()
	if err != nil {
		return err
	}
	if s.db, err = sql.Open("sqlite", writerDSN(s.path)); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(1)
	var conn *sql.Conn
	err = s.retryBusy(ctx, func() (err error) {
		conn, err = s.db.Conn(ctx)
		return err
	})
	if err != nil {
		return err
	}
	m := migrator{conn: conn, path: s.path, logger: s.logger}
	if err := s.retryBusy(ctx, func() error { return m.run(ctx, known) }); err != nil {
		return err
	}
	if err := s.openReadPool(ctx); err != nil {
		return err
	}
	w := newWriter(s, conn)
	if err := w.rebuild(ctx); err != nil {
		return err
	}
	s.writer, s.writerDone = w, make(chan struct{})
	go func() { //nolint:contextcheck // the writer's transactions are never broken off halfway
		defer close(s.writerDone)
		w.loop()
	}()
	return nil
}

// openReader opens a database that another process may be writing.
func (s *Store) openReader(ctx context.Context) error {
	if _, err := os.Stat(s.path); err != nil {
		return fmt.Errorf("no database at %s: %w", s.path, err)
	}
	known, err := migrations()
	if err != nil {
		return err
	}
	if err := s.openReadPool(ctx); err != nil {
		return err
	}
	conn, err := s.read.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	m := migrator{conn: conn, path: s.path, logger: s.logger}
	version, err := m.version(ctx)
	if err != nil {
		return err
	}
	if latest := len(known); version != latest {
		return fmt.Errorf("%s has schema %d, this release reads schema %d: start cdui on it once", s.path, version, latest)
	}
	return newWriter(s, conn).rebuild(ctx)
}

func (s *Store) openReadPool(ctx context.Context) error {
	var err error
	if s.read, err = sql.Open("sqlite", readerDSN(s.path, s.patience)); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	return s.read.PingContext(ctx)
}

// retryBusy calls f until it gets the locks it needs or patience runs out.
func (s *Store) retryBusy(ctx context.Context, f func() error) error {
	start := time.Now()
	for {
		err := f()
		if err == nil || !isBusy(err) || time.Since(start) > s.patience {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryEvery):
		}
	}
}

// createFile makes an empty file that only its owner reads: SQLite gives the
// files beside it the same mode.
func createFile(path string) error {
	if dir := filepath.Dir(path); !isDir(dir) {
		return fmt.Errorf("the folder %s does not exist", dir)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		return f.Close()
	}
	// An existing file is not opened here: closing it again would drop the
	// locks of other connections of this process.
	info, statErr := os.Stat(path)
	switch {
	case statErr != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder, a database file is needed", path)
	case !errors.Is(err, fs.ErrExist):
		return err
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(path, info.Mode().Perm()&0o700)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func networkError(path, kind string) error {
	return fmt.Errorf("%w: %s lies on %s, where locks can't be relied on; choose a folder on a local disk with --data or CDUI_HOME",
		ErrNetworkFS, path, kind)
}

func writerDSN(path string) string {
	return dsn(path, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {
			"busy_timeout(" + strconv.FormatInt(writerBusy.Milliseconds(), 10) + ")",
			"journal_mode(WAL)",
			"synchronous(FULL)",
			"foreign_keys(1)",
			"secure_delete(1)",
			"cache_size(-32768)",
			"wal_autocheckpoint(4000)",
			"journal_size_limit(67108864)",
		},
	})
}

func readerDSN(path string, patience time.Duration) string {
	return dsn(path, url.Values{
		"mode": {"ro"},
		"_pragma": {
			"busy_timeout(" + strconv.FormatInt(patience.Milliseconds(), 10) + ")",
			"cache_size(-4096)",
		},
	})
}

func dsn(path string, params url.Values) string {
	u := url.URL{Scheme: "file", Path: path, RawQuery: params.Encode()}
	return u.String()
}
