package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Enrollment is a one-time token that makes a worker.
type Enrollment struct {
	TokenHash string
	// Worker is the one worker that the token enrolls again, empty for any new
	// one.
	Worker    string
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// The errors of Enroll.
var (
	// ErrEnrollment: the one-time token is unknown, used or expired.
	ErrEnrollment = errors.New("the enrollment token is not valid")
	// ErrTaken: another worker has that name.
	ErrTaken = errors.New("the name is taken")
)

// keepEnrollments is how long spent one-time tokens are remembered, so that
// their second use can be told from a mistyped one.
const keepEnrollments = 30 * 24 * time.Hour

// AddEnrollment keeps a one-time token.
func (s *Store) AddEnrollment(ctx context.Context, e Enrollment) error {
	return s.write(ctx, func(v *view) error { return v.enrollment(e) })
}

func (v *view) enrollment(e Enrollment) error {
	if err := v.exec(`DELETE FROM worker_enrollments WHERE expires_at < ?`, micros(e.CreatedAt.Add(-keepEnrollments))); err != nil {
		return err
	}
	return v.exec(`INSERT INTO worker_enrollments (token_hash, worker, created_by, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?)`, e.TokenHash, e.Worker, e.CreatedBy, micros(e.CreatedAt), micros(e.ExpiresAt))
}

// Enroll spends a one-time token on the worker name and gives it the worker
// token with the hash tokenHash; a token that it had before is good no more.
// Errors: ErrEnrollment, ErrTaken.
func (s *Store) Enroll(ctx context.Context, enrollment, name, tokenHash string, f WorkerFacts, now time.Time) error {
	return s.write(ctx, func(v *view) error {
		if err := v.spend(enrollment, name, now); err != nil {
			return err
		}
		if err := v.exec(`DELETE FROM removed_workers WHERE name = ?`, name); err != nil {
			return err
		}
		return v.exec(`INSERT INTO workers (name, token_hash, machine_id, version, created_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET token_hash = excluded.token_hash, machine_id = excluded.machine_id,
			version = excluded.version`, name, tokenHash, f.MachineID, f.Version, micros(now))
	})
}

// spend checks a one-time token and marks it as used.
func (v *view) spend(enrollment, name string, now time.Time) error {
	var worker, usedFor string
	var expires int64
	var used sql.NullInt64
	known, err := v.one(`SELECT worker, expires_at, used_at, used_for FROM worker_enrollments WHERE token_hash = ?`,
		[]any{enrollment}, &worker, &expires, &used, &usedFor)
	switch {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("%w: it is unknown", ErrEnrollment)
	case used.Valid:
		return fmt.Errorf("%w: it was used for %s", ErrEnrollment, usedFor)
	case micros(now) >= expires:
		return fmt.Errorf("%w: it expired at %s", ErrEnrollment, fromMicros(expires).Format(time.RFC3339))
	case worker != "" && worker != name:
		return fmt.Errorf("%w: it is for the worker %s", ErrEnrollment, worker)
	}
	if worker == "" {
		taken, err := v.one(`SELECT name FROM workers WHERE name = ?`, []any{name}, &usedFor)
		if err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("%w: %s", ErrTaken, name)
		}
	}
	return v.exec(`UPDATE worker_enrollments SET used_at = ?, used_for = ? WHERE token_hash = ?`, micros(now), name, enrollment)
}
