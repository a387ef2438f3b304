package store

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

func micros(t time.Time) int64 { return t.UnixMicro() }

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

func microsOrNil(t *time.Time) any {
	if t == nil {
		return nil
	}
	return micros(*t)
}

func timeOrNil(n sql.NullInt64) *time.Time {
	if !n.Valid {
		return nil
	}
	t := fromMicros(n.Int64)
	return &t
}

func boolOrNil(b *bool) any {
	if b == nil {
		return nil
	}
	return *b
}

func intOrNil(n *int) any {
	if n == nil {
		return nil
	}
	return int64(*n)
}

func documentOrNil(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return string(raw)
}

func document(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return nil
	}
	return json.RawMessage(s.String)
}

func devicesValue(devices []string) (any, error) {
	if devices == nil {
		return nil, nil
	}
	b, err := json.Marshal(devices)
	if err != nil {
		return nil, err
	}
	return string(b), nil
}

func devicesOf(s sql.NullString) ([]string, error) {
	if !s.Valid {
		return nil, nil
	}
	var devices []string
	if err := json.Unmarshal([]byte(s.String), &devices); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	return devices, nil
}
