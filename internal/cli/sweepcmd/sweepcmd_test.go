package sweepcmd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/sweepcmd"
	"cdui/internal/run"
	"cdui/internal/sweep"
)

func execute(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	cmd := sweepcmd.New(e.Env, sweepcmd.Deps{Client: e.Client})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(e.Stdout)
	cmd.SetErr(e.Stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of the test
	return cmd.ExecuteContext(t.Context())
}

func ptr[T any](v T) *T { return &v }

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// swept is a sweep that has all that one can show.
func swept() api.Sweep {
	lr, act := sweep.Address{NodeID: "optimizer", Param: "lr"}, sweep.Address{NodeID: "model", Param: "act"}
	variant := func(i int, status run.Status, lrValue, actValue string) api.SweepVariant {
		return api.SweepVariant{
			Index: i, DomainIndex: i, RunID: clitest.ID(fmt.Sprintf("3f1c9ab%d", i)), RunExists: true, Status: status, Objective: raw("null"),
			Params: []api.SweepValue{{Address: lr, Value: raw(lrValue)}, {Address: act, Value: raw(actValue)}}, QueueKey: "any/cuda", Seed: ptr(int64(7 + i)),
		}
	}
	best := variant(2, run.Succeeded, "0.0003", `"relu"`)
	best.Rank, best.Objective, best.WorkerID, best.Devices = ptr(1), raw("0.12354321"), "box1", []string{"cuda:1"}
	failed := variant(0, run.Failed, "0.1", `"gelu\u001b[31m"`)
	failed.Rank, failed.Objective, failed.Error, failed.Devices = ptr(2), raw("2.5"), "CUDA out of memory:\nasked 9.5 GiB", []string{"cpu"}
	nan := variant(3, run.Succeeded, "1", `"relu"`)
	nan.Rank, nan.ObjectiveNonfinite = ptr(3), "nan"
	gone := variant(4, sweep.Missing, "10", `"relu"`)
	gone.RunExists, gone.QueueKey = false, ""
	return api.Sweep{
		SweepSummary: api.SweepSummary{
			SweepID: clitest.ID("686a314c"), Name: "lr 訓練", State: sweep.Running, Method: "grid",
			Objective: sweep.Objective{Metric: "val_loss", Direction: sweep.Minimize}, CreatedAt: *clitest.Ago(18 * time.Minute),
			Counts: map[run.Status]int{run.Succeeded: 2, run.Failed: 1, run.Running: 1, sweep.Missing: 1},
			Best:   &api.SweepBest{Index: 2, RunID: best.RunID, Objective: best.Objective},
		},
		Params:   []sweep.Domain{{Address: lr}, {Address: act}},
		Variants: []api.SweepVariant{best, failed, nan, variant(1, run.Running, "0.001", `"relu"`), gone},
	}
}

func finishedSweep(status run.Status) api.Sweep {
	w := swept()
	w.State, w.Counts = sweep.Finished, map[run.Status]int{status: 5}
	return w
}

// SWP-07: the table says where each variant ran.
func TestShowAtEachWidth(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{0, 40, 80, 120} {
		e := clitest.New(t, columns)
		e.Serve(t, map[string]clitest.Reply{"GET /api/sweeps/686a": {Body: swept()}})
		if err := execute(t, e, "show", "686a"); err != nil {
			t.Fatal(err)
		}
		clitest.Golden(t, fmt.Sprintf("show-%d", columns), e.Stdout.String())
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	failed := swept().SweepSummary
	failed.State, failed.Best, failed.Name = sweep.Finished, nil, ""
	list := api.SweepList{Total: 2, Sweeps: []api.SweepSummary{swept().SweepSummary, failed}}
	for _, c := range []struct{ args, golden string }{{"ls", "list"}, {"ls -q", "list-quiet"}} {
		e := clitest.New(t, 80)
		control := e.Serve(t, map[string]clitest.Reply{"GET /api/sweeps": {Body: list}})
		if err := execute(t, e, strings.Fields(c.args)...); err != nil {
			t.Fatal(err)
		}
		clitest.Golden(t, c.golden, e.Stdout.String())
		if q := control.Requests()[0].Query; q != "limit=30" {
			t.Errorf("asked %s", q)
		}
	}
}

const graphFile = `{"nodes":[{"id":"optimizer","type":"Optimizer"}],"edges":[]}`

// folder lays files into a folder of e's.
func folder(t *testing.T, e *clitest.Env, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(e.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func control(t *testing.T, e *clitest.Env, more map[string]clitest.Reply) *clitest.Control {
	t.Helper()
	replies := map[string]clitest.Reply{
		"POST /api/graph/validate": {Body: api.ValidateReply{Valid: true}},
		"GET /api/nodes":           {Body: []catalog.Definition{}},
		"GET /api/presets":         {Body: []catalog.Preset{}},
		"POST /api/sweeps": {Status: 201, Body: api.SweepReply{
			SweepID: clitest.ID("686a314c"), Name: "lr", State: sweep.Running, TotalCombinations: 9, Variants: make([]api.SweepChild, 3),
		}},
	}
	maps.Copy(replies, more)
	return e.Serve(t, replies)
}

func body(t *testing.T, c *clitest.Control) api.SweepRequest {
	t.Helper()
	for _, r := range c.Requests() {
		if r.Method == "POST" && r.Path == "/api/sweeps" {
			var req api.SweepRequest
			if err := json.Unmarshal([]byte(r.Body), &req); err != nil {
				t.Fatal(err)
			}
			return req
		}
	}
	t.Fatalf("nothing was queued: %v", c.Requests())
	return api.SweepRequest{}
}

// SW-01: a file is translated into the API's names, its paths are relative to
// it, and the command line beats it.
func TestAFileBecomesARequest(t *testing.T) {
	t.Parallel()
	const params = "params:\n- {node: optimizer, param: lr, values: [1, 2]}\nobjective: {metric: loss, direction: minimize}\n"
	e := clitest.New(t, 0)
	folder(t, e, map[string]string{"sub/net.json": graphFile, "sub/lr.yaml": "graph: net.json\nname: from file\nkey: k\noptions: {tags: [a], device: cpu, target: {worker: any, devices: [cpu], memory_gib: 2}}\n" + params})
	c := control(t, e, nil)
	if err := execute(t, e, "run", "sub/lr.yaml", "-d", "--name", "mine", "--worker", "box1"); err != nil {
		t.Fatal(err)
	}
	req := body(t, c)
	if *req.Name != "mine" || req.Key != "k" || req.SweepSpec.Params[0].NodeID != "optimizer" || string(req.BaseGraph) != graphFile || req.Cwd != e.Dir ||
		string(req.Options) != `{"device":"cpu","tags":["a"],"target":{"devices":["cpu"],"memory_gib":2,"worker":"box1"}}` {
		t.Errorf("%+v %s", req, req.Options)
	}
	if got := e.Stdout.String(); got != "sweep 686a314c  lr: 3 variants of 9 combinations\n" {
		t.Errorf("said %q", got)
	}

	e = clitest.New(t, 0)
	folder(t, e, map[string]string{"job.py": "print(1)", "job.yaml": "script: job.py\nargs: [--epochs, 3]\nparams: [{arg: --lr, values: [1]}]\nobjective: {metric: loss, direction: minimize}\n"})
	c = control(t, e, nil)
	if err := execute(t, e, "run", "job.yaml", "-d", "--json"); err != nil {
		t.Fatal(err)
	}
	var o run.Options
	if err := json.Unmarshal(body(t, c).Options, &o); err != nil || o.Script == nil || o.Script.Path != filepath.Join(e.Dir, "job.py") || strings.Join(o.Script.Args, " ") != "--epochs 3" || *body(t, c).Name != "job" {
		t.Errorf("%+v, %v", o.Script, err)
	}
	var reply api.SweepReply
	if err := json.Unmarshal([]byte(e.Stdout.String()), &reply); err != nil || len(reply.Variants) != 3 {
		t.Errorf("%v: %s", err, e.Stdout)
	}

	e = clitest.New(t, 0)
	e.In = strings.NewReader("command: [sh, -c, exit]\nparams: [{arg: --lr, values: [1]}]\nobjective: {metric: loss, direction: minimize}\n")
	c = control(t, e, nil)
	if err := execute(t, e, "run", "-", "-d", "-q"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body(t, c).Options, &o); err != nil || o.Command == nil || o.Command.Argv[1] != "-c" || body(t, c).Name != nil {
		t.Errorf("%+v, %v", o.Command, err)
	}
	if e.Stdout.String() != clitest.ID("686a314c")+"\n" {
		t.Errorf("said %q", e.Stdout)
	}
}

func TestCommandLinesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"run":                    "needs a sweep file",
		"run a b":                "takes a sweep file",
		"run -d --timeout 5 a":   "--detach doesn't wait",
		"run -q --json a":        "can't be given together",
		"run none.yaml":          "none.yaml: no such file",
		"run bad.yaml":           "bad.yaml: line 2: field parms is not known here",
		"run target.yaml":        "options.target",
		"rerun 686a":             "--failed",
		"show":                   "needs one sweep",
		"show --csv --json 686a": "only one of",
		"ls -n 0":                "--limit",
		"shwo":                   "Did you mean",
		"run lost.yaml":          "no such file",
	} {
		e := clitest.New(t, 0)
		folder(t, e, map[string]string{
			"bad.yaml":    "graph: a\nparms: []\n",
			"target.yaml": "graph: a\noptions: {target: box1}\n",
			"lost.yaml":   "graph: lost.json\n",
		})
		c := control(t, e, nil)
		err := execute(t, e, strings.Fields(args)...)
		var usage *env.Usage
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || len(c.Requests()) > 0 {
			t.Errorf("%s: %v, asked %v", args, err, c.Requests())
		}
	}
}

// A graph that can't run is not queued; exit code 1.
func TestFindingsQueueNothing(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	folder(t, e, map[string]string{"net.json": graphFile, "lr.yaml": "graph: net.json\nparams: []\n"})
	c := control(t, e, map[string]clitest.Reply{"POST /api/graph/validate": {Body: api.ValidateReply{Issues: []api.Issue{{Message: "node \"optimizer\" has no edge"}}}}})
	err := execute(t, e, "run", "lr.yaml")
	var exit *env.Exit
	if !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(e.Stderr.String(), "1 finding") || len(c.Requests()) != 1 {
		t.Errorf("%v, %s", err, e.Stderr)
	}
}

func TestWaitingAndItsExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  string
		sweep api.Sweep
		code  int
		says  string
	}{
		{"wait 686a", finishedSweep(run.Succeeded), 0, "#1  optimizer.lr=0.1 model.act=gelu"},
		{"wait 686a", finishedSweep(run.Failed), 1, "val_loss 2.5"},
		{"wait -q 686a", finishedSweep(run.Failed), 1, ""},
		{"wait 686a --timeout 10ms", swept(), 124, ""},
	} {
		e := clitest.New(t, 0)
		id := clitest.ID("686a314c")
		control(t, e, map[string]clitest.Reply{"GET /api/sweeps/686a": {Body: c.sweep}, "GET /api/sweeps/" + id: {Body: c.sweep}})
		err := execute(t, e, strings.Fields(c.args)...)
		var exit *env.Exit
		code := 0
		if errors.As(err, &exit) {
			code = exit.Code
		}
		if code != c.code || err != nil && exit == nil || !strings.Contains(e.Stderr.String(), c.says) || (c.args == "wait -q 686a") != (e.Stdout.String()+e.Stderr.String() == "") && c.code != 124 {
			t.Errorf("%s: %v, said %q %q", c.args, err, e.Stdout, e.Stderr)
		}
	}
}

