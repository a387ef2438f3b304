package runcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/run"
)

func execute(t *testing.T, cmd *cobra.Command, args ...string) error {
	t.Helper()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...))
	return cmd.ExecuteContext(t.Context())
}

// parse reads a command line without running it.
func parse(t *testing.T, args ...string) (*Options, error) {
	t.Helper()
	var got *Options
	cmd := New(clitest.New(t, 0).Env, Deps{}, func(_ context.Context, o *Options) error {
		got = o
		return nil
	})
	err := execute(t, cmd, args...)
	return got, err
}

func TestOptions(t *testing.T) {
	t.Parallel()
	wait := Watch{Wait: true}
	for _, c := range []struct {
		args string
		want Options
	}{
		{"train.py", Options{File: "train.py", Watch: wait}},
		{"train.py -- --lr 3e-4 -d", Options{File: "train.py", Args: []string{"--lr", "3e-4", "-d"}, Watch: wait}},
		{"-- torchrun --nproc-per-node 2 t.py", Options{Args: []string{"torchrun", "--nproc-per-node", "2", "t.py"}, Watch: wait}},
		{"train.py --device cuda:1 --seed 0 --tag a,b --tag c", Options{File: "train.py", Device: "cuda:1", SeedSet: true, Tags: []string{"a", "b", "c"}, Watch: wait}},
		{"--time-limit 2d -e A=1,2 -e B train.py", Options{File: "train.py", TimeLimit: env.Duration(48 * time.Hour), Env: []string{"A=1,2", "B"}, Watch: wait}},
		{"-d -q train.py", Options{File: "train.py", Watch: Watch{Wait: true, Detach: true, Quiet: true}}},
		{"--wait=false train.py", Options{File: "train.py", Watch: Watch{Detach: true}}},
		{"--timeout 90 --exit-code train.py", Options{File: "train.py", Watch: Watch{Wait: true, Timeout: env.Duration(90 * time.Second), ExitCode: true}}},
	} {
		got, err := parse(t, strings.Fields(c.args)...)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: got %+v", c.args, *got)
		}
	}
}

func TestCommandLinesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"", "run what?"},
		{"train.py extra", "cdui run train.py -- extra"},
		{"train.py --lr 3", "comes after --"},
		{"-d --timeout 5 t.py", "--detach doesn't wait"},
		{"-d --exit-code t.py", "--detach doesn't wait"},
		{"-q --json t.py", "can't be given together"},
		{"--time-limit soon t.py", "write it as 90s, 10m, 1h30m or 2d"},
	} {
		_, err := parse(t, strings.Fields(c.args)...)
		var usage *env.Usage
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	script := found{kind: isScript, path: "/a/train.py", cwd: "/w", interpreter: "/usr/bin/python3", venv: "/v"}
	for _, c := range []struct {
		o    Options
		f    found
		want string
	}{
		{Options{File: "train.py"}, script, `{"script":{"args":[],"cwd":"/w","interpreter":"/usr/bin/python3","path":"/a/train.py","venv":"/v"}}`},
		{
			Options{
				File: "train.py", Args: []string{"--lr", "1"}, Device: "CUDA:0", SeedSet: true, Seed: 7, Tags: []string{"x"}, Note: "n", Key: "k", Hold: true,
				TimeLimit: env.Duration(90 * time.Second), Deterministic: true, Worker: "any", Devices: []string{"cuda:0", "cuda:1"},
			},
			found{kind: isScript, path: "/a/t.py", cwd: "/w", after: []run.After{{Run: clitest.ID("a"), Condition: run.AfterAny}}},
			`{"after":[{"condition":"any","run":"` + clitest.ID("a") + `"}],"deterministic":true,"device":"cuda:0","hold":true,"key":"k","max_run_seconds":90,"note":"n",
			  "script":{"args":["--lr","1"],"cwd":"/w","path":"/a/t.py"},"seed":7,"tags":["x"],"target":{"devices":["cuda:0","cuda:1"],"worker":"any"}}`,
		},
		{
			Options{Args: []string{"sh", "-c", "true"}},
			found{kind: isCommand, program: "/bin/sh", cwd: "/w", env: map[string]string{"A": "1"}},
			`{"command":{"argv":["/bin/sh","-c","true"],"cwd":"/w","env":{"A":"1"}}}`,
		},
	} {
		body, err := build(&c.o, c.f)
		if err != nil {
			t.Errorf("%+v: %v", c.o, err)
			continue
		}
		if got, want := decode(t, body.Options), decode(t, json.RawMessage(c.want)); !reflect.DeepEqual(got, want) {
			t.Errorf("got %s", body.Options)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	script := found{kind: isScript, path: "/a/train.py", cwd: "/w"}
	large := script
	large.env = map[string]string{"FOO": strings.Repeat("x", 200<<10)}
	for _, c := range []struct {
		o    Options
		f    found
		says string
	}{
		{Options{Device: "gpu0"}, script, "use cpu, auto, cuda, cuda:N, mps or mps:N"},
		{Options{Seed: -1, SeedSet: true}, script, "--seed must be 0 to 4294967295"},
		{Options{Devices: []string{"cuda:0", "cuda:0"}}, script, "names cuda:0 twice"},
		{Options{Worker: "Box 1"}, script, "no worker name"},
		{Options{Note: strings.Repeat("x", 1001)}, script, "the limit is 1000"},
		{Options{}, large, "environment too large: FOO has"},
	} {
		_, err := build(&c.o, c.f)
		var usage *env.Usage
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

func TestC6_LargeEnvironmentIsRefusedByName(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	write(t, filepath.Join(e.Dir, "t.py"), "", 0o600)
	control := e.Serve(t, nil)
	o := &Options{File: "t.py", Env: []string{"FOO=" + strings.Repeat("x", 200<<10)}}
	err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, o)
	if err == nil || !strings.Contains(err.Error(), "environment too large: FOO has") {
		t.Errorf("%v", err)
	}
	if len(control.Requests()) > 0 {
		t.Error("the control plane was asked")
	}
}

// submitting answers a submit and a run that has ended.
func submitting(t *testing.T, e *clitest.Env, reply api.SubmitReply, row api.Run) *clitest.Control {
	t.Helper()
	path := "/api/runs/" + reply.RunID
	kind := run.EventExecutionComplete
	if row.Status != run.Succeeded {
		kind = run.EventExecutionError
	}
	return e.Serve(t, map[string]clitest.Reply{
		"POST /api/runs":             {Body: reply},
		"GET " + path:                {Body: row},
		"GET " + path + "/events":    {Body: api.Events{RunID: reply.RunID, Status: row.Status, Cursor: 1, Events: []api.Event{{Cursor: 1, Type: kind, Payload: json.RawMessage("null"), TS: clitest.Now()}}}},
		"GET " + path + "/log":       {Body: []byte("hello\n"), Header: map[string]string{api.HeaderLogSize: "6", api.HeaderLogNext: "6", api.HeaderLogEnded: "true"}},
		"GET " + path + "/artifacts": {Body: api.Artifacts{}},
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	id := clitest.ID("3f1c9ab2")
	three := 3
	queued := api.SubmitReply{RunID: id, Status: run.Queued, QueueKey: "cpu", Position: &three, Reason: &run.Reason{Code: "behind", Text: "behind 5b90cc12"}}
	existing := queued
	existing.Existing, existing.Status = true, run.Succeeded
	ok := api.Run{Row: run.Row{ID: id, Status: run.Succeeded, StartedAt: clitest.Ago(time.Minute), FinishedAt: clitest.Ago(0)}}
	bad := ok
	bad.Status, bad.Error = run.Failed, "exit code 3"
	for _, c := range []struct {
		name     string
		watch    Watch
		reply    api.SubmitReply
		row      api.Run
		out, err string
		code     int
	}{
		{"detached", Watch{Detach: true}, queued, ok, "run 3f1c9ab2  train.py on cpu\nqueued     3rd on cpu, behind 5b90cc12\n", "", 0},
		{"detached, quiet", Watch{Detach: true, Quiet: true}, queued, ok, id + "\n", "", 0},
		{"detached, json", Watch{Detach: true, JSON: true}, queued, ok, `{"run_id":"` + id + `","status":"queued","queue_key":"cpu","name":"","existing":false,"queue_position":3,"queue_reason_detail":{"code":"behind","text":"behind 5b90cc12"}}` + "\n", "", 0},
		{"detached, there already", Watch{Detach: true}, existing, ok, "run 3f1c9ab2  train.py is there already under this key, succeeded\n", "", 0},
		{"followed", Watch{Wait: true}, queued, ok, "hello\n", "run 3f1c9ab2  train.py on cpu\nsucceeded  1m 00s\n", 0},
		{"followed to a failure", Watch{Wait: true}, queued, bad, "hello\n", "run 3f1c9ab2  train.py on cpu\nfailed     1m 00s   exit code 3\n", 1},
		{"its own code", Watch{Wait: true, ExitCode: true}, queued, bad, "hello\n", "run 3f1c9ab2  train.py on cpu\nfailed     1m 00s   exit code 3\n", 3},
		{"quiet", Watch{Wait: true, Quiet: true}, queued, ok, id + "\n", "", 0},
		{"json", Watch{Wait: true, JSON: true}, queued, ok, `{"cursor":1,"type":"execution_complete","payload":null,"ts":"2026-03-04T14:02:00Z"}` + "\n", "", 0},
	} {
		e := clitest.New(t, 0)
		write(t, filepath.Join(e.Dir, "train.py"), "", 0o600)
		submitting(t, e, c.reply, c.row)
		err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, &Options{File: "train.py", Watch: c.watch})
		code := 0
		var exit *env.Exit
		if errors.As(err, &exit) {
			code = exit.Code
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if e.Stdout.String() != c.out || e.Stderr.String() != c.err || code != c.code {
			t.Errorf("%s: out %q, err %q, code %d", c.name, e.Stdout, e.Stderr, code)
		}
	}
}

func TestAfterTakesShortIDs(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	write(t, filepath.Join(e.Dir, "t.py"), "", 0o600)
	full := clitest.ID("3f1c9ab2")
	c := e.Serve(t, map[string]clitest.Reply{
		"GET /api/runs/3f": {Body: api.Run{Row: run.Row{ID: full}}},
		"POST /api/runs":   {Body: api.SubmitReply{RunID: clitest.ID("b"), Status: run.Queued, QueueKey: "cpu"}},
	})
	o := &Options{File: "t.py", After: []string{"3f:any"}, Watch: Watch{Detach: true}}
	if err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, o); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`"after":[{"run":"%s","condition":"any"}]`, full); !strings.Contains(c.Requests()[1].Body, want) {
		t.Errorf("asked %s", c.Requests()[1].Body)
	}
	for _, bad := range []string{"3f:soon", ":any"} {
		o.After = []string{bad}
		var usage *env.Usage
		if err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, o); !errors.As(err, &usage) {
			t.Errorf("--after %s: %v", bad, err)
		}
	}
}

func TestRerun(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	from, to := clitest.ID("a"), clitest.ID("b")
	c := e.Serve(t, map[string]clitest.Reply{
		"GET /api/runs/a":                   {Body: api.Run{Row: run.Row{ID: from, Name: "digits"}}},
		"POST /api/runs/" + from + "/rerun": {Body: api.SubmitReply{RunID: to, Status: run.Queued, QueueKey: "cpu"}},
	})
	cmd := NewRerun(e.Env, Deps{}, func() Rerunner { return e.Client() }, nil)
	if err := execute(t, cmd, "a", "-d", "--device", "cuda:1", "--seed", "0", "--", "--lr", "1"); err != nil {
		t.Fatal(err)
	}
	if got := c.Requests()[1].Body; got != `{"args":["--lr","1"],"options":{"device":"cuda:1","seed":0}}` {
		t.Errorf("asked %s", got)
	}
	if e.Stdout.String() != "run b0000000  digits on cpu\n" {
		t.Errorf("got %q", e.Stdout)
	}
}
