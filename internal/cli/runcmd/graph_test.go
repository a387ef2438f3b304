package runcmd

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/run"
)

const graphFile = `{"nodes":[{"id":"s","type":"Start"},{"id":"x","type":"TensorCreate","data":{"params":{"shape":"2"}}},
	{"id":"p","type":"preset:Halves","data":{}}],"edges":[]}`

// graphs answers what a graph needs before and after its submit.
func graphs(t *testing.T, e *clitest.Env, found api.ValidateReply) *clitest.Control {
	t.Helper()
	shape := catalog.Param{Name: "shape", ParamType: "string", Default: json.RawMessage(`"1"`)}
	alpha := catalog.Param{Name: "alpha", ParamType: "float", Default: json.RawMessage("1")}
	return e.Serve(t, map[string]clitest.Reply{
		"GET /api/nodes":           {Body: []catalog.Definition{{NodeName: "TensorCreate", Params: []catalog.Param{shape}}, {NodeName: "Add", Params: []catalog.Param{alpha}}}},
		"GET /api/presets":         {Body: []catalog.Preset{{Name: "Halves", Nodes: []catalog.PresetNode{{ID: "sum", Type: "Add"}}}}},
		"POST /api/graph/validate": {Body: found},
		"POST /api/runs":           {Body: api.SubmitReply{RunID: clitest.ID("3f1c9ab2"), Status: run.Queued, QueueKey: "cpu", Name: "net.json"}},
	})
}

// bodies gives what was posted to a path.
func bodies(c *clitest.Control, path string) []string {
	var out []string
	for _, r := range c.Requests() {
		if r.Method == "POST" && r.Path == path {
			out = append(out, r.Body)
		}
	}
	return out
}

func TestAGraphIsCheckedAndSubmitted(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	write(t, filepath.Join(e.Dir, "net.json"), graphFile, 0o600)
	c := graphs(t, e, api.ValidateReply{Valid: true, Warnings: []api.Issue{{Message: "an old type"}}})
	o := &Options{
		File: "net.json", Set: []string{"x.shape=3,4", "p.sum.alpha=0.5"}, MaxRetries: 2, SeedSet: true, Seed: 7, Watch: Watch{Detach: true},
	}
	if err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, o); err != nil {
		t.Fatal(err)
	}
	checked, submitted := bodies(c, "/api/graph/validate"), bodies(c, "/api/runs")
	if len(checked) != 1 || len(submitted) != 1 {
		t.Fatalf("%d checks, %d submits", len(checked), len(submitted))
	}
	var body api.SubmitRequest
	if err := json.Unmarshal([]byte(submitted[0]), &body); err != nil {
		t.Fatal(err)
	}
	if string(body.Graph) != checked[0] || !strings.Contains(checked[0], `"shape":"3,4"`) || !strings.Contains(checked[0], `"internalParams":{"sum":{"alpha":0.5}}`) {
		t.Errorf("checked %s, submitted %s", checked[0], body.Graph)
	}
	if body.Cwd != e.Dir || body.Name == nil || *body.Name != "net.json" {
		t.Errorf("cwd %q, name %v", body.Cwd, body.Name)
	}
	var options map[string]any
	if err := json.Unmarshal(body.Options, &options); err != nil || options["error_mode"] != "retry" || options["max_retries"] != 2.0 || options["seed"] != 7.0 {
		t.Errorf("%v, options %s", err, body.Options)
	}
	if e.Stdout.String() != "run 3f1c9ab2  net.json on cpu\n" || e.Stderr.String() != "warning: an old type\n" {
		t.Errorf("out %q, err %q", e.Stdout, e.Stderr)
	}
}

// Proves A.9.
func TestAGraphWithFindingsIsNotSubmitted(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	write(t, filepath.Join(e.Dir, "broken.json"), graphFile, 0o600)
	c := graphs(t, e, api.ValidateReply{Issues: []api.Issue{{Message: `node "conv2" (Conv2d): input "tensor" has no edge`}, {Message: "the nodes wait for each other"}}})
	err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, &Options{File: "broken.json", Watch: Watch{Wait: true}})
	var exit *env.Exit
	if !errors.As(err, &exit) || exit.Code != 1 || exit.Text != "" {
		t.Errorf("%v", err)
	}
	want := "broken.json: 2 findings\n  node \"conv2\" (Conv2d): input \"tensor\" has no edge\n  the nodes wait for each other\n"
	if e.Stderr.String() != want || e.Stdout.String() != "" || len(bodies(c, "/api/runs")) > 0 {
		t.Errorf("err %q, out %q", e.Stderr, e.Stdout)
	}
}

func TestFlagsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{File: "t.py", Set: []string{"a.b=1"}}, "--set is for graphs"},
		{Options{Args: []string{"true"}, ErrorMode: "retry"}, "--error-mode is for graphs"},
		{Options{File: "t.py", MaxRetries: 1}, "--max-retries is for graphs"},
		{Options{File: "net.json", Env: []string{"A=1"}}, "--env is for scripts and commands"},
		{Options{File: "net.json", Python: "python3"}, "--python is for scripts and commands"},
		{Options{File: "net.JSON", Args: []string{"x"}}, "a graph takes no arguments"},
		{Options{File: "net.json", MaxRetries: 3, ErrorMode: "continue"}, "--max-retries goes with --error-mode retry"},
		{Options{File: "net.json", ErrorMode: "sometimes"}, "error_mode"},
		{Options{File: "net.json", MaxRetries: 11}, "max_retries"},
		{Options{File: "net.json", Set: []string{"x.shap=1"}}, "--set x.shap: TensorCreate has no param \"shap\"; did you mean shape?"},
		{Options{File: "net.json", Set: []string{"y.shape=1"}}, "there is no node \"y\""},
		{Options{File: "net.json", Set: []string{"p.sum.alpha=much"}}, "is a number"},
	} {
		e := clitest.New(t, 0)
		write(t, filepath.Join(e.Dir, "net.json"), graphFile, 0o600)
		write(t, filepath.Join(e.Dir, "net.JSON"), graphFile, 0o600)
		write(t, filepath.Join(e.Dir, "t.py"), "", 0o600)
		control := graphs(t, e, api.ValidateReply{Valid: true})
		err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, &c.o)
		var usage *env.Usage
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.o, err)
		}
		if len(bodies(control, "/api/runs")) > 0 {
			t.Errorf("%+v: it was submitted", c.o)
		}
	}
}

func TestAGraphIsFollowed(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	write(t, filepath.Join(e.Dir, "net.json"), graphFile, 0o600)
	id := clitest.ID("3f1c9ab2")
	row := api.Run{Row: run.Row{ID: id, Status: run.Succeeded, StartedAt: clitest.Ago(time.Minute), FinishedAt: clitest.Ago(0)}}
	events := api.Events{RunID: id, Status: run.Succeeded, Cursor: 2, Events: []api.Event{
		{Cursor: 1, Type: run.EventNodeStatus, Payload: json.RawMessage(`{"node_id":"x","status":"completed","outputs":[{"output_kind":"text","text":"[x] two\nlines"}]}`)},
		{Cursor: 2, Type: run.EventExecutionComplete, Payload: json.RawMessage("null")},
	}}
	e.Serve(t, map[string]clitest.Reply{
		"POST /api/graph/validate": {Body: api.ValidateReply{Valid: true}},
		"POST /api/runs":           {Body: api.SubmitReply{RunID: id, Status: run.Running, QueueKey: "cpu", Name: "net.json"}},
		"GET /api/runs/" + id:      {Body: row}, "GET /api/runs/" + id + "/events": {Body: events}, "GET /api/runs/" + id + "/artifacts": {Body: api.Artifacts{}},
		"GET /api/runs/" + id + "/log": {Header: map[string]string{api.HeaderLogSize: "0", api.HeaderLogNext: "0", api.HeaderLogEnded: "true"}},
	})
	if err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, &Options{File: "net.json", Watch: Watch{Wait: true}}); err != nil {
		t.Fatal(err)
	}
	if e.Stdout.String() != "[x] two\nlines\n" || e.Stderr.String() != "run 3f1c9ab2  net.json on cpu\nsucceeded  1m 00s\n" {
		t.Errorf("out %q, err %q", e.Stdout, e.Stderr)
	}
}
