package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"cdui/internal/run"
)

// activeStatuses is the condition of the index exec_runs_active, word for word.
const activeStatuses = `'queued', 'running', 'disconnected'`

const runColumns = `r.seq, r.id, r.name, r.status, r.error, r.end_class, r.queue_key, r.created_at,
	r.started_at, r.finished_at, r.attempt, r.user, r.git_commit, r.git_dirty, r.plugin_pins,
	r.sweep_id, r.sweep_variant, r.rerun_of, r.worker_id, r.devices, r.fingerprint_digest,
	r.cancel_requested_at, r.options, r.execution_facts, r.retry_of`

// scanRun reads runColumns, then more.
func scanRun(scan func(...any) error, more ...any) (run.Row, error) {
	var r run.Row
	var created int64
	var started, finished, cancel, variant sql.NullInt64
	var dirty sql.NullBool
	var pins, devices, facts sql.NullString
	var options []byte
	dest := []any{
		&r.Seq, &r.ID, &r.Name, &r.Status, &r.Error, &r.EndClass, &r.QueueKey, &created,
		&started, &finished, &r.Attempt, &r.User, &r.GitCommit, &dirty, &pins,
		&r.SweepID, &variant, &r.RerunOf, &r.WorkerID, &devices, &r.FingerprintDigest,
		&cancel, &options, &facts, &r.RetryOf,
	}
	if err := scan(append(dest, more...)...); err != nil {
		return r, err
	}
	if err := json.Unmarshal(options, &r.Options); err != nil {
		return r, fmt.Errorf("%w: options of run %s: %w", ErrDamaged, r.ID, err)
	}
	var err error
	if r.Devices, err = devicesOf(devices); err != nil {
		return r, fmt.Errorf("%w: run %s: %w", ErrDamaged, r.ID, err)
	}
	r.CreatedAt = fromMicros(created)
	r.StartedAt, r.FinishedAt, r.CancelRequestedAt = timeOrNil(started), timeOrNil(finished), timeOrNil(cancel)
	if dirty.Valid {
		r.GitDirty = &dirty.Bool
	}
	if variant.Valid {
		n := int(variant.Int64)
		r.SweepVariant = &n
	}
	r.PluginPins, r.Facts = document(pins), document(facts)
	return r, nil
}

// Run reads one row without its graph.
func (s *Store) Run(ctx context.Context, id string) (run.Row, error) {
	return s.runWhere(ctx, "read run", id, `r.id = ?`, id)
}

// RunsOf reads the rows of several runs by id; unknown ones are left out.
func (s *Store) RunsOf(ctx context.Context, ids []string) (map[string]run.Row, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	rows, err := s.query(ctx, `SELECT `+runColumns+` FROM exec_runs r WHERE r.id IN (SELECT value FROM json_each(?))`, string(list))
	if err != nil {
		return nil, s.readError("read runs", err)
	}
	found, err := s.collectRuns(rows, false)
	out := make(map[string]run.Row, len(found))
	for _, r := range found {
		out[r.ID] = r
	}
	return out, s.readError("read runs", err)
}

// ByKey reads the run that was submitted under an idempotency key.
func (s *Store) ByKey(ctx context.Context, key string) (run.Row, error) {
	return s.runWhere(ctx, "read run of key", key, `r.key = ? AND r.key <> ''`, key)
}

func (s *Store) runWhere(ctx context.Context, what, name, where string, arg any) (run.Row, error) {
	rows, err := s.query(ctx, `SELECT `+runColumns+` FROM exec_runs r WHERE `+where, arg)
	if err != nil {
		return run.Row{}, s.rowError(what, name, err)
	}
	found, err := s.collectRuns(rows, false)
	if err == nil && len(found) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return run.Row{}, s.rowError(what, name, err)
	}
	return found[0], nil
}

func (s *Store) collectRuns(rows *sql.Rows, graphs bool) ([]run.Row, error) {
	defer func() { _ = rows.Close() }()
	var found []run.Row
	for rows.Next() {
		var graph sql.NullString
		var more []any
		if graphs {
			more = append(more, &graph)
		}
		r, err := scanRun(rows.Scan, more...)
		if err != nil {
			return nil, err
		}
		r.Graph = document(graph)
		r.RecordedSeq = s.recordedSeq(&r)
		found = append(found, r)
	}
	return found, rows.Err()
}

// maxResolved is how many candidates Resolve names.
const maxResolved = 10

// Resolve gives the ids that begin with prefix, up to ten of them in order;
// an id that equals prefix comes first.
func (s *Store) Resolve(ctx context.Context, prefix string) ([]string, error) {
	rows, err := s.query(ctx, `SELECT id FROM exec_runs WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`,
		prefix, prefix+"\U0010FFFF", maxResolved)
	if err != nil {
		return nil, s.readError("find runs "+prefix, err)
	}
	ids, err := collectIDs(rows)
	return ids, s.readError("find runs "+prefix, err)
}

// Filter chooses a page of List. Empty fields choose everything; no Limit
// means all runs.
type Filter struct {
	Statuses []run.Status
	User     string
	Tag      string
	Limit    int
	Offset   int
}

