package store

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"cdui/internal/run"
)

const (
	insertRun = `INSERT INTO exec_runs (id, name, key, status, error, end_class, queue_key,
		created_at, started_at, finished_at, attempt, user, git_commit, git_dirty, plugin_pins,
		sweep_id, sweep_variant, rerun_of, worker_id, devices, fingerprint_digest,
		cancel_requested_at, options, execution_facts, retry_of, likeness)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertArtifact = `INSERT INTO exec_run_artifacts (id, run, kind, path, meta, node_id, backend, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	insertEventChunk = `INSERT INTO exec_run_event_chunks (run, first_pos, n, attempt, last_seq, rowids)
		VALUES (?, ?, ?, ?, ?, ?)`
	insertMetricChunk = `INSERT INTO exec_run_metric_chunks (run, first_pos, n, attempt, last_seq, rowids, finals)
		VALUES (?, ?, ?, ?, ?, ?, ?)`
)

// view is what one call sees of the batch and adds to it; a call that fails
// leaves nothing but its view behind.
type view struct {
	*batch
	own   map[string]*runLog
	last  [logKinds]int64
	swept []*sweep
	wrote bool
}

// keep makes the call's changes part of the batch.
func (v *view) keep() {
	v.batch.last = v.last
	v.batch.swept = append(v.batch.swept, v.swept...)
	maps.Copy(v.logs, v.own)
}

func (v *view) exec(query string, args ...any) error {
	v.wrote = true
	return v.w.exec(query, args...)
}

func (v *view) set(l *runLog) {
	if v.own == nil {
		v.own = map[string]*runLog{}
	}
	v.own[l.id] = l
}

// edit gives this call's own copy of a run's log.
func (v *view) edit(id string) (*runLog, error) {
	if l, ok := v.own[id]; ok {
		return l, nil
	}
	l, known := v.logs[id]
	if !known {
		// Only the writer changes the map, so that it needs no lock to read it.
		l, known = v.w.store.active[id]
	}
	if known && l == nil {
		return nil, notFound(id)
	}
	if !known {
		var err error
		if l, err = v.w.load(id); err != nil {
			return nil, err
		}
	}
	l = l.edit()
	v.set(l)
	return l, nil
}

// apply stores one change.
func (v *view) apply(c *prepared) (Result, error) {
	l, err := v.target(c)
	if err != nil {
		return Result{}, err
	}
	columns := c.columns
	if c.RecordedSeq > 0 {
		attempt := c.Attempt
		if attempt == 0 {
			attempt = l.attempt
		}
		at := recorded{attempt, c.RecordedSeq}
		l.recorded = l.recorded.max(at)
		if len(c.Events) == 0 && len(c.Metrics) == 0 {
			columns = append(slices.Clip(columns),
				column{"recorded_attempt", int64(l.recorded.attempt)},
				column{"recorded_seq", int64(l.recorded.seq)}) //nolint:gosec // checked by target
		}
	}
	result := Result{Seq: l.ref}
	if len(c.Events) > 0 {
		result.FirstCursor = l.tails[eventLog].next()
	}
	if err := v.append(l, c); err != nil {
		return Result{}, err
	}
	result.LastCursor = l.tails[eventLog].next() - 1
	if err := v.artifacts(l, c); err != nil {
		return Result{}, err
	}
	if err := v.provenance(l, c); err != nil {
		return Result{}, err
	}
	if c.End || !l.status.Active() {
		final, err := v.end(l)
		if err != nil {
			return Result{}, err
		}
		columns = append(slices.Clip(columns), final...)
	}
	return result, v.patch(l, c, columns)
}

// target gives the run that the change is about, after its guards.
func (v *view) target(c *prepared) (*runLog, error) {
	if c.RecordedSeq > math.MaxInt64 {
		return nil, fmt.Errorf("store run %s: spool record number %d is too large", c.id, c.RecordedSeq)
	}
	if c.Insert != nil {
		return v.insert(c)
	}
	l, err := v.edit(c.id)
	if err != nil {
		return nil, err
	}
	switch {
	case c.RequireActive && !l.status.Active():
		return nil, fmt.Errorf("run %s ended %s: %w", c.id, l.status, ErrNotActive)
	case c.RequireAttempt > 0 && c.RequireAttempt != l.attempt:
		return nil, fmt.Errorf("run %s is at attempt %d, not %d: %w", c.id, l.attempt, c.RequireAttempt, ErrNotActive)
	}
	if p := c.Patch; p != nil {
		if p.Status != nil {
			if l.status.Terminal() && *p.Status != l.status {
				return nil, fmt.Errorf("run %s ended %s and can't become %s: %w", c.id, l.status, *p.Status, ErrNotActive)
			}
			l.status = *p.Status
		}
		if p.Attempt != nil {
			l.attempt = *p.Attempt
		}
	}
	return l, nil
}

func (v *view) insert(c *prepared) (*runLog, error) {
	v.wrote = true
	res, err := v.w.execResult(insertRun, c.insert...)
	if isUnique(err) {
		return nil, fmt.Errorf("store run %s, key %q: %w: %w", c.id, c.Insert.Options.Key, ErrExists, err)
	}
	if err != nil {
		return nil, err
	}
	ref, err := res.LastInsertId()
	if err != nil {
		return nil, err
	}
	if c.graph != "" {
		if err := v.exec(`INSERT INTO exec_run_graphs (run, graph) VALUES (?, ?)`, ref, c.graph); err != nil {
			return nil, err
		}
	}
	if err := v.tag(ref, c.tags); err != nil {
		return nil, err
	}
	l := &runLog{ref: ref, id: c.id, status: c.Insert.Status, attempt: c.Insert.Attempt, finals: finals{}}
	for k := range l.tails {
		l.tails[k].first = 1
	}
	if p := c.Patch; p != nil {
		if p.Status != nil {
			l.status = *p.Status
		}
		if p.Attempt != nil {
			l.attempt = *p.Attempt
		}
	}
	v.set(l)
	return l, nil
}

func (v *view) tag(ref int64, tags []string) error {
	for _, tag := range tags {
		if err := v.exec(`INSERT OR IGNORE INTO exec_run_tags (tag, run) VALUES (?, ?)`, tag, ref); err != nil {
			return err
		}
	}
	return nil
}

// closeChunk writes out l's open tail.
func (v *view) closeChunk(l *runLog, k logKind) error {
	t := &l.tails[k]
	if len(t.ids) == 0 {
		return nil
	}
	args := []any{
		l.ref, t.first, int64(len(t.ids)), int64(l.recorded.attempt), int64(l.recorded.seq), //nolint:gosec // checked by target
		encodeRowids(t.ids),
	}
	query := insertEventChunk
	if k == metricLog {
		query = insertMetricChunk
		text, err := l.finals.encode(l.pending)
		if err != nil {
			return err
		}
		args = append(args, text)
	}
	if err := v.exec(query, args...); err != nil {
		return err
	}
	// A new array for the next tail: readers still hold this one.
	*t = tail{first: t.next()}
	return nil
}

// end writes out both tails and gives the column that keeps the final metrics.
func (v *view) end(l *runLog) ([]column, error) {
	for k := range l.tails {
		if err := v.closeChunk(l, logKind(k)); err != nil {
			return nil, err
		}
	}
	if len(l.finals) == 0 && len(l.pending) == 0 {
		return nil, nil
	}
	text, err := l.finals.encode(l.pending)
	if err != nil {
		return nil, err
	}
	return []column{{"final_metrics", text}}, nil
}

func (v *view) artifacts(l *runLog, c *prepared) error {
	for _, a := range c.Artifacts {
		err := v.exec(insertArtifact, a.ID, l.ref, a.Kind, a.Path, documentOrNil(a.Meta), a.NodeID, a.Backend, micros(a.CreatedAt))
		if err != nil {
			return fmt.Errorf("store artifact %d of run %s: %w", a.ID, c.id, err)
		}
	}
	return nil
}

func (v *view) patch(l *runLog, c *prepared, columns []column) error {
	if len(columns) == 0 {
		return nil
	}
	names := make([]string, len(columns))
	args := make([]any, len(columns), len(columns)+1)
	for i, col := range columns {
		names[i], args[i] = col.name+" = ?", col.value
	}
	err := v.exec("UPDATE exec_runs SET "+strings.Join(names, ", ")+" WHERE seq = ?", append(args, l.ref)...)
	if isUnique(err) {
		return fmt.Errorf("store run %s: its key is taken: %w: %w", c.id, ErrExists, err)
	}
	if err != nil || c.Patch == nil || c.Patch.Options == nil {
		return err
	}
	if err := v.exec(`DELETE FROM exec_run_tags WHERE run = ?`, l.ref); err != nil {
		return err
	}
	return v.tag(l.ref, c.tags)
}

// load reads the log of a run that is not in memory, hence not active: it has
// no open tail.
func (w *writer) load(id string) (*runLog, error) {
	l := &runLog{id: id}
	var status, text string
	err := w.queryRow(`SELECT seq, status, attempt, recorded_attempt, recorded_seq, coalesce(final_metrics, '')
		FROM exec_runs WHERE id = ?`, []any{id},
		&l.ref, &status, &l.attempt, &l.recorded.attempt, &l.recorded.seq, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, err
	}
	l.status = run.Status(status)
	if l.finals, err = decodeFinals(text); err != nil {
		return nil, err
	}
	for k := range logKinds {
		var at recorded
		l.tails[k].first = 1
		err := w.queryRow(`SELECT first_pos + n, attempt, last_seq FROM `+k.chunks()+
			` WHERE run = ? ORDER BY first_pos DESC LIMIT 1`, []any{l.ref}, &l.tails[k].first, &at.attempt, &at.seq)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		l.recorded = l.recorded.max(at)
	}
	return l, nil
}

func notFound(id string) error { return fmt.Errorf("run %s: %w", id, ErrNotFound) }
