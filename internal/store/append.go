package store

import "strings"

// blockRows is how many log rows one statement inserts where so many are at
// hand: half of what a row costs is the way to SQLite and back.
const blockRows = 16

// insertion inserts log rows: one of them, or a block.
type insertion struct{ one, block string }

func newInsertion(into, row string) insertion {
	return insertion{"INSERT INTO " + into + " VALUES " + row, "INSERT INTO " + into + " VALUES " + row + strings.Repeat(", "+row, blockRows-1)}
}

var insertions = [logKinds]insertion{
	eventLog:  newInsertion("exec_run_events (run, pos, attempt, seq, ts, type, payload)", "(?, ?, ?, ?, ?, ?, ?)"),
	metricLog: newInsertion("exec_run_metrics (run, pos, attempt, seq, ts, points)", "(?, ?, ?, ?, ?, ?)"),
}

// append adds the change's rows to the logs.
func (v *view) append(l *runLog, c *prepared) error {
	attempt, seq := int64(l.attempt), int64(c.RecordedSeq) //nolint:gosec // checked by target
	if c.Attempt != 0 {
		attempt = int64(c.Attempt)
	}
	err := v.rows(l, eventLog, len(c.Events), func(args []any, i int, pos int64) []any {
		e := &c.Events[i]
		payload := "null"
		if e.Payload != nil {
			payload = string(e.Payload)
		}
		return append(args, l.ref, pos, attempt, seq, micros(e.TS), e.Type, payload)
	})
	if err != nil {
		return err
	}
	l.pending = append(l.pending, c.points...)
	return v.rows(l, metricLog, len(c.Metrics), func(args []any, i int, pos int64) []any {
		m := &c.Metrics[i]
		return append(args, l.ref, pos, attempt, seq, micros(m.TS), string(m.Points))
	})
}

// rows stores n log rows, of which bind adds the columns of one at a time. SQLite
// chooses their ids, each one above the log's last, since appending is what it
// does fastest.
func (v *view) rows(l *runLog, k logKind, n int, bind func(args []any, i int, pos int64) []any) error {
	args := v.w.args
	defer func() {
		clear(args[:cap(args)]) // payloads aren't kept alive
		v.w.args = args[:0]
	}()
	for done := 0; done < n; {
		if len(l.tails[k].ids) >= chunkRows {
			if err := v.closeChunk(l, k); err != nil {
				return err
			}
		}
		t := &l.tails[k]
		query, block := insertions[k].one, 1
		if n-done >= blockRows && chunkRows-len(t.ids) >= blockRows {
			query, block = insertions[k].block, blockRows
		}
		args = args[:0]
		for i := range block {
			args = bind(args, done+i, t.next()+int64(i))
		}
		v.wrote = true
		res, err := v.w.execResult(query, args...)
		if err != nil {
			return err
		}
		last, err := res.LastInsertId()
		if err != nil {
			return err
		}
		for i := range block {
			t.ids = append(t.ids, last-int64(block-1-i))
		}
		v.last[k] = last
		done += block
	}
	return nil
}
