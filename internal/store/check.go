package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"cdui/internal/run"
)

// Report is what Check found. A sound database has no Findings.
type Report struct {
	// Findings say what is wrong, and in which run.
	Findings []string
	Runs     int64
	Active   int64
	Events   int64
	// Metrics counts flushes, not points.
	Metrics   int64
	Artifacts int64
	// Bytes is the size of the database, without its write-ahead log.
	Bytes int64
}

// maxFindings ends a check that finds one fault everywhere.
const maxFindings = 100

// Check reads the whole database in one snapshot: SQLite's own integrity, then
// that each log is gapless, that its chunks name its rows, and that a run has
// exactly one terminal event if and only if it ended, as its last event.
func (s *Store) Check(ctx context.Context) (Report, error) {
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Report{}, s.readError("check database", err)
	}
	defer func() { _ = tx.Rollback() }()
	c := checker{tx: tx}
	for _, step := range []func(context.Context) error{c.integrity, c.readRuns, c.events, c.metrics, c.terminal, c.counts} {
		if err := step(ctx); err != nil && !errors.Is(err, errEnough) {
			return c.report, s.readError("check database "+s.path, err)
		}
	}
	return c.report, nil
}

var errEnough = errors.New("too many findings")

type checker struct {
	tx     *sql.Tx
	report Report
	runs   map[int64]*checkedRun
}

// checkedRun is a run as far as the check has read it.
type checkedRun struct {
	id       string
	status   run.Status
	deleted  bool
	next     int64 // position due next
	chunk    []int64
	first    int64 // position of chunk[0]
	open     bool  // rows after the last chunk have been seen
	chunks   int64
	terminal int
	last     string
}

func (c *checker) find(id, format string, args ...any) error {
	if len(c.report.Findings) >= maxFindings {
		return errEnough
	}
	text := fmt.Sprintf(format, args...)
	if id != "" {
		text = "run " + id + ": " + text
	}
	c.report.Findings = append(c.report.Findings, text)
	return nil
}

func (c *checker) scan(ctx context.Context, query string, f func(*sql.Rows) error) error {
	rows, err := c.tx.QueryContext(ctx, query)
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

func (c *checker) integrity(ctx context.Context) error {
	texts := func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&text); err != nil || text == "ok" {
			return err
		}
		return c.find("", "%s", text)
	}
	if err := c.scan(ctx, `PRAGMA integrity_check(20)`, texts); err != nil {
		return err
	}
	return c.scan(ctx, `SELECT 'a row of '||"table"||' refers to a missing row of '||parent FROM pragma_foreign_key_check LIMIT 20`, texts)
}

func (c *checker) readRuns(ctx context.Context) error {
	c.runs = map[int64]*checkedRun{}
	return c.scan(ctx, `SELECT seq, id, status, 0 FROM exec_runs UNION ALL
		SELECT run, 'deleted '||run, 'cancelled', 1 FROM exec_run_deletes`, func(rows *sql.Rows) error {
		var ref int64
		r := &checkedRun{}
		if err := rows.Scan(&ref, &r.id, &r.status, &r.deleted); err != nil {
			return err
		}
		c.runs[ref] = r
		if !r.status.Valid() {
			return c.find(r.id, "has the unknown status %q", r.status)
		}
		return nil
	})
}

func (c *checker) events(ctx context.Context) error {
	return c.log(ctx, eventLog, "type", &c.report.Events)
}

func (c *checker) metrics(ctx context.Context) error {
	return c.log(ctx, metricLog, "''", &c.report.Metrics)
}

