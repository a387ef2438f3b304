package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// applicationID marks a database as ours ("cdui").
const applicationID = 0x63647569

// migration brings a schema from version-1 to version.
type migration struct {
	version int
	name    string
	sql     string
}

// migrations lists the embedded migrations, numbered from 1 without a gap.
func migrations() ([]migration, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	list := make([]migration, 0, len(entries))
	for i, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: number %d expected", e.Name(), i+1)
		}
		text, err := fs.ReadFile(migrationFiles, path.Join("migrations", e.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, migration{version, e.Name(), string(text)})
	}
	return list, nil
}

// migrator brings a database up to date through its write connection.
type migrator struct {
	conn   *sql.Conn
	path   string
	logger *slog.Logger
}

// version gives the schema version; 0 is an empty database. A database of
// another program is refused.
func (m *migrator) version(ctx context.Context) (int, error) {
	var id, version, tables int
	row := m.conn.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`)
	if err := row.Scan(&id, &version, &tables); err != nil {
		return 0, fmt.Errorf("read schema version of %s: %w", m.path, err)
	}
	if id != applicationID && (version != 0 || tables != 0) {
		return 0, fmt.Errorf("%s is a database of another program; choose another data folder", m.path)
	}
	return version, nil
}

func (m *migrator) run(ctx context.Context, known []migration) error {
	version, err := m.version(ctx)
	if err != nil {
		return err
	}
	if version > len(known) {
		return fmt.Errorf("%w: %s has schema %d, this release knows %d; start the newer cdui, or put back the copy that it made before upgrading (%s)",
			ErrNewerSchema, m.path, version, len(known), m.copyName(len(known)))
	}
	if version > 0 && version < len(known) {
		if err := m.copy(ctx, version); err != nil {
			return err
		}
	}
	for _, step := range known[version:] {
		if err := m.step(ctx, step); err != nil {
			return fmt.Errorf("migration %s of %s: %w", step.name, m.path, err)
		}
		m.logger.InfoContext(ctx, "database migrated", "path", m.path, "schema", step.version)
	}
	return nil
}

// step applies one migration in a transaction of its own.
func (m *migrator) step(ctx context.Context, step migration) error {
	tx, err := m.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	text := fmt.Sprintf("%s;\nPRAGMA application_id = %d;\nPRAGMA user_version = %d;",
		step.sql, applicationID, step.version)
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return err
	}
	return tx.Commit()
}

func (m *migrator) copyName(version int) string {
	return fmt.Sprintf("%s.v%d.copy", m.path, version)
}

// copy keeps the database as it was before an upgrade. The copy of an earlier
// try is replaced.
func (m *migrator) copy(ctx context.Context, version int) error {
	name := m.copyName(version)
	partial, err := partialFile(name)
	if err != nil {
		return fmt.Errorf("copy %s before upgrading: %w", m.path, err)
	}
	defer func() { _ = os.Remove(partial) }()
	if err := vacuumInto(ctx, m.conn, partial); err != nil {
		return fmt.Errorf("copy %s to %s before upgrading: %w", m.path, name, err)
	}
	if err := os.Rename(partial, name); err != nil {
		return fmt.Errorf("copy %s before upgrading: %w", m.path, err)
	}
	m.logger.InfoContext(ctx, "database copied before upgrade", "path", m.path, "copy", name)
	return nil
}
