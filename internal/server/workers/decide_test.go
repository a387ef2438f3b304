package workers

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"cdui/internal/protocol"
)

func TestReconcile(t *testing.T) {
	alive := func(id string, attempt int) protocol.AliveRun { return protocol.AliveRun{RunID: id, Attempt: attempt} }
	for name, c := range map[string]struct {
		mine  []held
		alive []protocol.AliveRun
		want  reconciliation
	}{
		"nothing anywhere":          {},
		"still there":               {mine: []held{{"a", 1, true}}, alive: []protocol.AliveRun{alive("a", 1)}, want: reconciliation{back: []held{{"a", 1, true}}}},
		"starting there":            {mine: []held{{"a", 1, false}}, alive: []protocol.AliveRun{alive("a", 1)}, want: reconciliation{back: []held{{"a", 1, false}}}},
		"the assignment got lost":   {mine: []held{{"a", 1, false}}, want: reconciliation{neverStarted: []held{{"a", 1, false}}}},
		"the machine was restarted": {mine: []held{{"a", 1, true}}, want: reconciliation{gone: []held{{"a", 1, true}}}},
		"given up here":             {alive: []protocol.AliveRun{alive("a", 1)}, want: reconciliation{strays: []protocol.AliveRun{alive("a", 1)}}},
		"an older attempt": {
			mine: []held{{"a", 2, false}}, alive: []protocol.AliveRun{alive("a", 1), alive("a", 1)},
			want: reconciliation{neverStarted: []held{{"a", 2, false}}, strays: []protocol.AliveRun{alive("a", 1)}},
		},
	} {
		if got := reconcile(c.mine, c.alive); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestLimiter(t *testing.T) {
	l := limiter{burst: 3, every: 10 * time.Second}
	now := time.Unix(1000, 0)
	for i := range 3 {
		if _, ok := l.allow("a", now); !ok {
			t.Fatalf("try %d is refused", i)
		}
	}
	wait, ok := l.allow("a", now)
	if ok || wait != 10*time.Second {
		t.Errorf("the fourth: %v, %v", wait, ok)
	}
	if _, ok := l.allow("b", now); !ok {
		t.Error("another address is refused")
	}
	if _, ok := l.allow("a", now.Add(wait)); !ok {
		t.Error("refused after the wait")
	}
	for i := range 2 * maxAddresses {
		l.allow(fmt.Sprint("x", i), now)
	}
	if len(l.seen) > maxAddresses {
		t.Errorf("remembers %d addresses", len(l.seen))
	}
	if _, ok := l.allow("late", now.Add(time.Hour)); !ok {
		t.Error("a flood shuts the door for ever")
	}
}
