package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Study is a study as the store keeps it. The documents are its owner's; the
// store doesn't look into them.
type Study struct {
	ID, Key, Name, User  string
	CreatedAt            time.Time
	FinishedAt           *time.Time
	Stopped              string
	Plan, Base, Attempts json.RawMessage
}

const studyColumns = `id, key, name, user, created_at, finished_at, stopped, plan, base, attempts`

func scanStudy(scan func(...any) error) (Study, error) {
	var s Study
	var created int64
	var finished sql.NullInt64
	err := scan(&s.ID, &s.Key, &s.Name, &s.User, &created, &finished, &s.Stopped,
		(*[]byte)(&s.Plan), (*[]byte)(&s.Base), (*[]byte)(&s.Attempts))
	s.CreatedAt, s.FinishedAt = fromMicros(created), timeOrNil(finished)
	return s, err
}

// AddStudy keeps a new study. ErrTaken: there is one of that key.
func (s *Store) AddStudy(ctx context.Context, y Study) error {
	return s.write(ctx, func(v *view) error {
		err := v.exec(`INSERT INTO studies (`+studyColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			y.ID, y.Key, y.Name, y.User, micros(y.CreatedAt), microsOrNil(y.FinishedAt), y.Stopped,
			string(y.Plan), string(y.Base), string(y.Attempts))
		if isUnique(err) {
			return fmt.Errorf("study of key %q: %w", y.Key, ErrTaken)
		}
		return err
	})
}

// KeepStudy keeps what changes of a study.
func (s *Store) KeepStudy(ctx context.Context, y Study) error {
	return s.write(ctx, func(v *view) error {
		return v.changeOne(y.ID, `UPDATE studies SET finished_at = ?, stopped = ?, plan = ?, attempts = ? WHERE id = ?`,
			microsOrNil(y.FinishedAt), y.Stopped, string(y.Plan), string(y.Attempts), y.ID)
	})
}

// RemoveStudy forgets a study; its runs stay.
func (s *Store) RemoveStudy(ctx context.Context, id string) error {
	return s.write(ctx, func(v *view) error { return v.exec(`DELETE FROM studies WHERE id = ?`, id) })
}

// Study reads a study. ErrUnknown: there is none.
func (s *Store) Study(ctx context.Context, id string) (Study, error) {
	return s.studyWhere(ctx, id, `id = ?`)
}

// StudyOfKey reads the study that was submitted under a key.
func (s *Store) StudyOfKey(ctx context.Context, key string) (Study, error) {
	return s.studyWhere(ctx, key, `key = ? AND key <> ''`)
}

func (s *Store) studyWhere(ctx context.Context, name, where string) (Study, error) {
	found, err := s.studies(ctx, `WHERE `+where, name)
	if err == nil && len(found) == 0 {
		return Study{}, fmt.Errorf("study %q: %w", name, ErrUnknown)
	}
	if err != nil {
		return Study{}, s.readError("read study "+name, err)
	}
	return found[0], nil
}

func (s *Store) studies(ctx context.Context, rest string, args ...any) ([]Study, error) {
	rows, err := s.query(ctx, `SELECT `+studyColumns+` FROM studies `+rest, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []Study
	for rows.Next() {
		y, err := scanStudy(rows.Scan)
		if err != nil {
			return nil, err
		}
		out = append(out, y)
	}
	return out, rows.Err()
}

// Studies reads a page of studies, newest first, and counts all.
func (s *Store) Studies(ctx context.Context, limit, offset int) ([]Study, int, error) {
	found, err := s.studies(ctx, `ORDER BY seq DESC LIMIT ? OFFSET ?`, limit, offset)
	if err != nil {
		return nil, 0, s.readError("list studies", err)
	}
	var total int
	err = s.queryRow(ctx, `SELECT count(*) FROM studies`, nil, &total)
	return found, total, s.readError("count studies", err)
}

// UnfinishedStudies reads the studies that are under way, oldest first.
func (s *Store) UnfinishedStudies(ctx context.Context) ([]Study, error) {
	found, err := s.studies(ctx, `WHERE finished_at IS NULL ORDER BY seq`)
	return found, s.readError("read unfinished studies", err)
}

// ResolveStudy gives the ids of studies that begin with prefix, up to ten.
func (s *Store) ResolveStudy(ctx context.Context, prefix string) ([]string, error) {
	return s.idsLike(ctx, `SELECT id FROM studies WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`, prefix)
}
