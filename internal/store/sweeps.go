package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cdui/internal/run"
)

// Sweep is a sweep as the store keeps it. The documents are its owner's; the
// store doesn't look into them.
type Sweep struct {
	ID, Key, Name, User string
	CreatedAt           time.Time
	CancelRequestedAt   *time.Time
	Plan, Base, Results json.RawMessage
}

const sweepColumns = `id, key, name, user, created_at, cancel_requested_at, plan, results`

func scanSweep(scan func(...any) error, more ...any) (Sweep, error) {
	var s Sweep
	var created int64
	var cancel sql.NullInt64
	dest := []any{&s.ID, &s.Key, &s.Name, &s.User, &created, &cancel, (*[]byte)(&s.Plan), (*[]byte)(&s.Results)}
	err := scan(append(dest, more...)...)
	s.CreatedAt, s.CancelRequestedAt = fromMicros(created), timeOrNil(cancel)
	return s, err
}

// AddSweep keeps a new sweep. ErrTaken: there is one of that key.
func (s *Store) AddSweep(ctx context.Context, w Sweep) error {
	return s.write(ctx, func(v *view) error {
		err := v.exec(`INSERT INTO sweeps (id, key, name, user, created_at, cancel_requested_at, plan, base, results)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, w.ID, w.Key, w.Name, w.User, micros(w.CreatedAt),
			microsOrNil(w.CancelRequestedAt), string(w.Plan), string(w.Base), string(w.Results))
		if isUnique(err) {
			return fmt.Errorf("sweep of key %q: %w", w.Key, ErrTaken)
		}
		return err
	})
}

// KeepSweep keeps what changes of a sweep: its results and whether somebody
// asked it to stop.
func (s *Store) KeepSweep(ctx context.Context, w Sweep) error {
	return s.write(ctx, func(v *view) error {
		return v.changeOne(w.ID, `UPDATE sweeps SET results = ?, cancel_requested_at = ? WHERE id = ?`,
			string(w.Results), microsOrNil(w.CancelRequestedAt), w.ID)
	})
}

// RemoveSweep forgets a sweep; its runs stay.
func (s *Store) RemoveSweep(ctx context.Context, id string) error {
	return s.write(ctx, func(v *view) error { return v.exec(`DELETE FROM sweeps WHERE id = ?`, id) })
}

// Sweep reads a sweep with its base. ErrUnknown: there is none.
func (s *Store) Sweep(ctx context.Context, id string) (Sweep, error) {
	return s.sweepWhere(ctx, id, `id = ?`)
}

// SweepOfKey reads the sweep that was submitted under a key.
func (s *Store) SweepOfKey(ctx context.Context, key string) (Sweep, error) {
	return s.sweepWhere(ctx, key, `key = ? AND key <> ''`)
}

func (s *Store) sweepWhere(ctx context.Context, name, where string) (Sweep, error) {
	rows, err := s.query(ctx, `SELECT `+sweepColumns+`, base FROM sweeps WHERE `+where, name)
	if err != nil {
		return Sweep{}, s.readError("read sweep "+name, err)
	}
	defer func() { _ = rows.Close() }()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return Sweep{}, s.readError("read sweep "+name, err)
		}
		return Sweep{}, fmt.Errorf("sweep %q: %w", name, ErrUnknown)
	}
	var base json.RawMessage
	w, err := scanSweep(rows.Scan, (*[]byte)(&base))
	w.Base = base
	return w, s.readError("read sweep "+name, err)
}

// Sweeps reads a page of sweeps without their bases, newest first, and counts
// all.
func (s *Store) Sweeps(ctx context.Context, limit, offset int) ([]Sweep, int, error) {
	rows, err := s.query(ctx, `SELECT `+sweepColumns+` FROM sweeps ORDER BY seq DESC LIMIT ? OFFSET ?`, limit, offset)
	if err != nil {
		return nil, 0, s.readError("list sweeps", err)
	}
	defer func() { _ = rows.Close() }()
	var out []Sweep
	for rows.Next() {
		w, err := scanSweep(rows.Scan)
		if err != nil {
			return nil, 0, s.readError("list sweeps", err)
		}
		out = append(out, w)
	}
	if err := rows.Err(); err != nil {
		return nil, 0, s.readError("list sweeps", err)
	}
	var total int
	err = s.queryRow(ctx, `SELECT count(*) FROM sweeps`, nil, &total)
	return out, total, s.readError("count sweeps", err)
}

// ResolveSweep gives the ids of sweeps that begin with prefix, up to ten.
func (s *Store) ResolveSweep(ctx context.Context, prefix string) ([]string, error) {
	return s.idsLike(ctx, `SELECT id FROM sweeps WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`, prefix)
}

func (s *Store) idsLike(ctx context.Context, query, prefix string) ([]string, error) {
	rows, err := s.query(ctx, query, prefix, prefix+"\U0010FFFF", maxResolved)
	if err != nil {
		return nil, s.readError("find "+prefix, err)
	}
	ids, err := collectIDs(rows)
	return ids, s.readError("find "+prefix, err)
}

// Childless lists the sweeps that have no runs and never had: their submit was
// cut off before it came to an end.
func (s *Store) Childless(ctx context.Context) ([]string, error) {
	rows, err := s.query(ctx, `SELECT id FROM sweeps w WHERE results = '{}'
		AND NOT EXISTS (SELECT 1 FROM exec_runs r WHERE r.sweep_id = w.id AND r.sweep_id <> '')`)
	if err != nil {
		return nil, s.readError("list sweeps without runs", err)
	}
	ids, err := collectIDs(rows)
	return ids, s.readError("list sweeps without runs", err)
}

const sweepRuns = `SELECT ` + runColumns + ` FROM exec_runs r WHERE r.sweep_id = ? AND r.sweep_id <> '' ORDER BY r.seq`

// RunsOfSweep reads the rows of a sweep's runs in the order of their
// submission; of a variant the last one is the one that counts.
func (s *Store) RunsOfSweep(ctx context.Context, sweep string) ([]run.Row, error) {
	rows, err := s.query(ctx, sweepRuns, sweep)
	if err != nil {
		return nil, s.readError("read runs of sweep "+sweep, err)
	}
	found, err := s.collectRuns(rows, false)
	return found, s.readError("read runs of sweep "+sweep, err)
}

// LastValues gives the last value of each series of a run, finite or not; with
// a name, of that one alone.
func (s *Store) LastValues(ctx context.Context, id, name string) (map[string]run.Last, error) {
	at, err := s.where(ctx, id, metricLog)
	if err != nil {
		return nil, err
	}
	out := map[string]run.Last{}
	for first := int64(1); first < at.tail.next(); first += readRows {
		flushes, err := s.readMetrics(ctx, at, first)
		if err != nil {
			return nil, s.rowError("read metrics of run", id, err)
		}
		for _, m := range flushes {
			lastIn(m.Points, name, out)
		}
	}
	return out, nil
}

// lastIn notes the last values of a flush. What isn't read as points is left
// out, as elsewhere.
func lastIn(flush json.RawMessage, name string, out map[string]run.Last) {
	if name != "" && !mentions(flush, name) {
		return
	}
	var list []struct {
		Name string `json:"name"`
		run.Last
	}
	var broken *json.UnmarshalTypeError
	if err := json.Unmarshal(flush, &list); err != nil && !errors.As(err, &broken) {
		return
	}
	for _, p := range list {
		if name == "" || p.Name == name {
			out[p.Name] = p.Last
		}
	}
}
