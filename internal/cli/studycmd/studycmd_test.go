package studycmd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/studycmd"
	"cdui/internal/run"
	"cdui/internal/study"
)

func execute(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	cmd := studycmd.New(e.Env, studycmd.Deps{Client: e.Client})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(e.Stdout)
	cmd.SetErr(e.Stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of the test
	return cmd.ExecuteContext(t.Context())
}

func ptr[T any](v T) *T { return &v }

// studied is a study that has all that one can show.
func studied() api.Study {
	attempt := func(n int, id string, status run.Status) api.StudyAttempt {
		return api.StudyAttempt{Attempt: n, RunID: clitest.ID(id), RunExists: true, Status: status, WorkerID: "box1", Devices: []string{"cuda:0"}}
	}
	lost := attempt(1, "a1", run.Interrupted)
	lost.Lost, lost.Error, lost.EndClass = true, "worker box1 was removed", run.EndWorkerLost
	over := attempt(1, "a3", run.Cancelled)
	over.Stopped = study.ByRunTime
	return api.Study{
		StudySummary: api.StudySummary{
			StudyID: clitest.ID("81d00211"), Name: "digits", State: api.StudyRunning, CreatedAt: *clitest.Ago(time.Hour), ActiveSeconds: 1084,
			Spec:   study.Spec{Repetitions: 4, Seed: 7, Confidence: 0.95, MaxAttempts: 3},
			Counts: map[study.Outcome]int{study.Scored: 1, study.Going: 1, study.OverTime: 1, study.Failed: 1},
			Metrics: []study.Summary{
				{Name: "eval_accuracy", N: 3, Mean: ptr(0.87222), SD: ptr(0.036432), CILow: ptr(0.78172), CIHigh: ptr(0.96273), Min: ptr(0.8333), Max: ptr(0.9056)},
				{Name: "train_loss", N: 1, Nonfinite: 2, Mean: ptr(0.5), Min: ptr(0.5), Max: ptr(0.5)},
			},
			SweepID: clitest.ID("686a314c"), SweepVariant: ptr(6),
		},
		List: []api.StudyRepetition{
			{Index: 0, Seed: 7, Outcome: study.Scored, Attempts: []api.StudyAttempt{lost, attempt(2, "a2", run.Succeeded)}},
			{Index: 1, Seed: 8, Outcome: study.OverTime, Attempts: []api.StudyAttempt{over}},
			{Index: 2, Seed: 9, Outcome: study.Going, Attempts: []api.StudyAttempt{attempt(1, "a4", run.Running)}},
			{Index: 3, Seed: 10, Outcome: study.Failed, Attempts: []api.StudyAttempt{{Attempt: 1, Error: "no worker \"box9\""}}},
		},
	}
}

func over(scored int) api.Study {
	y := studied()
	y.State, y.Counts = api.StudyFinished, map[study.Outcome]int{study.Scored: scored, study.Failed: 4 - scored}
	return y
}

func TestShowAtEachWidth(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{0, 40, 80, 120} {
		e := clitest.New(t, columns)
		e.Serve(t, map[string]clitest.Reply{"GET /api/studies/81d0": {Body: studied()}})
		if err := execute(t, e, "show", "81d0"); err != nil {
			t.Fatal(err)
		}
		clitest.Golden(t, fmt.Sprintf("show-%d", columns), e.Stdout.String())
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	bare := over(4).StudySummary
	bare.Metrics, bare.Name = nil, ""
	e := clitest.New(t, 80)
	e.Serve(t, map[string]clitest.Reply{"GET /api/studies": {Body: api.StudyList{Studies: []api.StudySummary{studied().StudySummary, bare}}}})
	if err := execute(t, e, "ls"); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "list", e.Stdout.String())
}

func TestCommandLinesThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"run":                        "repeat what?",
		"run a.py b":                 "cdui study run a.py -- b",
		"run a.py -d --timeout 5":    "--detach doesn't wait",
		"run a.py -q --json":         "can't be given together",
		"run a.py --sweep 68":        "either a file or --sweep",
		"run a.py -n 0":              "--repetitions",
		"run a.py --max-attempts 0":  "--max-attempts",
		"run a.py --confidence 2":    "--confidence",
		"run none.py":                "no such file",
		"run --sweep 68 --set a.b=1": "as it was",
		"run --sweep 68 --worker _":  "no worker name",
		"show":                       "needs one study",
		"resume":                     "needs one study",
		"ls -n 501":                  "--limit",
	} {
		e := clitest.New(t, 0)
		c := e.Serve(t, nil)
		err := execute(t, e, strings.Fields(args)...)
		var usage *env.Usage
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || len(c.Requests()) > 0 {
			t.Errorf("%s: %v, asked %v", args, err, c.Requests())
		}
	}
}

