package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"
)

// Fingerprint is the document of an environment, by its digest.
type Fingerprint struct {
	Digest   string
	Document json.RawMessage
}

// Source is a record of what nodes of a run were made of. A later one of the
// same name takes its place.
type Source struct {
	Name   string
	Record json.RawMessage
}

// KeepFingerprint keeps a document; one that is there stays.
func (s *Store) KeepFingerprint(ctx context.Context, f Fingerprint) error {
	return s.write(ctx, func(v *view) error { return v.fingerprint(f) })
}

func (v *view) fingerprint(f Fingerprint) error {
	return v.exec(`INSERT OR IGNORE INTO exec_run_fingerprints (digest, document, created_at) VALUES (?, ?, ?)`,
		f.Digest, string(f.Document), micros(time.Now()))
}

// provenance stores what a change says of the run's surroundings.
func (v *view) provenance(l *runLog, c *prepared) error {
	if c.Fingerprint != nil {
		if err := v.fingerprint(*c.Fingerprint); err != nil {
			return err
		}
	}
	for _, src := range c.Sources {
		if err := v.exec(`INSERT OR REPLACE INTO exec_run_provenance (run, name, record) VALUES (?, ?, ?)`,
			l.ref, src.Name, string(src.Record)); err != nil {
			return err
		}
	}
	return nil
}

// Fingerprint gives the document of a digest, nil when there is none.
func (s *Store) Fingerprint(ctx context.Context, digest string) (json.RawMessage, error) {
	var doc string
	err := s.queryRow(ctx, `SELECT document FROM exec_run_fingerprints WHERE digest = ?`, []any{digest}, &doc)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.readError("read fingerprint "+digest, err)
	}
	return json.RawMessage(doc), nil
}

// Sources lists what a run's nodes were made of, by name.
func (s *Store) Sources(ctx context.Context, id string) ([]Source, error) {
	rows, err := s.query(ctx, `SELECT p.name, p.record FROM exec_run_provenance p
		JOIN exec_runs r ON r.seq = p.run WHERE r.id = ? ORDER BY p.name`, id)
	if err != nil {
		return nil, s.rowError("read sources of run", id, err)
	}
	defer func() { _ = rows.Close() }()
	var out []Source
	for rows.Next() {
		var src Source
		var record string
		if err := rows.Scan(&src.Name, &record); err != nil {
			return nil, s.rowError("read sources of run", id, err)
		}
		src.Record = json.RawMessage(record)
		out = append(out, src)
	}
	return out, s.readError("read sources of run "+id, rows.Err())
}
