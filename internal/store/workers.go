package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Worker is an enrolled worker as the store keeps it.
type Worker struct {
	Name string
	// TokenHash is empty while the worker has to enroll again.
	TokenHash string
	Draining  bool
	WorkerFacts
	CreatedAt time.Time
	LastSeen  *time.Time
}

// WorkerFacts is what a worker last said of itself.
type WorkerFacts struct {
	MachineID, Version, Platform string
	FingerprintDigest            string
	// Inventory is a JSON document; the store doesn't look into it.
	Inventory json.RawMessage
}

// Workers lists the enrolled workers by name.
func (s *Store) Workers(ctx context.Context) ([]Worker, error) {
	rows, err := s.query(ctx, `SELECT name, token_hash, draining, machine_id, version, platform,
		fingerprint_digest, inventory, created_at, last_seen FROM workers ORDER BY name`)
	if err != nil {
		return nil, s.readError("list workers", err)
	}
	defer func() { _ = rows.Close() }()
	var out []Worker
	for rows.Next() {
		var w Worker
		var inventory sql.NullString
		var created int64
		var seen sql.NullInt64
		if err := rows.Scan(&w.Name, &w.TokenHash, &w.Draining, &w.MachineID, &w.Version, &w.Platform,
			&w.FingerprintDigest, &inventory, &created, &seen); err != nil {
			return nil, s.readError("list workers", err)
		}
		w.Inventory, w.CreatedAt, w.LastSeen = document(inventory), fromMicros(created), timeOrNil(seen)
		out = append(out, w)
	}
	return out, s.readError("list workers", rows.Err())
}

// SeeWorker keeps what an enrolled worker says of itself, and when.
func (s *Store) SeeWorker(ctx context.Context, name string, f WorkerFacts, seen time.Time) error {
	return s.changeWorker(ctx, name, `UPDATE workers SET machine_id = ?, version = ?, platform = ?,
		fingerprint_digest = ?, inventory = ?, last_seen = ? WHERE name = ?`,
		f.MachineID, f.Version, f.Platform, f.FingerprintDigest, documentOrNil(f.Inventory), micros(seen), name)
}

// DrainWorker keeps whether a worker is draining.
func (s *Store) DrainWorker(ctx context.Context, name string, on bool) error {
	return s.changeWorker(ctx, name, `UPDATE workers SET draining = ? WHERE name = ?`, on, name)
}

// RekeyWorker takes a worker's token away and keeps the one-time token that
// enrolls it again.
func (s *Store) RekeyWorker(ctx context.Context, name string, e Enrollment) error {
	return s.write(ctx, func(v *view) error {
		if err := v.changeOne(name, `UPDATE workers SET token_hash = '' WHERE name = ?`, name); err != nil {
			return err
		}
		if err := v.exec(`DELETE FROM worker_enrollments WHERE worker = ? AND used_at IS NULL`, name); err != nil {
			return err
		}
		return v.enrollment(e)
	})
}

// RemoveWorker forgets a worker and the one-time tokens that are bound to it.
func (s *Store) RemoveWorker(ctx context.Context, name string) error {
	return s.write(ctx, func(v *view) error {
		if err := v.changeOne(name, `DELETE FROM workers WHERE name = ?`, name); err != nil {
			return err
		}
		if err := v.exec(`INSERT OR IGNORE INTO removed_workers (name) VALUES (?)`, name); err != nil {
			return err
		}
		return v.exec(`DELETE FROM worker_enrollments WHERE worker = ?`, name)
	})
}

// RemovedWorkers lists the workers that were removed and not enrolled again.
func (s *Store) RemovedWorkers(ctx context.Context) ([]string, error) {
	rows, err := s.query(ctx, `SELECT name FROM removed_workers`)
	if err != nil {
		return nil, s.readError("list removed workers", err)
	}
	names, err := collectIDs(rows)
	return names, s.readError("list removed workers", err)
}

func (s *Store) changeWorker(ctx context.Context, name, query string, args ...any) error {
	return s.write(ctx, func(v *view) error { return v.changeOne(name, query, args...) })
}

// changeOne runs a statement that must reach the row called name.
func (v *view) changeOne(name, query string, args ...any) error {
	v.wrote = true
	res, err := v.w.execResult(query, args...)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = fmt.Errorf("%q: %w", name, ErrUnknown)
	}
	return err
}

// write runs do in a transaction as a call that may fail alone.
func (s *Store) write(ctx context.Context, do func(v *view) error) error {
	c := newCall()
	c.alone = true
	c.do = do
	return s.submit(ctx, c)
}

// one reads one row inside the transaction; false when there is none.
func (v *view) one(query string, args []any, dest ...any) (bool, error) {
	err := v.w.queryRow(query, args, dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
