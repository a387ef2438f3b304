package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/run"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{env.Failed(""), 1},
		{env.Usagef("x"), 2},
		{&client.Unreachable{Text: "x"}, 3},
		{api.Errorf(api.Unavailable, "x"), 3},
		{fmt.Errorf("read run: %w", api.Errorf(api.NotFound, "x")), 4},
		{api.Errorf(api.Unauthorized, "x"), 5},
		{api.Errorf(api.Misdirected, "x"), 5},
		{api.Errorf(api.Conflict, "x"), 1},
		{api.Errorf(api.Invalid, "x"), 1},
		{&env.Exit{Code: 124}, 124},
		{&env.Interrupted{Signal: os.Interrupt}, 130},
		{&env.Interrupted{Signal: syscall.SIGTERM}, 143},
	} {
		if got := exitCode(c.err); got != c.code {
			t.Errorf("%v: %d, want %d", c.err, got, c.code)
		}
	}
}

func TestWrongWordsSayWhatIsNear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"rnu x", `no command is called "cdui rnu". Did you mean cdui run?`},
		{"frobnicate", `no command is called "cdui frobnicate": see cdui --help`},
		{"db chek", `Did you mean cdui db check?`},
		{"runs canel x", `Did you mean cdui runs cancel?`},
		{"ls --sttus failed", `cdui ls has no flag --sttus. Did you mean --status?`},
		{"ls --zzzzz", `cdui ls has no flag --zzzzz: see cdui ls --help`},
		{"ls --limit x", `cdui ls: invalid argument "x"`},
		{"status extra", `cdui status takes no argument, but got "extra"`},
		{"logs", "cdui logs needs one run"},
		{"completion tcsh", "bash, zsh and fish"},
		{"cancel --force --grace 3 x", "--grace means nothing with it"},
	} {
		e := clitest.New(t, 0)
		code := Execute(t.Context(), e.Env, strings.Fields(c.args))
		if code != 2 || !strings.Contains(e.Stderr.String(), c.says) || strings.Count(e.Stderr.String(), "\n") != 1 {
			t.Errorf("%s: code %d, %q", c.args, code, e.Stderr)
		}
		if e.Stdout.String() != "" {
			t.Errorf("%s: stdout has %q", c.args, e.Stdout)
		}
	}
}

func TestNobodyAnswersIsThree(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"ls", "status", "queue", "logs x", "cancel x", "db check", "runs wait x"} {
		e := clitest.New(t, 0)
		if code := Execute(t.Context(), e.Env, strings.Fields(args)); code != 3 || !strings.Contains(e.Stderr.String(), "cdui start") {
			t.Errorf("%s: code %d, %q", args, code, e.Stderr)
		}
	}
}

func TestUnknownRunIsFourAndAnAmbiguousOneListsItsCandidates(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Serve(t, map[string]clitest.Reply{
		"GET /api/runs/3": {Status: 409, Body: api.ErrorBody{Error: api.Errorf(api.Conflict, `"3" could be 2 runs`).With("candidates", []string{clitest.ID("31"), clitest.ID("32")})}},
	})
	if code := Execute(t.Context(), e.Env, []string{"runs", "show", "ff"}); code != 4 {
		t.Errorf("an unknown run: code %d, %q", code, e.Stderr)
	}
	e.Stderr = &clitest.Buffer{}
	e.Err = e.Stderr
	want := "\"3\" could be 2 runs\n  " + clitest.ID("31") + "\n  " + clitest.ID("32") + "\n"
	if code := Execute(t.Context(), e.Env, []string{"runs", "show", "3"}); code != 1 || e.Stderr.String() != want {
		t.Errorf("code %d, %q", code, e.Stderr)
	}
}

func TestASignalIsTheExitCode(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&env.Interrupted{Signal: os.Interrupt})
	e := clitest.New(t, 0)
	e.Serve(t, nil)
	if code := Execute(ctx, e.Env, []string{"ls"}); code != 130 || e.Stderr.String() != "" {
		t.Errorf("code %d, %q", code, e.Stderr)
	}
}

// each visits every command of the tree.
func each(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" {
			each(sub, visit)
		}
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	t.Parallel()
	each(newRoot(clitest.New(t, 0).Env), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s lacks a short text or an example", path)
		}
		if !strings.Contains(cmd.Example, "cdui") {
			t.Errorf("%s: its example doesn't show it", path)
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short text ends with a period", path)
		}
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example, "\n") {
			if text.Cells(line) > 100 {
				t.Errorf("%s: %q is too long for help", path, line)
			}
		}
	})
}

