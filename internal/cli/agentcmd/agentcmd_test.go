package agentcmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cdui/internal/agent"
	"cdui/internal/agent/folder"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/client"
)

// started runs `cdui agent start` and gives what the agent would be started
// with.
func started(t *testing.T, e *clitest.Env, args ...string) (agent.Config, error) {
	t.Helper()
	var got agent.Config
	cmd := New(e.Env, Deps{Work: func(_ context.Context, c agent.Config) error {
		got = c
		return nil
	}})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"start"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return got, err
}

func TestStartHandsItsFlagsOn(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Set(tokenVariable, "k3x9aa.8f21")
	got, err := started(t, e, "--control", "https://lab:8000", "--name", "box1", "--device", "cuda:0,cuda:1", "--pass-env", "A",
		"--python", "venv/bin/python", "--mount", "data=/mnt/data", "--isolate", "keeper", "--pin", "sha256:"+strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	if got.Control != "https://lab:8000" || got.Name != "box1" || got.EnrollToken != "k3x9aa.8f21" || got.Isolate != "keeper" ||
		got.Python != filepath.Join(e.Dir, "venv/bin/python") || !slices.Equal(got.Devices, []string{"cuda:0", "cuda:1"}) ||
		!slices.Equal(got.PassEnv, []string{"A"}) || got.Mounts["data"] != "/mnt/data" || got.SessionTokenFile != "" {
		t.Errorf("%+v", got)
	}
	if slices.ContainsFunc(got.Environ, func(kv string) bool { return strings.Contains(kv, "k3x9aa") }) {
		t.Errorf("the token is in the environment: %q", got.Environ)
	}
}

func TestALaterStartNeedsNoAddress(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Set("CDUI_HOME", e.Dir)
	var usage *env.Usage
	if _, err := started(t, e, "--name", "box1"); !errors.As(err, &usage) || !strings.Contains(err.Error(), "cdui workers add box1") {
		t.Errorf("without any: %v", err)
	}
	f, err := folder.Open(e.Dir, "box1")
	if err != nil {
		t.Fatal(err)
	}
	pin := "sha256:" + strings.Repeat("ab", 32)
	if err := f.KeepNote(folder.Note{Name: "box1", Control: "https://lab:8000", Pin: pin}); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got, err := started(t, e, "--name", "box1")
	if err != nil || got.Control != "https://lab:8000" || got.Pin != pin {
		t.Errorf("%v, %+v", err, got)
	}
}

// H-03: the agent at the other end of a tunnel checks who answers, and shows no
// control plane's token.
func TestAnAgentBehindATunnel(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Set("CDUI_HOME", e.Dir)
	if err := os.WriteFile(filepath.Join(e.Dir, "token"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	pin := "sha256:" + strings.Repeat("ab", 32)
	got, err := started(t, e, "--tunnel", "at", "--pin", pin)
	if err != nil || got.Control != "https://localhost" || got.Tunnel != filepath.Join(e.Dir, "at") || got.Pin != pin || got.SessionTokenFile != "" {
		t.Errorf("%v, %+v", err, got)
	}
	var usage *env.Usage
	if _, err := started(t, e, "--tunnel", "at"); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--pin") {
		t.Errorf("without a pin: %v", err)
	}
	f, err := folder.Open(e.Dir, "box1")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.KeepNote(folder.Note{Name: "box1", Control: "https://localhost", Pin: pin, Tunnel: "/x/at"}); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got, err := started(t, e, "--name", "box1"); err != nil || got.Tunnel != "/x/at" || got.Pin != pin {
		t.Errorf("a later start: %v, %+v", err, got)
	}
	for _, args := range [][]string{{"reach", "--pin", "x", "127.0.0.1:1"}, {"forget", "Box"}} {
		cmd := New(e.Env, Deps{})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); !errors.As(err, &usage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestTheSessionTokenIsForAnAgentBesideItsControlPlane(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Set("CDUI_HOME", e.Dir)
	if err := os.WriteFile(filepath.Join(e.Dir, "token"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for control, want := range map[string]string{"http://127.0.0.1:8000": filepath.Join(e.Dir, "token"), "http://lab:8000": "", "http://10.0.0.7:8000": ""} {
		if got, err := started(t, e, "--control", control); err != nil || got.SessionTokenFile != want {
			t.Errorf("%s: %q, %v", control, got.SessionTokenFile, err)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.In = strings.NewReader(" k3x9aa.8f21\n")
	if got, err := started(t, e, "--control", "http://lab:8000", "--token-stdin"); err != nil || got.EnrollToken != "k3x9aa.8f21" {
		t.Errorf("stdin: %q, %v", got.EnrollToken, err)
	}
	for _, args := range [][]string{{"--token-stdin"}, {"--token", "x", "--token-stdin"}} {
		var usage *env.Usage
		if _, err := started(t, clitest.New(t, 0), append(args, "--control", "http://lab:8000")...); !errors.As(err, &usage) {
			t.Errorf("%q: %v", args, err)
		}
	}
	// What came in a pipe goes into no environment.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write.WriteString("k3x9aa.8f21"); err != nil {
		t.Fatal(err)
	}
	write.Close()
	e = clitest.New(t, 0)
	e.Set(handedVariable, "1")
	if _, err := started(t, e, "--control", "http://lab:8000"); err == nil {
		t.Error("a token is read from standard output")
	}
	e = clitest.New(t, 0)
	dup := dup(t, read)
	e.Set(handedVariable, dup)
	got, err := started(t, e, "--control", "http://lab:8000")
	if err != nil || got.EnrollToken != "k3x9aa.8f21" || slices.Contains(got.Environ, handedVariable+"="+dup) {
		t.Errorf("pipe: %q, %v", got.EnrollToken, err)
	}
}

func TestTheTokenLeavesTheArguments(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"cdui agent start --token x.y --name b", "cdui agent start --name b"},
		{"cdui agent start --token=x.y", "cdui agent start"},
		{"cdui agent start --token-stdin --control u", "cdui agent start --token-stdin --control u"},
		{"cdui agent start --token", "cdui agent start"},
		{"cdui agent start -- --token x", "cdui agent start -- --token x"},
	} {
		if got := withoutToken(strings.Fields(c[0])); !reflect.DeepEqual(got, strings.Fields(c[1])) {
			t.Errorf("%s: %q", c[0], got)
		}
	}
}

func TestTheBackgroundCommandHoldsNoToken(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	o := &StartOptions{Control: "http://lab:8000", Token: "k3x9aa.8f21", Name: "box1", Devices: []string{"cpu"}, Python: "/p", Mounts: map[string]string{"d": "/d"}}
	want := "agent start --data /data --name box1 --control http://lab:8000 --device=cpu --mount=d=/d --python=/p --token-stdin"
	if got := strings.Join(o.foreground(e.Env, "/data", true), " "); got != want {
		t.Errorf("got %s", got)
	}
}

func TestNonsense(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"--name Box --control http://lab:8000", "--name"},
		{"--name any --control http://lab:8000", "--name"},
		{"--pin 1234 --control https://lab:8000", "--pin"},
		{"--mount data=here --control http://lab:8000", "must be absolute"},
		{"--isolate maybe --control http://lab:8000", "--isolate"},
		{"extra", "takes no argument"},
	} {
		var usage *env.Usage
		if _, err := started(t, clitest.New(t, 0), strings.Fields(c.args)...); !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

func TestWithoutAnAgent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, out, err string
		gone           bool
	}{
		{"stop", "", "no agent is running here\n", false},
		{"stop --json", `{"left":0}` + "\n", "", false},
		{"status", "", "", true},
		{"status box1", "", "", true},
		{"status --json", `{"agents":[]}` + "\n", "", false},
	} {
		e := clitest.New(t, 0)
		cmd := New(e.Env, Deps{})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(strings.Fields(c.args))
		err := cmd.ExecuteContext(t.Context())
		var gone *client.Unreachable
		if errors.As(err, &gone) != c.gone || err != nil && !c.gone || e.Stdout.String() != c.out || e.Stderr.String() != c.err {
			t.Errorf("%s: %v, out %q, err %q", c.args, err, e.Stdout, e.Stderr)
		}
	}
}

// dup gives another descriptor of a file, which whoever reads it may close.
func dup(t *testing.T, f *os.File) string {
	t.Helper()
	fd, err := unix.Dup(int(f.Fd()))
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(fd)
}
