package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"cdui/internal/run"
)

// rebuild reads from the database what memory must hold: the logs of active
// runs with their open tails, the last ids, and the deletes to go on with.
func (w *writer) rebuild(ctx context.Context) error {
	byRef, err := w.activeLogs(ctx)
	if err != nil {
		return err
	}
	for k := range logKinds {
		if err := w.lastChunks(ctx, k, byRef); err != nil {
			return err
		}
		if err := w.openRows(ctx, k, byRef); err != nil {
			return fmt.Errorf("rebuild %s: %w", k, err)
		}
	}
	if err := w.openPoints(ctx, byRef); err != nil {
		return err
	}
	for _, l := range byRef {
		w.store.active[l.id] = l
	}
	var artifact int64
	err = w.conn.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM sqlite_sequence
		WHERE name = 'exec_run_artifacts'`).Scan(&artifact)
	if err != nil {
		return fmt.Errorf("read last artifact id: %w", err)
	}
	w.store.artifactID.Store(artifact)
	return w.openSweeps(ctx)
}

// scan runs a query on the write connection and calls f for each row.
func (w *writer) scan(ctx context.Context, query string, args []any, f func(*sql.Rows) error) error {
	rows, err := w.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (w *writer) activeLogs(ctx context.Context) (map[int64]*runLog, error) {
	byRef := map[int64]*runLog{}
	err := w.scan(ctx, `SELECT seq, id, status, attempt, recorded_attempt, recorded_seq FROM exec_runs
		WHERE status IN (`+activeStatuses+`)`, nil, func(rows *sql.Rows) error {
		l := &runLog{finals: finals{}}
		var status string
		if err := rows.Scan(&l.ref, &l.id, &status, &l.attempt, &l.recorded.attempt, &l.recorded.seq); err != nil {
			return err
		}
		l.status = run.Status(status)
		for k := range l.tails {
			l.tails[k].first = 1
		}
		byRef[l.ref] = l
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read active runs: %w", err)
	}
	return byRef, nil
}

// lastChunks reads where each active run's open tail begins.
func (w *writer) lastChunks(ctx context.Context, k logKind, byRef map[int64]*runLog) error {
	finalsColumn := "''"
	if k == metricLog {
		finalsColumn = "c.finals"
	}
	err := w.scan(ctx, `SELECT c.run, c.first_pos + c.n, c.attempt, c.last_seq, `+finalsColumn+`
		FROM exec_runs r JOIN `+k.chunks()+` c ON c.run = r.seq AND c.first_pos =
			(SELECT max(first_pos) FROM `+k.chunks()+` WHERE run = r.seq)
		WHERE r.status IN (`+activeStatuses+`)`, nil, func(rows *sql.Rows) error {
		var ref, next int64
		var at recorded
		var text string
		if err := rows.Scan(&ref, &next, &at.attempt, &at.seq, &text); err != nil {
			return err
		}
		l, ok := byRef[ref]
		if !ok {
			return nil
		}
		l.tails[k].first = next
		l.recorded = l.recorded.max(at)
		if k == metricLog {
			var err error
			l.finals, err = decodeFinals(text)
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read last chunks of %s: %w", k, err)
	}
	return nil
}

// openRows finds the open tails' rows.
func (w *writer) openRows(ctx context.Context, k logKind, byRef map[int64]*runLog) error {
	err := w.conn.QueryRowContext(ctx, `SELECT open_after, (SELECT coalesce(max(id), 0) FROM `+k.rows()+`)
		FROM exec_log_marks WHERE log = ?`, k.String()).Scan(&w.openAfter[k], &w.last[k])
	if err != nil {
		return err
	}
	return w.scan(ctx, `SELECT id, run, pos, attempt, seq FROM `+k.rows()+` WHERE id > ? ORDER BY id`,
		[]any{w.openAfter[k]}, func(rows *sql.Rows) error {
			var id, ref, pos int64
			var at recorded
			if err := rows.Scan(&id, &ref, &pos, &at.attempt, &at.seq); err != nil {
				return err
			}
			l, ok := byRef[ref]
			if !ok || pos < l.tails[k].first {
				return nil
			}
			t := &l.tails[k]
			if pos != t.next() {
				return fmt.Errorf("%w: run %s continues at %d where %d is due; see cdui db check", ErrDamaged, l.id, pos, t.next())
			}
			t.ids = append(t.ids, id)
			if at.seq > 0 {
				l.recorded = l.recorded.max(at)
			}
			return nil
		})
}

// openPoints brings the final metrics up to date with the open tails.
func (w *writer) openPoints(ctx context.Context, byRef map[int64]*runLog) error {
	stmt, err := w.conn.PrepareContext(ctx, `SELECT points FROM exec_run_metrics WHERE id = ?`)
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Close() }()
	for _, l := range byRef {
		for _, id := range l.tails[metricLog].ids {
			var points string
			if err := stmt.QueryRowContext(ctx, id).Scan(&points); err != nil {
				return fmt.Errorf("read metrics of run %s: %w", l.id, err)
			}
			l.finals.add(addPoints(nil, json.RawMessage(points)))
		}
	}
	return nil
}