func TestCommandsThatPrintDataHaveJSON(t *testing.T) {
	t.Parallel()
	without := []string{"cdui", "cdui runs logs", "cdui logs", "cdui completion", "cdui man", "cdui demo", "cdui db", "cdui config", "cdui agent", "cdui tui"}
	each(newRoot(clitest.New(t, 0).Env), func(cmd *cobra.Command) {
		for _, path := range without {
			if cmd.CommandPath() == path {
				return
			}
		}
		if env.Documents(cmd.Flags()) == nil {
			t.Errorf("%s lacks --json, or its flag is not made by env.JSONFlag, which says what is printed", cmd.CommandPath())
		}
	})
}

// What lists, makes or changes things by their ids gives them alone with -q.
func TestCommandsWithIDsHaveQuiet(t *testing.T) {
	t.Parallel()
	// These print no ids, or, like tokens add, one word that is no id.
	without := []string{
		"agent", "agent ssh", "agent start", "agent status", "agent stop", "completion", "config", "config explain", "db", "db backup", "db check", "demo", "doctor",
		"hooks test", "logs", "man", "runs events", "runs facts", "runs logs", "runs metrics", "start", "status", "stop", "tokens add", "tui",
		"workers show", "workers set", "workers share", "workers cordon", "workers uncordon",
	}
	each(newRoot(clitest.New(t, 0).Env), func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "cdui ")
		if cmd.HasParent() && !cmd.Hidden && cmd.Parent().Name() != "context" && path != "context" &&
			(cmd.Flags().ShorthandLookup("q") == nil) != slices.Contains(without, path) {
			t.Errorf("%s: -q prints ids alone; a command that prints none is in this test's list", path)
		}
	})
}

func TestQueue(t *testing.T) {
	t.Parallel()
	busy := run.SlotBusy("cuda:0", []string{clitest.ID("81d00211")})
	behind := run.Behind(clitest.ID("5b90cc12"), 2)
	held := run.Held()
	q := api.Queue{Keys: []api.QueueKey{
		{
			Key: "cuda:0", Cap: 1,
			Running: []api.QueueEntry{{RunID: clitest.ID("81d00211"), Name: "digits", Status: run.Running}},
			Waiting: []api.QueueEntry{
				{RunID: clitest.ID("5b90cc12"), Name: "finetune-7b", Status: run.Queued, Position: 1, Reason: &busy},
				{RunID: clitest.ID("0c11d4aa"), Name: "評価 eval", Status: run.Queued, Position: 2, Reason: &behind},
				{RunID: clitest.ID("c0ffee00"), Name: "", Status: run.Queued, Reason: &held},
			},
		},
		{Key: "cpu", Cap: 2},
	}}
	replies := map[string]clitest.Reply{"GET /api/queue": {Body: q}}
	for _, columns := range []int{0, 40, 80, 120} {
		for _, args := range [][]string{{"queue"}, {"queue", "--long"}} {
			e := clitest.New(t, columns)
			e.Serve(t, replies)
			if code := Execute(t.Context(), e.Env, args); code != 0 {
				t.Fatalf("%v: code %d, %s", args, code, e.Stderr)
			}
			clitest.Golden(t, fmt.Sprintf("%s-%d", strings.Join(args, ""), columns), e.Stdout.String())
			for line := range strings.SplitSeq(e.Stdout.String(), "\n") {
				if columns > 0 && text.Cells(line) > columns {
					t.Errorf("%v at %d: %q is too wide", args, columns, line)
				}
			}
		}
	}
	e := clitest.New(t, 0)
	e.Serve(t, replies)
	if code := Execute(t.Context(), e.Env, []string{"queue", "-q", "CUDA:0"}); code != 0 || strings.Count(e.Stdout.String(), "\n") != 3 {
		t.Errorf("code %d, %q", code, e.Stdout)
	}
	if code := Execute(t.Context(), e.Env, []string{"queue", "cuda:9"}); code != 4 || !strings.Contains(e.Stderr.String(), "Known: cuda:0, cpu") {
		t.Errorf("code %d, %q", code, e.Stderr)
	}
}

