package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Hook is something that is called when something happens. Spec is a JSON
// document; the store doesn't look into it.
type Hook struct {
	Name      string
	Spec      json.RawMessage
	CreatedBy string
	CreatedAt time.Time
}

// AddHook keeps a new hook. ErrTaken: there is one of that name.
func (s *Store) AddHook(ctx context.Context, h Hook) error {
	return s.write(ctx, func(v *view) error {
		err := v.exec(`INSERT INTO hooks (name, spec, created_by, created_at) VALUES (?, ?, ?, ?)`,
			h.Name, string(h.Spec), h.CreatedBy, micros(h.CreatedAt))
		if isUnique(err) {
			return fmt.Errorf("hook %q: %w", h.Name, ErrTaken)
		}
		return err
	})
}

// RemoveHook forgets a hook. ErrUnknown: there is none of that name.
func (s *Store) RemoveHook(ctx context.Context, name string) error {
	return s.write(ctx, func(v *view) error { return v.changeOne(name, `DELETE FROM hooks WHERE name = ?`, name) })
}

// Hooks lists the hooks by name.
func (s *Store) Hooks(ctx context.Context) ([]Hook, error) {
	rows, err := s.query(ctx, `SELECT name, spec, created_by, created_at FROM hooks ORDER BY name`)
	if err != nil {
		return nil, s.readError("list hooks", err)
	}
	defer func() { _ = rows.Close() }()
	var out []Hook
	for rows.Next() {
		var h Hook
		var spec string
		var created int64
		if err := rows.Scan(&h.Name, &spec, &h.CreatedBy, &created); err != nil {
			return nil, s.readError("list hooks", err)
		}
		h.Spec, h.CreatedAt = json.RawMessage(spec), fromMicros(created)
		out = append(out, h)
	}
	return out, s.readError("list hooks", rows.Err())
}
