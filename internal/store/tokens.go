package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Token is a person's or a program's token. Only its hash is kept.
type Token struct {
	Name, Hash, Role string
	CreatedAt        time.Time
	LastUsed         *time.Time
}

// AddToken keeps a new token. ErrTaken: there is one of that name.
func (s *Store) AddToken(ctx context.Context, t Token) error {
	return s.write(ctx, func(v *view) error {
		err := v.exec(`INSERT INTO tokens (name, token_hash, role, created_at) VALUES (?, ?, ?, ?)`,
			t.Name, t.Hash, t.Role, micros(t.CreatedAt))
		if isUnique(err) {
			return fmt.Errorf("token %q: %w", t.Name, ErrTaken)
		}
		return err
	})
}

// RemoveToken revokes a token. ErrUnknown: there is none of that name.
func (s *Store) RemoveToken(ctx context.Context, name string) error {
	return s.write(ctx, func(v *view) error { return v.changeOne(name, `DELETE FROM tokens WHERE name = ?`, name) })
}

// UseToken notes when a token was last used; one that is gone is no error.
func (s *Store) UseToken(ctx context.Context, name string, at time.Time) error {
	return s.write(ctx, func(v *view) error {
		return v.exec(`UPDATE tokens SET last_used = ? WHERE name = ?`, micros(at), name)
	})
}

// Tokens lists the tokens by name.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := s.query(ctx, `SELECT name, token_hash, role, created_at, last_used FROM tokens ORDER BY name`)
	if err != nil {
		return nil, s.readError("list tokens", err)
	}
	defer func() { _ = rows.Close() }()
	var out []Token
	for rows.Next() {
		var t Token
		var created int64
		var used sql.NullInt64
		if err := rows.Scan(&t.Name, &t.Hash, &t.Role, &created, &used); err != nil {
			return nil, s.readError("list tokens", err)
		}
		t.CreatedAt, t.LastUsed = fromMicros(created), timeOrNil(used)
		out = append(out, t)
	}
	return out, s.readError("list tokens", rows.Err())
}