// conditions gives the filter's conditions but for the status.
func (f Filter) conditions() (where []string, args []any) {
	if f.User != "" {
		where, args = append(where, `r.user = ?`), append(args, f.User)
	}
	if f.Tag != "" {
		where = append(where, `EXISTS (SELECT 1 FROM exec_run_tags t WHERE t.tag = ? AND t.run = r.seq)`)
		args = append(args, f.Tag)
	}
	return where, args
}

// page selects seq and created_at of the newest n runs, of one status if any.
func (f Filter) page(status run.Status, n int) (string, []any) {
	where, args := f.conditions()
	if status != "" {
		where, args = append(where, `r.status = ?`), append(args, string(status))
	}
	return `SELECT r.seq, r.created_at FROM exec_runs r` + whereClause(where) +
		` ORDER BY r.created_at DESC, r.seq DESC LIMIT ?`, append(args, n)
}

func whereClause(conditions []string) string {
	if len(conditions) == 0 {
		return ""
	}
	return ` WHERE ` + strings.Join(conditions, ` AND `)
}

// List reads a page of rows, newest first, without graphs, and counts all that
// fit the filter.
func (s *Store) List(ctx context.Context, f Filter) ([]run.Row, int, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = -1
	}
	// Each status has its own ordered part of the index: taking the newest of
	// each and merging them reads no more than the page, however rare one is.
	most := limit
	if limit > 0 {
		most = limit + f.Offset
	}
	statuses := f.Statuses
	if len(statuses) == 0 {
		statuses = []run.Status{""}
	}
	parts := make([]string, 0, len(statuses))
	var args []any
	for _, status := range statuses {
		part, partArgs := f.page(status, most)
		parts, args = append(parts, `SELECT * FROM (`+part+`)`), append(args, partArgs...)
	}
	query := `SELECT ` + runColumns + ` FROM (` + strings.Join(parts, ` UNION ALL `) + `) p
		JOIN exec_runs r ON r.seq = p.seq ORDER BY p.created_at DESC, p.seq DESC LIMIT ? OFFSET ?`
	rows, err := s.query(ctx, query, append(args, limit, f.Offset)...)
	if err != nil {
		return nil, 0, s.readError("list runs", err)
	}
	found, err := s.collectRuns(rows, false)
	if err != nil {
		return nil, 0, s.readError("list runs", err)
	}
	total, err := s.count(ctx, f)
	return found, total, s.readError("count runs", err)
}

func (s *Store) count(ctx context.Context, f Filter) (int, error) {
	where, args := f.conditions()
	if len(f.Statuses) > 0 {
		marks := make([]string, len(f.Statuses))
		for i, status := range f.Statuses {
			marks[i], args = `?`, append(args, string(status))
		}
		where = append(where, `r.status IN (`+strings.Join(marks, `, `)+`)`)
	}
	var total int
	err := s.queryRow(ctx, `SELECT count(*) FROM exec_runs r`+whereClause(where), args, &total)
	return total, err
}

const activeRuns = `SELECT ` + runColumns + `, g.graph FROM exec_runs r INDEXED BY exec_runs_active
	LEFT JOIN exec_run_graphs g ON g.run = r.seq
	WHERE r.status IN (` + activeStatuses + `) ORDER BY r.seq`

// Active reads the rows of all runs that haven't ended, with graph and
// RecordedSeq, in the order of their submission.
func (s *Store) Active(ctx context.Context) ([]run.Row, error) {
	rows, err := s.query(ctx, activeRuns)
	if err != nil {
		return nil, s.readError("read active runs", err)
	}
	found, err := s.collectRuns(rows, true)
	return found, s.readError("read active runs", err)
}

// Graph reads a run's graph as it was submitted, nil when it had none.
func (s *Store) Graph(ctx context.Context, id string) (json.RawMessage, error) {
	var graph sql.NullString
	err := s.queryRow(ctx, `SELECT g.graph FROM exec_runs r LEFT JOIN exec_run_graphs g ON g.run = r.seq
		WHERE r.id = ?`, []any{id}, &graph)
	if err != nil {
		return nil, s.rowError("read graph of run", id, err)
	}
	return document(graph), nil
}

// Artifacts reads a run's artifacts, oldest first; an empty kind means all.
func (s *Store) Artifacts(ctx context.Context, id, kind string) ([]Artifact, error) {
	at, err := s.where(ctx, id, eventLog)
	if err != nil {
		return nil, err
	}
	rows, err := s.query(ctx, `SELECT id, kind, path, meta, node_id, backend, created_at FROM exec_run_artifacts
		WHERE run = ?1 AND (?2 = '' OR kind = ?2) ORDER BY id`, at.ref, kind)
	if err != nil {
		return nil, s.readError("read artifacts of run "+id, err)
	}
	defer func() { _ = rows.Close() }()
	var found []Artifact
	for rows.Next() {
		var a Artifact
		var meta sql.NullString
		var created int64
		if err := rows.Scan(&a.ID, &a.Kind, &a.Path, &meta, &a.NodeID, &a.Backend, &created); err != nil {
			return nil, s.readError("read artifacts of run "+id, err)
		}
		a.Meta, a.CreatedAt = document(meta), fromMicros(created)
		found = append(found, a)
	}
	return found, s.readError("read artifacts of run "+id, rows.Err())
}