func TestCancelAndRerun(t *testing.T) {
	t.Parallel()
	id := clitest.ID("686a314c")
	for _, c := range []struct {
		args  string
		reply any
		want  string
	}{
		{"cancel 686a", api.SweepCancelReply{SweepID: id, Cancelled: 3, AlreadyFinished: 6}, "sweep 686a314c: 3 variants stopped or stopping; 6 had ended already\n"},
		{"cancel 686a", api.SweepCancelReply{SweepID: id, AlreadyFinished: 9}, "sweep 686a314c had ended already\n"},
		{"cancel -q 686a", api.SweepCancelReply{SweepID: id, Cancelled: 1}, id + "\n"},
		{"rerun --failed 686a", api.SweepRerunReply{SweepID: id, Variants: make([]api.SweepChild, 1)}, "sweep 686a314c: 1 variant queued again\n"},
		{"rerun --failed 686a", api.SweepRerunReply{SweepID: id}, "sweep 686a314c: nothing to run again\n"},
		{"rerun --failed -q 686a", api.SweepRerunReply{SweepID: id, Variants: []api.SweepChild{{RunID: "r1"}}}, "r1\n"},
	} {
		e := clitest.New(t, 0)
		control(t, e, map[string]clitest.Reply{"POST /api/sweeps/686a/cancel": {Body: c.reply}, "POST /api/sweeps/686a/rerun": {Body: c.reply}})
		if err := execute(t, e, strings.Fields(c.args)...); err != nil || e.Stdout.String() != c.want {
			t.Errorf("%s: %v, said %q", c.args, err, e.Stdout)
		}
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 80)
	c := control(t, e, map[string]clitest.Reply{"GET /api/sweeps/686a": {Body: []byte("\ufeffrank\n")}})
	if err := execute(t, e, "show", "--csv", "686a"); err != nil || e.Stdout.String() != "\ufeffrank\n" || c.Requests()[0].Query != "format=csv" {
		t.Errorf("%v, %q", err, e.Stdout)
	}
}
