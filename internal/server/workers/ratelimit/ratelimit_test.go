package ratelimit

import (
	"fmt"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	l := Limiter{Burst: 3, Every: 10 * time.Second}
	now := time.Unix(1000, 0)
	for i := range 3 {
		if _, ok := l.Allow("a", now); !ok {
			t.Fatalf("try %d is refused", i)
		}
	}
	wait, ok := l.Allow("a", now)
	if ok || wait != 10*time.Second {
		t.Errorf("the fourth: %v, %v", wait, ok)
	}
	if _, ok := l.Allow("b", now); !ok {
		t.Error("another address is refused")
	}
	if _, ok := l.Allow("a", now.Add(wait)); !ok {
		t.Error("refused after the wait")
	}
	for i := range 2 * maxAddresses {
		l.Allow(fmt.Sprint("x", i), now)
	}
	if len(l.seen) > maxAddresses {
		t.Errorf("remembers %d addresses", len(l.seen))
	}
	if _, ok := l.Allow("late", now.Add(time.Hour)); !ok {
		t.Error("a flood shuts the door for ever")
	}
}