func TestConfigExplain(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Set("CDUI_TOKEN", "s3cret")
	e.Set("CODEFYUI_RUN_QUEUE_MAX_CONCURRENT_GPU", "4")
	e.Set("CDUI_CANCEL_GRACE_S", "soon")
	path := filepath.Join(e.Dir, ".config", "cdui", "config.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("log_level = 'debug'\ncolour = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := Execute(t.Context(), e.Env, []string{"config", "explain", "--json", "--data", "/d"}); code != 0 {
		t.Fatal(e.Stderr)
	}
	var got struct {
		Settings []explained `json:"settings"`
		Unknown  []string    `json:"unknown"`
	}
	if err := json.Unmarshal([]byte(e.Stdout.String()), &got); err != nil {
		t.Fatal(err)
	}
	by := map[string]explained{}
	for _, s := range got.Settings {
		by[s.Name] = s
	}
	for name, want := range map[string][2]string{
		"HOME": {"/d", "flag"}, "TOKEN": {"(hidden)", "CDUI_TOKEN"}, "LOG_LEVEL": {"debug", path},
		"RUN_QUEUE_MAX_CONCURRENT_GPU": {"4", "CODEFYUI_RUN_QUEUE_MAX_CONCURRENT_GPU"}, "LISTEN": {"127.0.0.1:8000", "default"},
	} {
		if by[name].Value != want[0] || by[name].Origin != want[1] {
			t.Errorf("%s is %+v", name, by[name])
		}
	}
	if by["CANCEL_GRACE_S"].Error == "" || len(got.Unknown) != 1 || strings.Contains(e.Stdout.String(), "s3cret") {
		t.Errorf("got %s", e.Stdout)
	}
	e.Stdout, e.Stderr = &clitest.Buffer{}, &clitest.Buffer{}
	e.Out, e.Err = e.Stdout, e.Stderr
	if code := Execute(t.Context(), e.Env, []string{"config", "explain"}); code != 0 {
		t.Fatal(e.Stderr)
	}
	for _, want := range []string{"give a number of seconds", `"colour" is no setting`} {
		if !strings.Contains(e.Stderr.String(), want) {
			t.Errorf("lacks %q in %q", want, e.Stderr)
		}
	}
}

func TestDB(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	c := e.Serve(t, map[string]clitest.Reply{
		"GET /api/db/check":   {Body: api.DBCheck{Findings: []string{"run 3f1c: cursor 7 is missing"}, Runs: 2, Events: 1300, Bytes: 5 << 20}},
		"POST /api/db/backup": {Body: api.BackupReply{Path: "/b.db", Bytes: 5 << 20}},
	})
	if code := Execute(t.Context(), e.Env, []string{"db", "check"}); code != 1 ||
		e.Stdout.String() != "2 runs, 1,300 events, 5.0 MiB\n  run 3f1c: cursor 7 is missing\n" || !strings.Contains(e.Stderr.String(), "1 finding") {
		t.Errorf("code %d, %q, %q", code, e.Stdout, e.Stderr)
	}
	if code := Execute(t.Context(), e.Env, []string{"db", "backup", "b.db"}); code != 0 {
		t.Error(e.Stderr)
	}
	if got := c.Requests()[1].Body; got != fmt.Sprintf(`{"path":%q}`, filepath.Join(e.Dir, "b.db")) {
		t.Errorf("asked %s", got)
	}
}

func TestManAndCompletion(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	if code := Execute(t.Context(), e.Env, []string{"man", "man1"}); code != 0 {
		t.Fatal(e.Stderr)
	}
	page, err := os.ReadFile(filepath.Join(e.Dir, "man1", "cdui-runs-logs.1"))
	if err != nil || !strings.Contains(string(page), `\fB\-f\fP, \fB\-\-follow\fP`) || !strings.Contains(string(page), ".BR cdui\\-runs (1)") {
		t.Errorf("%v\n%s", err, page)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		e := clitest.New(t, 0)
		if code := Execute(t.Context(), e.Env, []string{"completion", shell}); code != 0 || len(e.Stdout.String()) < 1000 {
			t.Errorf("%s: code %d, %s", shell, code, e.Stderr)
		}
	}
}

func TestCompletionOffersRuns(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Serve(t, map[string]clitest.Reply{"GET /api/runs": {Body: clitest.Runs()}})
	if code := Execute(t.Context(), e.Env, []string{"__complete", "logs", "3f"}); code != 0 || !strings.HasPrefix(e.Stdout.String(), "3f1c9ab2\trunning  resnet epoch sweep #3\n") {
		t.Errorf("code %d, %q", code, e.Stdout)
	}
}
