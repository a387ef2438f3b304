package admit_test

import (
	"reflect"
	"testing"

	"cdui/internal/protocol"
	"cdui/internal/server/workers/admit"
)

func TestReconcile(t *testing.T) {
	alive := func(id string, attempt int) protocol.AliveRun { return protocol.AliveRun{RunID: id, Attempt: attempt} }
	for name, c := range map[string]struct {
		mine  []admit.Held
		alive []protocol.AliveRun
		want  admit.Reconciliation
	}{
		"nothing anywhere":          {},
		"still there":               {mine: []admit.Held{{RunID: "a", Attempt: 1, Reported: true}}, alive: []protocol.AliveRun{alive("a", 1)}, want: admit.Reconciliation{Back: []admit.Held{{RunID: "a", Attempt: 1, Reported: true}}}},
		"starting there":            {mine: []admit.Held{{RunID: "a", Attempt: 1, Reported: false}}, alive: []protocol.AliveRun{alive("a", 1)}, want: admit.Reconciliation{Back: []admit.Held{{RunID: "a", Attempt: 1, Reported: false}}}},
		"the assignment got lost":   {mine: []admit.Held{{RunID: "a", Attempt: 1, Reported: false}}, want: admit.Reconciliation{NeverStarted: []admit.Held{{RunID: "a", Attempt: 1, Reported: false}}}},
		"the machine was restarted": {mine: []admit.Held{{RunID: "a", Attempt: 1, Reported: true}}, want: admit.Reconciliation{Gone: []admit.Held{{RunID: "a", Attempt: 1, Reported: true}}}},
		"given up here":             {alive: []protocol.AliveRun{alive("a", 1)}, want: admit.Reconciliation{Strays: []protocol.AliveRun{alive("a", 1)}}},
		"an older attempt": {
			mine: []admit.Held{{RunID: "a", Attempt: 2, Reported: false}}, alive: []protocol.AliveRun{alive("a", 1), alive("a", 1)},
			want: admit.Reconciliation{NeverStarted: []admit.Held{{RunID: "a", Attempt: 2, Reported: false}}, Strays: []protocol.AliveRun{alive("a", 1)}},
		},
	} {
		if got := admit.Reconcile(c.mine, c.alive); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
