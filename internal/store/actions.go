package store

import (
	"context"
	"time"
)

// Action is one change that somebody asked for: who did what to what, when,
// from where.
type Action struct {
	Seq  int64
	At   time.Time
	User string
	// Peer is the address that the request came from.
	Peer string
	// Verb is what was done, Kind and Object to what.
	Verb, Kind, Object string
	Detail             string
}

// AddAction keeps an action, and of the older ones so many that keep are left.
func (s *Store) AddAction(ctx context.Context, a Action, keep int) error {
	return s.write(ctx, func(v *view) error {
		err := v.exec(`INSERT INTO actions (at, user, peer, verb, kind, object, detail) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			micros(a.At), a.User, a.Peer, a.Verb, a.Kind, a.Object, a.Detail)
		if err != nil {
			return err
		}
		return v.exec(`DELETE FROM actions WHERE seq <= (SELECT max(seq) FROM actions) - ?`, keep)
	})
}

// Actions lists up to limit actions, newest first; before is the number of the
// one that the list goes on after, 0 for the newest.
func (s *Store) Actions(ctx context.Context, before int64, limit int) ([]Action, error) {
	rows, err := s.query(ctx, `SELECT seq, at, user, peer, verb, kind, object, detail FROM actions
		WHERE seq < CASE ?1 WHEN 0 THEN 9223372036854775807 ELSE ?1 END ORDER BY seq DESC LIMIT ?2`, before, limit)
	if err != nil {
		return nil, s.readError("list actions", err)
	}
	defer func() { _ = rows.Close() }()
	var out []Action
	for rows.Next() {
		var a Action
		var at int64
		if err := rows.Scan(&a.Seq, &at, &a.User, &a.Peer, &a.Verb, &a.Kind, &a.Object, &a.Detail); err != nil {
			return nil, s.readError("list actions", err)
		}
		a.At = fromMicros(at)
		out = append(out, a)
	}
	return out, s.readError("list actions", rows.Err())
}
