package retention_test

import (
	"reflect"
	"testing"
	"time"

	"cdui/internal/retention"
)

func TestExpired(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	kept := []retention.Kept{
		{RunID: "new", Bytes: 60, Ended: now.Add(-time.Hour)},
		{RunID: "old", Bytes: 30, Ended: now.Add(-100 * time.Hour)},
		{RunID: "pinned", Bytes: 50, Ended: now.Add(-200 * time.Hour), Pinned: true},
		{RunID: "mid", Bytes: 20, Ended: now.Add(-50 * time.Hour)},
	}
	for _, c := range []struct {
		policy retention.Policy
		want   []string
	}{
		{retention.Policy{}, nil},
		{retention.Policy{MaxAge: 72 * time.Hour}, []string{"old"}},
		{retention.Policy{MaxBytes: 160}, nil},
		{retention.Policy{MaxBytes: 120}, []string{"old", "mid"}},
		{retention.Policy{MaxBytes: 10}, []string{"old", "mid", "new"}},
		{retention.Policy{MaxAge: 72 * time.Hour, MaxBytes: 130}, []string{"old"}},
	} {
		if got := retention.Expired(kept, c.policy, now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.policy, got, c.want)
		}
	}
}
