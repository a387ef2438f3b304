package store

import (
	"context"

	"cdui/internal/run"
)

// RetriedAs gives the run that repeats another one, "" if none does.
func (s *Store) RetriedAs(ctx context.Context, id string) (string, error) {
	rows, err := s.query(ctx, `SELECT id FROM exec_runs WHERE retry_of = ? AND retry_of <> ''`, id)
	if err != nil {
		return "", s.readError("look for the repetition of run "+id, err)
	}
	ids, err := collectIDs(rows)
	if err != nil || len(ids) == 0 {
		return "", s.readError("look for the repetition of run "+id, err)
	}
	return ids[0], nil
}

// Peaks gives what the last runs of one likeness took, the newest first.
func (s *Store) Peaks(ctx context.Context, likeness string, n int) ([]run.Peak, error) {
	rows, err := s.query(ctx, `SELECT peak_mib, end_class FROM exec_runs
		WHERE likeness = ? AND peak_mib > 0 ORDER BY seq DESC LIMIT ?`, likeness, n)
	if err != nil {
		return nil, s.readError("read the memory of earlier runs", err)
	}
	defer func() { _ = rows.Close() }()
	var out []run.Peak
	for rows.Next() {
		var p run.Peak
		if err := rows.Scan(&p.MiB, &p.Class); err != nil {
			return nil, s.readError("read the memory of earlier runs", err)
		}
		out = append(out, p)
	}
	return out, s.readError("read the memory of earlier runs", rows.Err())
}
