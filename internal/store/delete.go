package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// sliceRows bounds how many rows one transaction of a delete removes.
const sliceRows = 2000

// sweep removes the log rows of one deleted run, slice by slice.
type sweep struct {
	ref     int64
	waiters []chan error
}

func (s *sweep) finish(err error) {
	for _, c := range s.waiters {
		c <- err
	}
	s.waiters = nil
}

// Delete removes a finished run. Its row goes at once, then its events,
// metrics and artifact rows in slices that let writers pass. What a crash or
// the end of ctx leaves is removed later.
func (s *Store) Delete(ctx context.Context, id string) error {
	swept := make(chan error, 1)
	c := newCall()
	c.alone = true
	c.do = func(v *view) error { //nolint:contextcheck // the writer's transactions are never broken off halfway
		l, err := v.edit(id)
		if err != nil {
			return err
		}
		if l.status.Active() {
			return fmt.Errorf("delete run %s: %w; cancel it first", id, ErrActive)
		}
		if err := v.exec(`INSERT INTO exec_run_deletes (run) VALUES (?)`, l.ref); err != nil {
			return err
		}
		if err := v.exec(`DELETE FROM exec_runs WHERE seq = ?`, l.ref); err != nil {
			return err
		}
		v.own[id] = nil
		v.swept = append(v.swept, &sweep{ref: l.ref, waiters: []chan error{swept}})
		return nil
	}
	if err := s.submit(ctx, c); err != nil {
		return err
	}
	select {
	case err := <-swept:
		if err != nil {
			return fmt.Errorf("delete run %s: the row is gone, the rest goes later: %w", id, err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxFinished bounds one answer of Finished.
const maxFinished = 1000

// Finished lists the runs that have ended and are not among the keepLast newest
// runs, active ones counted; the oldest first, a thousand at most.
func (s *Store) Finished(ctx context.Context, keepLast int) ([]string, error) {
	created, seq := int64(math.MaxInt64), int64(0)
	if keepLast > 0 {
		err := s.queryRow(ctx, `SELECT created_at, seq FROM exec_runs
			ORDER BY created_at DESC, seq DESC LIMIT 1 OFFSET ?`, []any{keepLast - 1}, &created, &seq)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, s.readError("list finished runs", err)
		}
	}
	rows, err := s.query(ctx, `SELECT id FROM exec_runs
		WHERE (created_at, seq) < (?, ?) AND status NOT IN (`+activeStatuses+`)
		ORDER BY created_at, seq LIMIT ?`, created, seq, maxFinished)
	if err != nil {
		return nil, s.readError("list finished runs", err)
	}
	ids, err := collectIDs(rows)
	return ids, s.readError("list finished runs", err)
}

func (w *writer) sweepable() bool { return len(w.sweeps) > 0 && !w.paused }

// sweepSlice removes one slice of the oldest delete.
func (w *writer) sweepSlice() {
	sw := w.sweeps[0]
	done := false
	c := newCall()
	c.do = func(v *view) error {
		var err error
		done, err = v.sweep(sw.ref)
		return err
	}
	c.take()
	w.commit([]*call{c})
	switch {
	case c.err != nil:
		// The run stays listed in exec_run_deletes, so nothing is forgotten.
		w.store.logger.Warn("delete of a run waits", "error", c.err)
		sw.finish(c.err)
		w.sweeps = append(w.sweeps[1:], sw)
		w.paused = true
		w.retry.Reset(retryPause)
	case done:
		sw.finish(nil)
		w.sweeps = w.sweeps[1:]
	}
}

// sweep removes up to sliceRows rows of a deleted run, and tells whether
// nothing is left.
func (v *view) sweep(ref int64) (bool, error) {
	left := sliceRows
	for k := range logKinds {
		n, err := v.sweepLog(k, ref, left)
		if err != nil {
			return false, err
		}
		if n > 0 {
			if err := v.lowerMark(k); err != nil {
				return false, err
			}
		}
		if left -= n; left < chunkRows {
			return false, nil
		}
	}
	v.wrote = true
	res, err := v.w.execResult(`DELETE FROM exec_run_artifacts WHERE id IN
		(SELECT id FROM exec_run_artifacts WHERE run = ? LIMIT ?)`, ref, left)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	if err != nil || n == int64(left) {
		return false, err
	}
	return true, v.exec(`DELETE FROM exec_run_deletes WHERE run = ?`, ref)
}

// sweepLog removes whole chunks, with their rows, as long as they fit into
// limit.
func (v *view) sweepLog(k logKind, ref int64, limit int) (int, error) {
	removed := 0
	for removed+chunkRows <= limit {
		var first int64
		var n int
		var blob []byte
		err := v.w.queryRow(`SELECT first_pos, n, rowids FROM `+k.chunks()+` WHERE run = ? ORDER BY first_pos LIMIT 1`,
			[]any{ref}, &first, &n, &blob)
		if errors.Is(err, sql.ErrNoRows) {
			return removed, nil
		}
		if err != nil {
			return removed, err
		}
		ids, err := decodeRowids(blob, n)
		if err != nil {
			return removed, err
		}
		list, err := json.Marshal(ids)
		if err != nil {
			return removed, err
		}
		if err := v.exec(`DELETE FROM `+k.rows()+` WHERE id IN (SELECT value FROM json_each(?)) AND run = ?`, string(list), ref); err != nil {
			return removed, err
		}
		if err := v.exec(`DELETE FROM `+k.chunks()+` WHERE run = ? AND first_pos = ?`, ref, first); err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}

// lowerMark keeps the mark from lying above rows to come: when the last rows
// of a log go, SQLite gives their ids out again.
func (v *view) lowerMark(k logKind) error {
	if err := v.w.queryRow(`SELECT coalesce(max(id), 0) FROM `+k.rows(), nil, &v.last[k]); err != nil {
		return err
	}
	if v.last[k] >= v.openAfter[k] {
		return nil
	}
	return v.setMark(k, v.last[k])
}

// openSweeps finds the deletes that an earlier process left unfinished.
func (w *writer) openSweeps(ctx context.Context) error {
	return w.scan(ctx, `SELECT run FROM exec_run_deletes`, nil, func(rows *sql.Rows) error {
		sw := &sweep{}
		if err := rows.Scan(&sw.ref); err != nil {
			return err
		}
		w.sweeps = append(w.sweeps, sw)
		return nil
	})
}
