package store

import "context"

// CodeHashes lists the folders of programs that rows name, each once.
func (s *Store) CodeHashes(ctx context.Context) ([]string, error) {
	rows, err := s.query(ctx, `SELECT DISTINCT json_extract(execution_facts, '$.code.hash') FROM exec_runs
		WHERE execution_facts LIKE '%"code":{"hash":"%' AND json_extract(execution_facts, '$.code.hash') IS NOT NULL`)
	if err != nil {
		return nil, s.readError("list folders of programs", err)
	}
	hashes, err := collectIDs(rows)
	return hashes, s.readError("list folders of programs", err)
}
