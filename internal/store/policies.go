package store

import (
	"context"
	"encoding/json"
	"time"
)

// DevicePolicy is what people decided of a device. Policy is a JSON document;
// the store doesn't look into it.
type DevicePolicy struct {
	Worker, Device string
	Policy         json.RawMessage
}

// QueueHold is a queue key whose runs are kept from starting.
type QueueHold struct {
	Key, Note, CreatedBy string
	CreatedAt            time.Time
}

// DevicePolicies lists the policies by worker and device.
func (s *Store) DevicePolicies(ctx context.Context) ([]DevicePolicy, error) {
	rows, err := s.query(ctx, `SELECT worker, device, policy FROM device_policies ORDER BY worker, device`)
	if err != nil {
		return nil, s.readError("list device policies", err)
	}
	defer func() { _ = rows.Close() }()
	var out []DevicePolicy
	for rows.Next() {
		var p DevicePolicy
		var policy string
		if err := rows.Scan(&p.Worker, &p.Device, &policy); err != nil {
			return nil, s.readError("list device policies", err)
		}
		p.Policy = json.RawMessage(policy)
		out = append(out, p)
	}
	return out, s.readError("list device policies", rows.Err())
}

// PutDevicePolicy keeps a policy in place of the one before; an empty one
// forgets it.
func (s *Store) PutDevicePolicy(ctx context.Context, p DevicePolicy) error {
	return s.write(ctx, func(v *view) error {
		if len(p.Policy) == 0 {
			return v.exec(`DELETE FROM device_policies WHERE worker = ? AND device = ?`, p.Worker, p.Device)
		}
		return v.exec(`INSERT INTO device_policies (worker, device, policy) VALUES (?, ?, ?)
			ON CONFLICT (worker, device) DO UPDATE SET policy = excluded.policy`, p.Worker, p.Device, string(p.Policy))
	})
}

// QueueHolds lists the held keys by name.
func (s *Store) QueueHolds(ctx context.Context) ([]QueueHold, error) {
	rows, err := s.query(ctx, `SELECT key, note, created_by, created_at FROM queue_holds ORDER BY key`)
	if err != nil {
		return nil, s.readError("list held queues", err)
	}
	defer func() { _ = rows.Close() }()
	var out []QueueHold
	for rows.Next() {
		var h QueueHold
		var created int64
		if err := rows.Scan(&h.Key, &h.Note, &h.CreatedBy, &created); err != nil {
			return nil, s.readError("list held queues", err)
		}
		h.CreatedAt = fromMicros(created)
		out = append(out, h)
	}
	return out, s.readError("list held queues", rows.Err())
}

// HoldQueue keeps a hold in place of the one before.
func (s *Store) HoldQueue(ctx context.Context, h QueueHold) error {
	return s.write(ctx, func(v *view) error {
		return v.exec(`INSERT INTO queue_holds (key, note, created_by, created_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET note = excluded.note, created_by = excluded.created_by, created_at = excluded.created_at`,
			h.Key, h.Note, h.CreatedBy, micros(h.CreatedAt))
	})
}

// ReleaseQueue forgets a hold; one that isn't there is no error.
func (s *Store) ReleaseQueue(ctx context.Context, key string) error {
	return s.write(ctx, func(v *view) error { return v.exec(`DELETE FROM queue_holds WHERE key = ?`, key) })
}
