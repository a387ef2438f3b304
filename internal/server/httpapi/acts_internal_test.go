package httpapi

import (
	"net/http"
	"testing"

	"cdui/internal/api"
)

// M-02: a route that changes something says what it does, so that none is left
// out of the log. What workers and the parts of a submission bring along is no
// decision of a person; a call notes its run itself.
func TestEveryChangingRouteSaysWhatItDoes(t *testing.T) {
	silent := map[string]bool{
		"POST " + api.PathCode: true, "PUT " + api.PathBlob: true,
		"POST " + api.PathRunArtifactUpload: true, "PUT " + api.PathRunLog: true,
		"POST " + api.PathGraphRun: true,
	}
	s := New(Config{Workers: noWorkers{}, Tokens: noTokens{}, Policies: noPolicies{}, Sweeps: noSweeps{}, Studies: noStudies{}, Files: noFiles{}, Tunnels: noTunnels{}, Hooks: noHooks{}})
	for _, rt := range s.routes() {
		name := rt.method + " " + rt.path
		changes := rt.method != http.MethodGet && !rt.reads && !silent[name]
		if changes != (rt.act.verb != "" && rt.act.kind != "") {
			t.Errorf("%s changes something: %v; it says %+v", name, changes, rt.act)
		}
		if rt.act.verb != "" && rt.call == nil {
			t.Errorf("%s writes its answer itself, so nobody knows whether it succeeded", name)
		}
	}
}

type (
	noWorkers  struct{ Workers }
	noTokens   struct{ Tokens }
	noPolicies struct{ Policies }
	noSweeps   struct{ Sweeps }
	noStudies  struct{ Studies }
	noFiles    struct{ Files }
	noTunnels  struct{ Tunnels }
	noHooks    struct{ Hooks }
)
