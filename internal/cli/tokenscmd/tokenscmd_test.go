package tokenscmd_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/tokenscmd"
)

func execute(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	cmd := tokenscmd.New(e.Env, tokenscmd.Deps{Client: e.Client})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(e.Stdout)
	cmd.SetErr(e.Stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of the test
	return cmd.ExecuteContext(t.Context())
}

func TestList(t *testing.T) {
	t.Parallel()
	list := api.TokenList{Tokens: []api.Token{
		{Name: "ada", Role: api.RoleSubmit, CreatedAt: *clitest.Ago(72 * time.Hour), LastUsed: clitest.Ago(5 * time.Minute)},
		{Name: "ci", Role: api.RoleRead, CreatedAt: *clitest.Ago(time.Hour)},
	}}
	for args, want := range map[string]string{
		"ls":    "NAME  ROLE    AGE  USED\nada   submit   3d  5m ago\nci    read     1h  never\n",
		"-q":    "ada\nci\n",
		"ls -q": "ada\nci\n",
	} {
		e := clitest.New(t, 0)
		e.Serve(t, map[string]clitest.Reply{"GET /api/tokens": {Body: list}})
		if err := execute(t, e, strings.Fields(args)...); err != nil || e.Stdout.String() != want {
			t.Errorf("%s: %v, said %q", args, err, e.Stdout)
		}
	}
}

func TestAddShowsTheTokenOnce(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"add ada --role submit":        "s3cret\n",
		"add ada --role submit --json": `{"name":"ada","role":"submit","token":"s3cret"}` + "\n",
	} {
		e := clitest.New(t, 0)
		c := e.Serve(t, map[string]clitest.Reply{"POST /api/tokens": {Status: http.StatusCreated, Body: api.TokenReply{Name: "ada", Role: api.RoleSubmit, Token: "s3cret"}}})
		if err := execute(t, e, strings.Fields(args)...); err != nil || e.Stdout.String() != want {
			t.Errorf("%s: %v, said %q", args, err, e.Stdout)
		}
		if got := c.Requests()[0].Body; got != `{"name":"ada","role":"submit"}` {
			t.Errorf("asked %s", got)
		}
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Serve(t, map[string]clitest.Reply{"DELETE /api/tokens/ada": {Status: http.StatusNoContent}})
	if err := execute(t, e, "rm", "ada"); err != nil || e.Stdout.String() != "revoked ada\n" {
		t.Errorf("%v, said %q", err, e.Stdout)
	}
	if err := execute(t, e, "rm", "bob"); api.CodeOf(err) != api.NotFound {
		t.Errorf("rm bob: %v", err)
	}
}

func TestNonsense(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"add", "ada"}, {"add", "ada", "--role", "root"}, {"add", " ", "--role", "read"}, {"add"}, {"rm"}, {"rm", ""}} {
		e := clitest.New(t, 0)
		c := e.Serve(t, nil)
		var usage *env.Usage
		if err := execute(t, e, args...); !errors.As(err, &usage) || len(c.Requests()) > 0 {
			t.Errorf("%q: %v, asked %v", args, err, c.Requests())
		}
	}
}
