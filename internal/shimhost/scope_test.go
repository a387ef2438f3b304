package shimhost_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cdui/internal/shim/proctree"
	"cdui/internal/shimhost"
)

// scopes notes who is to get a scope, and who was there by then.
type scopes struct {
	mu     sync.Mutex
	names  []string
	pids   []int
	groups []int
}

func (s *scopes) Adopt(_ context.Context, name string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names, s.pids = append(s.names, name), append(s.pids, pid)
	running := 0
	for _, p := range proctree.Descendants(pid) {
		if raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline"); err == nil && strings.Contains(string(raw), "scope-marker") {
			running++
		}
	}
	s.groups = append(s.groups, running)
}

// Proves K-06: a shim has its scope before its run has a process, so that all
// of them are in it.
func TestAShimHasItsScopeBeforeItsChild(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, way string) {
		var s scopes
		h := newHost(t, shimhost.Config{Isolate: way, Scopes: &s})
		a := command("sh", "-c", "echo scope-marker")
		r := launch(t, h, a)
		toEnd(t, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.names) != 1 || !strings.HasPrefix(s.names[0], "cdui-run-"+a.RunID+"-") || s.pids[0] <= 1 || s.groups[0] != 0 {
			t.Errorf("scopes %q for %v, beside %v processes of the run", s.names, s.pids, s.groups)
		}
	})
}