// log walks one log in the order of its ids, which must be the order of
// positions within each run, and the runs' chunks beside it.
func (c *checker) log(ctx context.Context, k logKind, typeColumn string, count *int64) error {
	var mark int64
	if err := c.tx.QueryRowContext(ctx, `SELECT open_after FROM exec_log_marks WHERE log = ?`, k.String()).Scan(&mark); err != nil {
		return err
	}
	for _, r := range c.runs {
		r.next, r.chunk, r.first, r.open, r.chunks = 1, nil, 0, false, 0
	}
	chunk, err := c.tx.PrepareContext(ctx, `SELECT n, rowids FROM `+k.chunks()+` WHERE run = ? AND first_pos = ?`)
	if err != nil {
		return err
	}
	defer func() { _ = chunk.Close() }()
	err = c.scan(ctx, `SELECT id, run, pos, `+typeColumn+` FROM `+k.rows()+` ORDER BY id`, func(rows *sql.Rows) error {
		var id, ref, pos int64
		var eventType string
		if err := rows.Scan(&id, &ref, &pos, &eventType); err != nil {
			return err
		}
		*count++
		r := c.runs[ref]
		if r == nil {
			return c.find("", "%s row %d belongs to no run", k, id)
		}
		if r.deleted {
			return nil
		}
		if k == eventLog {
			r.last = eventType
			if run.TerminalEvent(eventType) {
				r.terminal++
			}
		}
		if pos != r.next {
			text := "its %s jump from %d to %d"
			due := r.next
			r.next = pos + 1
			return c.find(r.id, text, k, due-1, pos)
		}
		r.next++
		return c.inChunk(ctx, chunk, k, r, ref, id, pos, mark)
	})
	if err != nil {
		return err
	}
	return c.chunkCounts(ctx, k)
}

// inChunk checks that the row stands in its chunk, or in an open tail.
func (c *checker) inChunk(ctx context.Context, chunk *sql.Stmt, k logKind, r *checkedRun, ref, id, pos, mark int64) error {
	if pos >= r.first+int64(len(r.chunk)) && !r.open {
		var n int
		var blob []byte
		err := chunk.QueryRowContext(ctx, ref, pos).Scan(&n, &blob)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			r.open, r.chunk = true, nil
		case err != nil:
			return err
		default:
			r.chunks++
			if r.chunk, err = decodeRowids(blob, n); err != nil {
				r.chunk = nil
				return c.find(r.id, "its chunk of %s at %d can't be read: %v", k, pos, err)
			}
			r.first = pos
		}
	}
	switch {
	case r.open && !r.status.Active():
		return c.find(r.id, "ended, but its %s from %d on are in no chunk", k, pos)
	case r.open && id <= mark:
		return c.find(r.id, "its open %s at %d lie before the mark", k, pos)
	case !r.open && pos-r.first < int64(len(r.chunk)) && r.chunk[pos-r.first] != id:
		return c.find(r.id, "its chunk names row %d for the %s at %d, which are in row %d", r.chunk[pos-r.first], k, pos, id)
	}
	if pos-r.first == int64(len(r.chunk))-1 {
		r.first, r.chunk = pos+1, nil
	}
	return nil
}

// chunkCounts finds chunks whose rows are missing.
func (c *checker) chunkCounts(ctx context.Context, k logKind) error {
	return c.scan(ctx, `SELECT run, count(*), sum(n) FROM `+k.chunks()+` GROUP BY run`, func(rows *sql.Rows) error {
		var ref, chunks, n int64
		if err := rows.Scan(&ref, &chunks, &n); err != nil {
			return err
		}
		r := c.runs[ref]
		switch {
		case r == nil:
			return c.find("", "%s chunks of the missing run %d", k, ref)
		case r.deleted:
			return nil
		case chunks != r.chunks || n >= r.next:
			return c.find(r.id, "its chunks promise %d %s, %d are there", n, k, r.next-1)
		}
		return nil
	})
}

func (c *checker) terminal(context.Context) error {
	for _, r := range c.runs {
		if r.deleted {
			continue
		}
		c.report.Runs++
		want := 0
		if r.status.Active() {
			c.report.Active++
		} else {
			want = 1
		}
		var err error
		switch {
		case r.terminal != want:
			err = c.find(r.id, "is %s and has %d terminal events", r.status, r.terminal)
		case want == 1 && !run.TerminalEvent(r.last):
			err = c.find(r.id, "has the event %s after its terminal event", r.last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) counts(ctx context.Context) error {
	return c.tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM exec_run_artifacts),
		(SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size)`).
		Scan(&c.report.Artifacts, &c.report.Bytes)
}
