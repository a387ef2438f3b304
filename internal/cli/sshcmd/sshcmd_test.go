package sshcmd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/version"
)

func parsed(t *testing.T, e *clitest.Env, args ...string) (*Options, error) {
	t.Helper()
	var got *Options
	cmd := New(e.Env, Deps{}, func(_ context.Context, o *Options) error { got = o; return nil })
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return got, err
}

func TestFlagsBecomeThoseOfTheAgent(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	o, err := parsed(t, e, "ada@box", "--name", "box1", "--python", "~/venv/bin/python", "--mount", "data=/mnt/data", "--device", "cuda:0,cpu", "--pass-env", "A",
		"--isolate", "keeper", "--warm", "1", "--ssh-config", "conf", "--binary", "b", "--accept-new", "--install-key")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--device=cpu", "--device=cuda:0", "--isolate=keeper", "--mount=data=/mnt/data", "--pass-env=A", "--python=/h/venv/bin/python", "--warm=1"}
	if got := o.Agent.flags("/h"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if o.Target != "ada@box" || o.Name != "box1" || o.SSHConfig != filepath.Join(e.Dir, "conf") || o.Binary != filepath.Join(e.Dir, "b") || !o.AcceptNew || !o.InstallKey {
		t.Errorf("%+v", o)
	}
}

func TestNonsense(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"":                          "needs a machine",
		"--stop":                    "needs a machine",
		"a b":                       "takes one machine",
		"--stop --upgrade a":        "can't be given together",
		"--cancel-runs a":           "--cancel-runs",
		"--name Box a":              "--name",
		"--mount data=here a":       "must be absolute",
		"--warm many a":             "--warm",
		"--isolate maybe a":         "--isolate",
		"-- -oProxyCommand=x":       "no place that ssh goes to",
		"--status --uninstall a@b":  "can't be given together",
		"ada@box;id":                "no place that ssh goes to",
		"--name any --accept-new a": "--name",
	} {
		var usage *env.Usage
		if _, err := parsed(t, clitest.New(t, 0), strings.Fields(args)...); !errors.As(err, &usage) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"gpu-box": "gpu-box", "GPU_Box.lab.example": "gpu-box", "10.0.0.7": "", "fe80::1": "", "any": "", "-x-": "x", strings.Repeat("a", 80): strings.Repeat("a", 63),
	} {
		if got := nameFrom(host); got != want {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// ran runs the command against canned replies.
func ran(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	cmd := New(e.Env, Deps{Client: e.Client}, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	return cmd.ExecuteContext(t.Context())
}

// H-03, H-05: how tunnels stand, and what to type where one needs it.
func TestStatus(t *testing.T) {
	t.Parallel()
	at := *clitest.Ago(0)
	list := api.TunnelList{Tunnels: []api.Tunnel{
		{Worker: "box1", TunnelSpec: api.TunnelSpec{Target: "ada@box1"}, State: api.TunnelUp, Since: at, End: "/x/y.sock"},
		{Worker: "box2", TunnelSpec: api.TunnelSpec{Target: "ada@box2"}, State: api.TunnelNeedsLogin, Since: at, Problem: "ada@box2 lets nobody in\x1b[31m", Command: "cdui agent ssh ada@box2 --name box2"},
		{Worker: "box3", TunnelSpec: api.TunnelSpec{Target: "ada@box3"}, State: api.TunnelDown, Since: at, Problem: "no sshd answers"},
	}}
	run := func(args ...string) (string, string, error) {
		e := clitest.New(t, 100)
		e.Serve(t, map[string]clitest.Reply{"GET " + api.PathTunnels: {Body: list}})
		err := ran(t, e, args...)
		return e.Stdout.String(), e.Stderr.String(), err
	}
	out, said, err := run("--status")
	if err != nil || !strings.Contains(said, "log in to box2 with: cdui agent ssh ada@box2 --name box2") || strings.Contains(out, "\x1b[31m") {
		t.Errorf("%v, %s, %s", err, out, said)
	}
	clitest.Golden(t, "status", out)
	if out, _, err := run("--status", "ada@box3", "--json"); err != nil || !strings.Contains(out, `"box3"`) || strings.Contains(out, "box2") {
		t.Errorf("%v, %s", err, out)
	}
	var exit *env.Exit
	if _, _, err := run("--status", "ada@box4"); !errors.As(err, &exit) || exit.Code != 4 {
		t.Errorf("one that isn't there: %v", err)
	}
}

func TestWhatIsRefusedBeforeAnythingIsDialled(t *testing.T) {
	t.Parallel()
	two := api.TunnelList{Tunnels: []api.Tunnel{{Worker: "a", TunnelSpec: api.TunnelSpec{Target: "x@y"}}, {Worker: "b", TunnelSpec: api.TunnelSpec{Target: "x@y"}}}}
	for _, c := range []struct {
		name    string
		tunnels api.TunnelList
		version string
		args    []string
		says    string
	}{
		{"a control plane of another version", api.TunnelList{}, "9.9", []string{"x@y"}, "cdui stop and cdui start"},
		{"an upgrade of nothing", api.TunnelList{}, version.String(), []string{"--upgrade", "x@y"}, "--status"},
		{"several workers", two, version.String(), []string{"--stop", "x@y"}, "--name"},
	} {
		e := clitest.New(t, 0)
		e.Serve(t, map[string]clitest.Reply{
			"GET " + api.PathTunnels: {Body: c.tunnels}, "GET " + api.PathHealth: {Body: api.Health{Version: c.version}},
		})
		if err := ran(t, e, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// H-02: which cdui is copied.
func TestWhichBinary(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	dir := t.TempDir()
	e.Exe = os.Args[0]
	path := filepath.Join(dir, "binaries", "cdui-linux-arm64-"+version.String())
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, filepath.Join(dir, "binaries", "cdui-linux-arm64-0.0.0")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := binaries(e.Env, "", dir)
	if err != nil || len(got) != 2 || got[0].Path != e.Exe || got[0].Arch != runtime.GOARCH || got[1].Path != path || got[1].Arch != "arm64" {
		t.Errorf("%+v, %v", got, err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	if got, err = binaries(e.Env, sh, dir); err != nil || len(got) != 1 || got[0].OS != runtime.GOOS || got[0].Arch != runtime.GOARCH || !got[0].Asked {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range []string{path, filepath.Join(dir, "gone")} {
		var usage *env.Usage
		if _, err := binaries(e.Env, name, dir); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--binary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMadeForReadsTheHeader(t *testing.T) {
	t.Parallel()
	const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for head, want := range map[string]string{
		"\x7fELF\x02\x01\x01" + zeros[:9] + "\x02\x00\x3e\x00": "linux/amd64",
		"\x7fELF\x02\x01\x01" + zeros[:9] + "\x03\x00\xb7\x00": "linux/arm64",
		"\x7fELF\x02\x01\x01" + zeros[:9] + "\x02\x00\xf3\x00": "it is made for EM_RISCV",
		"\xcf\xfa\xed\xfe\x07\x00\x00\x01" + zeros:             "darwin/amd64",
		"\xcf\xfa\xed\xfe\x0c\x00\x00\x01" + zeros:             "darwin/arm64",
		"MZ\x90\x00" + zeros + zeros:                           "it is no program for Linux or macOS",
		"\x7fELF\x02\x01\x01":                                  "it is no program for Linux or macOS",
		"#!/bin/sh\nexec python3 train.py --epochs 3":          "it is no program for Linux or macOS",
		"": "it is no program for Linux or macOS",
		"\x7fELF\x02\x02\x01" + zeros[:9] + "\x00\x02\x00\x3e": "it is made for a machine of the other byte order",
	} {
		path := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(path, []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
		goos, arch, err := madeFor(path)
		got := goos + "/" + arch
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, not %s", head, got, want)
		}
	}
}
