package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"cdui/internal/fsinfo"
)

// The errors that callers tell apart, matched with errors.Is.
var (
	// ErrNotFound: there is no such run.
	ErrNotFound = errors.New("no such run")
	// ErrUnknown: there is no worker or token of that name.
	ErrUnknown = errors.New("there is none of that name")
	// ErrNotActive: the run has ended, or another attempt of it is under way.
	ErrNotActive = errors.New("the run is not active any more")
	// ErrActive: the run has not ended yet.
	ErrActive = errors.New("the run is still active")
	// ErrExists: a run with that id or key is there already.
	ErrExists = errors.New("the run exists already")
	// ErrFull: the disk is full. Nothing of the call was stored.
	ErrFull = errors.New("disk full")
	// ErrBusy: another program held the database longer than BusyTimeout.
	ErrBusy = errors.New("database locked")
	// ErrReadOnly: the database can't be written.
	ErrReadOnly = errors.New("database is read-only")
	// ErrNewerSchema: the database was written by a newer release.
	ErrNewerSchema = errors.New("database is of a newer release")
	// ErrNetworkFS: the database lies on a network file system.
	ErrNetworkFS = errors.New("database on a network file system")
	// ErrDamaged: the file is no database, or its logs contradict themselves.
	ErrDamaged = errors.New("database is damaged")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("store is closed")
)

// almostFull is the free space below which an I/O error is put down to a full
// disk: SQLite reports some of these as plain I/O errors.
const almostFull = 256 << 10

// code gives SQLite's extended result code, 0 for other errors.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

func primary(err error) int { return code(err) & 0xff }

func isBusy(err error) bool {
	c := primary(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED
}

// contained tells whether a failed statement leaves the transaction around it
// usable, so that a savepoint can undo the one call.
func contained(err error) bool {
	switch primary(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_RANGE:
		return true
	case 0:
		// Our own refusals: ErrNotFound, ErrNotActive and their like.
		return true
	}
	return false
}

func isUnique(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_CONSTRAINT_UNIQUE || c == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// explain wraps an error of SQLite or of the file system with one of the
// sentinels, a sentence that names path, and what to do about it.
func explain(err error, path string, waited time.Duration) error {
	if err == nil {
		return nil
	}
	switch primary(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%w: another program has held %s for %s; end it (a sqlite3 shell, a backup) and try again: %w",
			ErrBusy, path, waited.Round(time.Second), err)
	case sqlite3.SQLITE_FULL:
		return fullError(err, path)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return readOnlyError(err, path)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		if space, spaceErr := fsinfo.SpaceAt(filepath.Dir(path)); spaceErr == nil && space.Free < almostFull {
			return fullError(err, path)
		}
		return fmt.Errorf("%s can't be read or written; check its folder and disk: %w", path, err)
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%w: %s; restore a backup of it, or move it away to start empty: %w", ErrDamaged, path, err)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fullError(err, path)
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return readOnlyError(err, path)
	}
	return err
}

func fullError(err error, path string) error {
	return fmt.Errorf("%w: no room left for %s; free some space in %s, writing goes on by itself: %w",
		ErrFull, path, filepath.Dir(path), err)
}

func readOnlyError(err error, path string) error {
	return fmt.Errorf("%w: %s can't be written; check owner and mode of the file and of its folder: %w",
		ErrReadOnly, path, err)
}
