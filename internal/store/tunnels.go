package store

import (
	"context"
	"encoding/json"
	"time"
)

// Tunnel is the way to a worker through ssh.
type Tunnel struct {
	Worker string
	// Spec is a JSON document without a secret; the store doesn't look into it.
	Spec      json.RawMessage
	CreatedAt time.Time
}

// PutTunnel keeps a tunnel, in place of an earlier one to the same worker.
func (s *Store) PutTunnel(ctx context.Context, t Tunnel) error {
	return s.write(ctx, func(v *view) error {
		return v.exec(`INSERT INTO tunnels (worker, spec, created_at) VALUES (?, ?, ?)
			ON CONFLICT (worker) DO UPDATE SET spec = excluded.spec`, t.Worker, string(t.Spec), micros(t.CreatedAt))
	})
}

// RemoveTunnel forgets a tunnel. ErrUnknown: there is none to that worker.
func (s *Store) RemoveTunnel(ctx context.Context, worker string) error {
	return s.write(ctx, func(v *view) error { return v.changeOne(worker, `DELETE FROM tunnels WHERE worker = ?`, worker) })
}

// Tunnels lists the tunnels by worker.
func (s *Store) Tunnels(ctx context.Context) ([]Tunnel, error) {
	rows, err := s.query(ctx, `SELECT worker, spec, created_at FROM tunnels ORDER BY worker`)
	if err != nil {
		return nil, s.readError("list tunnels", err)
	}
	defer func() { _ = rows.Close() }()
	var out []Tunnel
	for rows.Next() {
		var t Tunnel
		var spec string
		var created int64
		if err := rows.Scan(&t.Worker, &spec, &created); err != nil {
			return nil, s.readError("list tunnels", err)
		}
		t.Spec, t.CreatedAt = json.RawMessage(spec), fromMicros(created)
		out = append(out, t)
	}
	return out, s.readError("list tunnels", rows.Err())
}
