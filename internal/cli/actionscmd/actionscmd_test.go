package actionscmd_test

import (
	"errors"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/cli/actionscmd"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
)

func execute(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	cmd := actionscmd.New(e.Env, actionscmd.Deps{Client: e.Client})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(e.Stdout)
	cmd.SetErr(e.Stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of the test
	return cmd.ExecuteContext(t.Context())
}

// Proves M-02: the command says who did what to what, when, from where.
func TestActionsAreListed(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef"
	list := api.ActionList{Actions: []api.Action{
		{Seq: 8, TS: clitest.Now(), User: "ada", From: "10.0.0.7", Verb: "cancel", Kind: "run", ID: id, Detail: "grace 10 s"},
		{Seq: 7, TS: clitest.Now(), From: "127.0.0.1", Verb: "stop", Kind: "server", Detail: "0 runs go on"},
	}}
	e := clitest.New(t, 0)
	c := e.Serve(t, map[string]clitest.Reply{"GET /api/actions": {Body: list}})
	if err := execute(t, e, "-n", "2"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2026-03-04 14:02:00", "ada", "10.0.0.7", "cancel", "run 01234567", "grace 10 s", "-", "stop"} {
		if !strings.Contains(e.Stdout.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, e.Stdout)
		}
	}
	if strings.Contains(e.Stdout.String(), id) {
		t.Errorf("the id is not shortened:\n%s", e.Stdout)
	}
	if got := c.Requests(); len(got) != 1 || got[0].Query != "limit=2" {
		t.Errorf("asked %+v", got)
	}
}

// A full page means that there may be more; it goes on below the last one.
func TestActionsAreReadPageByPage(t *testing.T) {
	t.Parallel()
	full := api.ActionList{}
	for seq := int64(2000); seq > 1000; seq-- {
		full.Actions = append(full.Actions, api.Action{Seq: seq, TS: clitest.Now()})
	}
	e := clitest.New(t, 0)
	c := e.Serve(t, map[string]clitest.Reply{"GET /api/actions": {Body: full}})
	if err := execute(t, e, "-n", "1500", "--json"); err != nil {
		t.Fatal(err)
	}
	if got := c.Requests(); len(got) != 2 || got[1].Query != "before=1001&limit=500" {
		t.Errorf("asked %+v", got)
	}
}

func TestActionsRefuseANumberBelowOne(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	var usage *env.Usage
	if err := execute(t, e, "-n", "0"); !errors.As(err, &usage) {
		t.Errorf("%v", err)
	}
}