func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	reply := clitest.Reply{Status: 201, Body: api.StudyReply{Study: studied()}}
	for _, c := range []struct {
		args  []string
		check func(e *clitest.Env, r api.StudyRequest, o run.Options) bool
	}{
		{
			[]string{"run", "job.py", "-n", "7", "--seed", "3", "--max-run", "2h", "--max-active", "1d", "--key", "k", "--tag", "a", "-d", "--", "--lr", "1"},
			func(e *clitest.Env, r api.StudyRequest, o run.Options) bool {
				return r.Repetitions == 7 && *r.Seed == 3 && r.MaxRunSeconds == 7200 && r.MaxActiveSeconds == 86400 && r.Key == "k" && *r.Name == "job.py" &&
					o.Script.Path == filepath.Join(e.Dir, "job.py") && strings.Join(o.Script.Args, " ") == "--lr 1" && o.Tags[0] == "a"
			},
		},
		{
			[]string{"run", "-d", "--name", "n", "--", "sh", "-c", "exit"},
			func(_ *clitest.Env, r api.StudyRequest, o run.Options) bool {
				return r.Repetitions == 5 && *r.Confidence == 0.95 && *r.MaxAttempts == 3 && *r.Name == "n" && o.Command.Argv[2] == "exit"
			},
		},
		{
			[]string{"run", "--sweep", "686a", "--worker", "any", "-d"},
			func(_ *clitest.Env, r api.StudyRequest, o run.Options) bool {
				return r.SweepID == "686a" && r.Name == nil && o.Target.Worker == "any" && r.BaseGraph == nil
			},
		},
	} {
		e := clitest.New(t, 0)
		if err := os.WriteFile(filepath.Join(e.Dir, "job.py"), []byte("print(1)"), 0o600); err != nil {
			t.Fatal(err)
		}
		control := e.Serve(t, map[string]clitest.Reply{"POST /api/studies": reply})
		if err := execute(t, e, c.args...); err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		var r api.StudyRequest
		var o run.Options
		asked := control.Requests()[0].Body
		if err := json.Unmarshal([]byte(asked), &r); err != nil || json.Unmarshal(r.Options, &o) != nil || !c.check(e, r, o) {
			t.Errorf("%v asked %s", c.args, asked)
		}
		if e.Stdout.String() != "study 81d00211  digits: 4 repetitions\n" {
			t.Errorf("said %q", e.Stdout)
		}
	}
}

func TestWaitingAndItsExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  string
		study api.Study
		code  int
		says  string
	}{
		{"wait 81d0", over(4), 0, "#1, try 2  seed 7  succeeded"},
		{"wait 81d0", over(3), 1, "interrupted, lost: worker box1 was removed"},
		{"wait 81d0 --timeout 10ms", studied(), 124, ""},
	} {
		e := clitest.New(t, 0)
		e.Serve(t, map[string]clitest.Reply{"GET /api/studies/81d0": {Body: c.study}, "GET /api/studies/" + clitest.ID("81d00211"): {Body: c.study}})
		err := execute(t, e, strings.Fields(c.args)...)
		var exit *env.Exit
		code := 0
		if errors.As(err, &exit) {
			code = exit.Code
		}
		if code != c.code || err != nil && exit == nil || !strings.Contains(e.Stderr.String(), c.says) {
			t.Errorf("%s: %v, said %q", c.args, err, e.Stderr)
		}
	}
}

func TestCancelAndResume(t *testing.T) {
	t.Parallel()
	stopping := studied()
	stopping.State, stopping.Stopped = api.StudyCancelling, study.ByCancel
	for _, c := range []struct{ args, body, says string }{
		{"cancel 81d0", "", "cdui study wait 81d00211"},
		{"resume 81d0", "{}", ""},
		{"resume 81d0 --max-active 2h --max-run 0", `{"max_run_seconds":0,"max_active_seconds":7200}`, ""},
	} {
		e := clitest.New(t, 0)
		control := e.Serve(t, map[string]clitest.Reply{"POST /api/studies/81d0/cancel": {Body: stopping}, "POST /api/studies/81d0/resume": {Body: studied()}})
		if err := execute(t, e, strings.Fields(c.args)...); err != nil || !strings.Contains(e.Stderr.String(), c.says) || !strings.Contains(e.Stdout.String(), "study 81d00211  digits") {
			t.Errorf("%s: %v, said %q %q", c.args, err, e.Stdout, e.Stderr)
		}
		if got := control.Requests()[0].Body; got != c.body {
			t.Errorf("%s asked %s", c.args, got)
		}
	}
}
