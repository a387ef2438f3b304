package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
)

// readRows is how many log rows one query reads.
const readRows = 128

// logView is where a run's log rows are: those before tail are in chunks.
type logView struct {
	ref  int64
	tail tail
}

// where finds a run's log.
func (s *Store) where(ctx context.Context, id string, k logKind) (logView, error) {
	if l, ok := s.published(id); ok {
		return logView{l.ref, l.tails[k]}, nil
	}
	at := logView{tail: tail{first: 1}}
	var next sql.NullInt64
	err := s.queryRow(ctx, `SELECT seq, (SELECT first_pos + n FROM `+k.chunks()+`
		WHERE run = exec_runs.seq ORDER BY first_pos DESC LIMIT 1) FROM exec_runs WHERE id = ?`,
		[]any{id}, &at.ref, &next)
	if err != nil {
		return at, s.rowError("read run", id, err)
	}
	if next.Valid {
		at.tail.first = next.Int64
	}
	return at, nil
}

// rowids gives the ids of up to limit rows from position first on.
func (s *Store) rowids(ctx context.Context, k logKind, at logView, first int64, limit int) ([]int64, error) {
	limit = int(min(int64(limit), at.tail.next()-first))
	if limit <= 0 {
		return nil, nil
	}
	ids := make([]int64, 0, limit)
	if first < at.tail.first {
		rows, err := s.query(ctx, `SELECT first_pos, n, rowids FROM `+k.chunks()+`
			WHERE run = ? AND first_pos > ? AND first_pos < ? ORDER BY first_pos`,
			at.ref, first-chunkRows, min(first+int64(limit), at.tail.first))
		if err != nil {
			return nil, err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var from int64
			var n int
			var blob []byte
			if err := rows.Scan(&from, &n, &blob); err != nil {
				return nil, err
			}
			chunk, err := decodeRowids(blob, n)
			if err != nil {
				return nil, err
			}
			if skip := first - from; skip > 0 {
				chunk = chunk[min(skip, int64(n)):]
			}
			ids = append(ids, chunk...)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	if len(ids) < limit {
		skip := max(0, first-at.tail.first)
		ids = append(ids, at.tail.ids[min(skip, int64(len(at.tail.ids))):]...)
	}
	return ids[:min(limit, len(ids))], nil
}

// selectRows reads the given columns of log rows in order.
func (s *Store) selectRows(ctx context.Context, k logKind, columns string, at logView, ids []int64) (*sql.Rows, error) {
	first, last := ids[0], ids[len(ids)-1]
	if last-first < int64(4*len(ids)) {
		// Close together: one stretch of the table is read faster than ids are
		// looked up.
		return s.query(ctx, `SELECT `+columns+` FROM `+k.rows()+` WHERE id BETWEEN ? AND ? AND run = ? ORDER BY id`,
			first, last, at.ref)
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return s.query(ctx, `SELECT `+columns+` FROM `+k.rows()+` WHERE id IN (SELECT value FROM json_each(?)) AND run = ? ORDER BY id`,
		string(list), at.ref)
}

// Events reads a run's log strictly after a cursor: up to limit events, and
// beyond the first no more than maxBytes of payload (0: no bound).
func (s *Store) Events(ctx context.Context, id string, after int64, limit, maxBytes int) ([]Event, error) {
	at, err := s.where(ctx, id, eventLog)
	if err != nil {
		return nil, err
	}
	ids, err := s.rowids(ctx, eventLog, at, max(after, 0)+1, limit)
	if err != nil {
		return nil, s.readError("read events of run "+id, err)
	}
	events := make([]Event, 0, len(ids))
	bytes := 0
	for part := range slices.Chunk(ids, readRows) {
		full, err := s.readEvents(ctx, at, part, &events, &bytes, maxBytes)
		if err != nil {
			return nil, s.rowError("read events of run", id, err)
		}
		if full {
			break
		}
	}
	return events, nil
}

// readEvents appends the events of ids, and tells whether maxBytes ended it.
func (s *Store) readEvents(ctx context.Context, at logView, ids []int64, events *[]Event, bytes *int, maxBytes int) (bool, error) {
	rows, err := s.selectRows(ctx, eventLog, "pos, ts, type, payload", at, ids)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }()
	n := 0
	for rows.Next() {
		var e Event
		var ts int64
		var payload sql.RawBytes
		if err := rows.Scan(&e.Cursor, &ts, &e.Type, &payload); err != nil {
			return false, err
		}
		if maxBytes > 0 && len(*events) > 0 && *bytes+len(payload) > maxBytes {
			return true, nil
		}
		*bytes += len(payload)
		e.TS, e.Payload = fromMicros(ts), slices.Clone(json.RawMessage(payload))
		*events = append(*events, e)
		n++
	}
	if err := rows.Err(); err != nil {
		return false, err
	}
	if n < len(ids) {
		// The run was deleted while it was being read.
		return false, sql.ErrNoRows
	}
	return false, nil
}

// LastCursor gives the cursor of a run's last event, 0 when it has none.
func (s *Store) LastCursor(ctx context.Context, id string) (int64, error) {
	at, err := s.where(ctx, id, eventLog)
	if err != nil {
		return 0, err
	}
	return at.tail.next() - 1, nil
}

// Metrics reads a run's flushes in the order in which they were stored; with a
// name, only those that mention it (other series of such a flush included).
func (s *Store) Metrics(ctx context.Context, id, name string) ([]Metrics, error) {
	at, err := s.where(ctx, id, metricLog)
	if err != nil {
		return nil, err
	}
	var found []Metrics
	for first := int64(1); first < at.tail.next(); first += readRows {
		flushes, err := s.readMetrics(ctx, at, first)
		if err != nil {
			return nil, s.rowError("read metrics of run", id, err)
		}
		for _, m := range flushes {
			if name == "" || mentions(m.Points, name) {
				found = append(found, m)
			}
		}
	}
	return found, nil
}

func (s *Store) readMetrics(ctx context.Context, at logView, first int64) ([]Metrics, error) {
	ids, err := s.rowids(ctx, metricLog, at, first, readRows)
	if err != nil {
		return nil, err
	}
	rows, err := s.selectRows(ctx, metricLog, "ts, points", at, ids)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	flushes := make([]Metrics, 0, len(ids))
	for rows.Next() {
		var ts int64
		var m Metrics
		if err := rows.Scan(&ts, (*[]byte)(&m.Points)); err != nil {
			return nil, err
		}
		m.TS = fromMicros(ts)
		flushes = append(flushes, m)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(flushes) < len(ids) {
		return nil, sql.ErrNoRows
	}
	return flushes, nil
}

// FinalMetrics gives the last finite value of each series, as it was reported.
func (s *Store) FinalMetrics(ctx context.Context, id string) (map[string]json.RawMessage, error) {
	all, err := s.FinalMetricsOf(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	f, ok := all[id]
	if !ok {
		return nil, notFound(id)
	}
	return f, nil
}

// FinalMetricsOf is FinalMetrics for a page of runs; unknown ones are left out.
func (s *Store) FinalMetricsOf(ctx context.Context, ids []string) (map[string]map[string]json.RawMessage, error) {
	found := make(map[string]map[string]json.RawMessage, len(ids))
	var ended []string
	s.mu.RLock()
	for _, id := range ids {
		if l, ok := s.active[id]; ok {
			found[id] = l.finals.clone()
		} else {
			ended = append(ended, id)
		}
	}
	s.mu.RUnlock()
	if len(ended) == 0 {
		return found, nil
	}
	list, err := json.Marshal(ended)
	if err != nil {
		return nil, err
	}
	rows, err := s.query(ctx, `SELECT id, coalesce(final_metrics, '') FROM exec_runs
		WHERE id IN (SELECT value FROM json_each(?))`, string(list))
	if err != nil {
		return nil, s.readError("read final metrics", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, text string
		if err := rows.Scan(&id, &text); err != nil {
			return nil, s.readError("read final metrics", err)
		}
		f, err := decodeFinals(text)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", id, err)
		}
		found[id] = f
	}
	return found, s.readError("read final metrics", rows.Err())
}
