package hookscmd_test

import (
	"errors"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/hookscmd"
)

func execute(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	cmd := hookscmd.New(e.Env, hookscmd.Deps{Client: e.Client})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(e.Stdout)
	cmd.SetErr(e.Stderr)
	cmd.SetArgs(append([]string{}, args...)) // nil would be those of the test
	return cmd.ExecuteContext(t.Context())
}

func TestHooksAreListed(t *testing.T) {
	t.Parallel()
	list := api.HookList{Hooks: []api.Hook{
		{Name: "chat", HookSpec: api.HookSpec{On: []api.HookEvent{api.HookFailed, api.HookLost}, URL: "https://chat/x"}, Delivered: 3, GivenUp: 1, Dropped: 1, LastError: "busy"},
		{Name: "mail", HookSpec: api.HookSpec{On: []api.HookEvent{api.HookStarted}, Command: []string{"mail-me", "ada"}}},
	}}
	for args, want := range map[string][]string{
		"ls": {"chat  failed,lost", "https://chat/x", "busy", "mail  started", "mail-me ada"},
		"-q": {"chat\nmail\n"},
	} {
		e := clitest.New(t, 0)
		e.Serve(t, map[string]clitest.Reply{"GET /api/hooks": {Body: list}})
		if err := execute(t, e, strings.Fields(args)...); err != nil {
			t.Error(err)
		}
		for _, w := range want {
			if !strings.Contains(e.Stdout.String(), w) {
				t.Errorf("%s lacks %q:\n%s", args, w, e.Stdout)
			}
		}
	}
}

func TestHooksAreAdded(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"add chat --on failed,lost --url https://chat/x --token-env T":  `{"name":"chat","on":["failed","lost"],"url":"https://chat/x","token_env":"T"}`,
		"add chat --on failed --url https://chat/x --token-file /t":     `{"name":"chat","on":["failed"],"url":"https://chat/x","token_file":"/t"}`,
		"add mail --on started --on finished -- mail-me --to ada@there": `{"name":"mail","on":["started","finished"],"command":["mail-me","--to","ada@there"]}`,
	} {
		e := clitest.New(t, 0)
		c := e.Serve(t, map[string]clitest.Reply{"POST /api/hooks": {Body: api.Hook{Name: "n"}}})
		if err := execute(t, e, strings.Fields(args)...); err != nil || e.Stdout.String() != "added n\n" {
			t.Errorf("%s: %v, said %q", args, err, e.Stdout)
			continue
		}
		if got := c.Requests()[0].Body; strings.TrimSpace(got) != want {
			t.Errorf("%s asked %s", args, got)
		}
	}
}

func TestHooksThatAreNoneAreUsageErrors(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"add", "add a b --on failed --url http://x", "add a --url http://x", "add a --on failed",
		"add a --on failed --url http://x -- true", "add --on failed -- a", "test", "rm",
	} {
		e := clitest.New(t, 0)
		var usage *env.Usage
		if err := execute(t, e, strings.Fields(args)...); !errors.As(err, &usage) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestHooksAreRemoved(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"rm a b": "removed a\nremoved b\n", "rm a b --json": `{"removed":["a","b"]}` + "\n"} {
		e := clitest.New(t, 0)
		c := e.Serve(t, map[string]clitest.Reply{"DELETE /api/hooks/a": {Body: api.HookList{}}, "DELETE /api/hooks/b": {Body: api.HookList{}}})
		if err := execute(t, e, strings.Fields(args)...); err != nil || e.Stdout.String() != want || len(c.Requests()) != 2 {
			t.Errorf("%s: %v, said %q", args, err, e.Stdout)
		}
	}
}

// Proves M-01: a test of a hook says how it went, and fails when it failed.
func TestHooksAreTested(t *testing.T) {
	t.Parallel()
	for _, reply := range []api.HookTestReply{{Name: "a", OK: true}, {Name: "a", Error: "busy"}} {
		e := clitest.New(t, 0)
		e.Serve(t, map[string]clitest.Reply{"POST /api/hooks/a/test": {Body: reply}})
		err := execute(t, e, "test", "a")
		if reply.OK && (err != nil || e.Stdout.String() != "hook a was taken\n") {
			t.Errorf("%v, said %q", err, e.Stdout)
		}
		if !reply.OK && (err == nil || !strings.Contains(err.Error(), "busy")) {
			t.Errorf("%v", err)
		}
	}
}
