package shim

import (
	"fmt"
	"testing"
	"time"

	"cdui/internal/protocol"
)

// Proves K-07.
func TestLadder(t *testing.T) {
	const grace = 30 * time.Second
	for _, c := range []struct {
		name string
		q    stopQuery
		want string
	}{
		{
			"a command is told at once and killed at the end of the grace",
			stopQuery{kind: protocol.KindCommand, grace: grace},
			"[flag@0s term@0s kill@30s]",
		},
		{
			"force kills at once",
			stopQuery{kind: protocol.KindScript, grace: grace, force: true, watches: true},
			"[kill@0s]",
		},
		{
			"a script that watches the flag has the grace, then SIGTERM, then SIGKILL",
			stopQuery{kind: protocol.KindScript, grace: grace, watches: true},
			"[flag@0s term@30s kill@35s]",
		},
		{
			"a script that ignores SIGTERM may still read the flag",
			stopQuery{kind: protocol.KindScript, grace: grace, mainIgnores: true},
			"[flag@0s term@30s kill@35s]",
		},
		{
			"a script that catches SIGTERM is told at once and has the whole grace",
			stopQuery{kind: protocol.KindScript, grace: grace, mainCatches: true},
			"[flag@0s termMain@0s kill@30s]",
		},
		{
			"a script that nobody could tell is not waited for",
			stopQuery{kind: protocol.KindScript, grace: grace},
			"[term@0s kill@30s]",
		},
		{
			"a graph that watches the flag is like a script",
			stopQuery{kind: protocol.KindGraph, grace: grace, watches: true},
			"[flag@0s term@30s kill@35s]",
		},
		{
			"a negative grace is none",
			stopQuery{kind: protocol.KindCommand, grace: -1},
			"[flag@0s term@0s kill@0s]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := map[rung]string{sendFlag: "flag", termMain: "termMain", termTree: "term", killTree: "kill"}
			got := []string{}
			steps := ladder(c.q)
			for i, s := range steps {
				got = append(got, fmt.Sprintf("%s@%s", names[s.do], s.after))
				if i > 0 && s.after < steps[i-1].after {
					t.Errorf("step %d is due before the one above it", i)
				}
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
