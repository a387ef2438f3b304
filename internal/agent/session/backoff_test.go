package session

import (
	"testing"
	"time"
)

// TestBackoff: K-05.
func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n       int
		refused bool
		luck    float64
		want    time.Duration
	}{
		{0, false, 0, 0},
		{0, false, 0.5, 500 * time.Millisecond},
		{1, false, 0.5, time.Second},
		{4, false, 1, 16 * time.Second},
		{5, false, 1, 30 * time.Second},
		{1000, false, 0.5, 15 * time.Second},
		{0, true, 0.5, 5 * time.Second},
		{1000, true, 1, 30 * time.Second},
	} {
		if got := backoff(c.n, c.refused, c.luck); got != c.want {
			t.Errorf("try %d, refused %v, luck %v: %s, want %s", c.n, c.refused, c.luck, got, c.want)
		}
	}
}

func TestWorkerURL(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"http://h:8000":            "ws://h:8000/ws/worker",
		"https://h/base/?x=1#frag": "wss://h/base/ws/worker",
		"h:8000":                   "ws://h:8000/ws/worker",
		"http://user:pass@[::1]:9": "ws://[::1]:9/ws/worker",
	} {
		if got, err := workerURL(from); err != nil || got != want {
			t.Errorf("%s gives %s, %v", from, got, err)
		}
	}
}
