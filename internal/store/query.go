package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// query runs a statement, prepared once, on the read pool.
func (s *Store) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := s.prepared(ctx, query) //nolint:sqlclosecheck // closeDatabases does it
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// queryRow reads one row, sql.ErrNoRows when there is none.
func (s *Store) queryRow(ctx context.Context, query string, args []any, dest ...any) error {
	stmt, err := s.prepared(ctx, query) //nolint:sqlclosecheck // closeDatabases does it
	if err != nil {
		return err
	}
	return stmt.QueryRowContext(ctx, args...).Scan(dest...)
}

func (s *Store) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := s.queries.Load(query); ok {
		return stmt.(*sql.Stmt), nil
	}
	stmt, err := s.read.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if first, loaded := s.queries.LoadOrStore(query, stmt); loaded {
		_ = stmt.Close() //nolint:sqlclosecheck // the one that was first stays
		return first.(*sql.Stmt), nil
	}
	return stmt, nil
}

// readError says what was being read; nil stays nil.
func (s *Store) readError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, explain(err, s.path, s.patience))
}

// rowError is readError for one run, where no row means no such run.
func (s *Store) rowError(what, id string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return s.readError(what+" "+id, err)
}

func collectIDs(rows *sql.Rows) ([]string, error) {
	defer func() { _ = rows.Close() }()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
