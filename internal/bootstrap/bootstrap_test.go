package bootstrap_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cdui/internal/bootstrap"
)

// account is a Remote: a login shell of this machine, with a home of its own.
type account struct {
	shell, home string
	// path is put before PATH, env added.
	path string
	env  []string
	// commands are the command lines that were run.
	commands []string
}

func newAccount(t *testing.T, shell string) *account {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	return &account{shell: shell, home: home}
}

func (a *account) Run(ctx context.Context, command string, in io.Reader) (out, said []byte, code int, err error) {
	a.commands = append(a.commands, command)
	cmd := exec.CommandContext(ctx, a.shell, "-c", command) //nolint:gosec // a test's own
	path := "/usr/bin:/bin"
	if a.path != "" {
		path = a.path + ":" + path
	}
	cmd.Env, cmd.Dir = append([]string{"HOME=" + a.home, "PATH=" + path}, a.env...), a.home
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return stdout.Bytes(), stderr.Bytes(), exit.ExitCode(), nil
	}
	return stdout.Bytes(), stderr.Bytes(), 0, err
}

// program writes a stand-in for cdui.
func program(t *testing.T, body string) bootstrap.Binary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cdui")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return bootstrap.Binary{Path: path, OS: runtime.GOOS, Arch: runtime.GOARCH}
}

const version = "1.2.3"

// pretend answers as cdui would.
const pretend = `case "$1 $2" in
"--version ") echo "cdui 1.2.3";;
"agent reach") [ "$6" = 127.0.0.1:7 ] || { echo "what answers there is not the control plane" >&2; exit 1; };;
"agent start") for last; do :; done; [ "$last" = --token-stdin ] && cat >"$HOME/token"; echo "$@" >"$HOME/started"; echo '{"name":"box","pid":7}';;
"agent stop") echo '{"left":2}';;
"agent status") echo '{"agents":[{"name":"box","version":"1.2.3","runs":[{"run_id":"a"}]}]}';;
"agent forget") rm -f "$HOME/started" "$HOME/token";;
esac
`

// H-04: every step works whatever the login shell is.
func TestEveryLoginShell(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bash", "dash", "zsh", "fish", "tcsh"} {
		shell, err := exec.LookPath(name)
		if err != nil {
			t.Logf("%s is not installed", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			walkThrough(t, newAccount(t, shell))
		})
	}
}

func walkThrough(t *testing.T, a *account) {
	t.Helper()
	ctx := t.Context()
	facts, err := bootstrap.Probe(ctx, a, version, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if facts.OS != runtime.GOOS || facts.Arch != runtime.GOARCH || facts.Base != a.home+"/.cache/cdui" || facts.Data != "" || facts.Home != a.home || facts.UID != os.Getuid() {
		t.Errorf("facts %+v", facts)
	}
	binary := program(t, pretend)
	size := int64(len(pretend) + len("#!/bin/sh\n"))
	installed, err := bootstrap.Install(ctx, a, facts, version, []bootstrap.Binary{binary}, nil)
	if err != nil || installed.Copied != size {
		t.Fatalf("%+v, %v", installed, err)
	}
	// It is there already; a half one is not taken for it.
	for half, want := range map[bool]int64{false: 0, true: size} {
		if half {
			if err := os.Truncate(installed.Path, 20); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Dir(installed.Path)+"/x.part", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		again, err := bootstrap.Install(ctx, a, facts, version, []bootstrap.Binary{binary}, nil)
		if err != nil || again.Copied != want {
			t.Errorf("again: %+v, %v, want %d bytes", again, err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Dir(installed.Path) + "/*.part"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	agent := bootstrap.Agent{Name: "box", Exe: installed.Path, Dir: facts.Dir("box"), Pin: "sha256:00", Flags: []string{"--mount=data=/a 'b' $c"}}
	if err := bootstrap.Prepare(ctx, a, agent); err != nil {
		t.Fatal(err)
	}
	point := bootstrap.PointCommand(agent.Dir)
	if err := bootstrap.Point(ctx, a, point, "127.0.0.1:8", agent.Pin); err == nil || !strings.Contains(err.Error(), "doesn't lead here") || !strings.Contains(err.Error(), "not the control plane") {
		t.Errorf("a tunnel that leads elsewhere: %v", err)
	}
	at := filepath.Join(agent.Dir, "at")
	if _, err := os.Stat(at); err == nil {
		t.Error("the agent was told of a tunnel that leads elsewhere")
	}
	if err := os.WriteFile(filepath.Join(agent.Dir, "old.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bootstrap.Point(ctx, a, point, "127.0.0.1:7", agent.Pin); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(at); err != nil || string(raw) != "127.0.0.1:7\n" {
		t.Errorf("the agent is told %q, %v", raw, err)
	}
	if left, _ := filepath.Glob(agent.Dir + "/*.sock"); len(left) > 0 {
		t.Errorf("old ends are left: %v", left)
	}
	if running, err := bootstrap.Start(ctx, a, agent, "secret.token"); err != nil || running.PID != 7 {
		t.Errorf("start: %+v, %v", running, err)
	}
	raw, err := os.ReadFile(a.home + "/started")
	if err != nil || !strings.Contains(string(raw), "--name box --tunnel "+at+" --pin sha256:00 --mount=data=/a 'b' $c --token-stdin") {
		t.Errorf("started with %q, %v", raw, err)
	}
	if raw, err := os.ReadFile(a.home + "/token"); err != nil || string(raw) != "secret.token" {
		t.Errorf("token %q, %v", raw, err)
	}
	for _, c := range a.commands {
		if strings.Contains(c, "secret") || strings.Contains(c, "sha256") {
			t.Errorf("a command line holds what others may not see: %s", c)
		}
	}
	if running, is, err := bootstrap.Status(ctx, a, agent); err != nil || !is || len(running.Runs) != 1 {
		t.Errorf("status: %+v, %t, %v", running, is, err)
	}
	if left, err := bootstrap.Stop(ctx, a, agent, false); err != nil || left != 2 {
		t.Errorf("stop: %d, %v", left, err)
	}
	keys(t, a, agent)
	if err := bootstrap.Uninstall(ctx, a, agent, facts.Base, "cdui-tunnel-box"); err != nil {
		t.Fatal(err)
	}
	left := []string{}
	_ = filepath.WalkDir(a.home, func(path string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			left = append(left, path)
		}
		return nil
	})
	// Shells leave their own.
	for _, path := range left {
		if !strings.Contains(path, "fish") && !strings.HasSuffix(path, "authorized_keys") {
			t.Errorf("left: %s", path)
		}
	}
	if raw, _ := os.ReadFile(a.home + "/.ssh/authorized_keys"); string(raw) != "ssh-ed25519 AAAA mine\n" {
		t.Errorf("keys: %q", raw)
	}
}

// keys installs a key twice beside another one whose line has no end.
func keys(t *testing.T, a *account, agent bootstrap.Agent) {
	t.Helper()
	path := a.home + "/.ssh/authorized_keys"
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("ssh-ed25519 AAAA mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"ssh-ed25519 OLD", "ssh-ed25519 NEW"} {
		if err := bootstrap.InstallKey(t.Context(), a, agent.Dir, key, "cdui-tunnel-box"); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	want := "ssh-ed25519 AAAA mine\nrestrict,port-forwarding,permitopen=\"127.0.0.1:1\",command=\"exec /bin/sh '" + agent.Dir + "/point'\" ssh-ed25519 NEW cdui-tunnel-box\n"
	if err != nil || string(raw) != want {
		t.Errorf("keys %q, %v", raw, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// H2: what a shell says instead is in the error.
func TestAShellThatDoesSomethingElse(t *testing.T) {
	t.Parallel()
	for body, says := range map[string]string{
		"echo This account is currently not available.; exit 1": "not available",
		"echo 'menu: choose a host' >&2":                        "choose a host",
		"exit 0":                                                "it said nothing",
	} {
		shell := program(t, body)
		_, err := bootstrap.Probe(t.Context(), newAccount(t, shell.Path), version, 0)
		var shellErr *bootstrap.ShellError
		if !errors.As(err, &shellErr) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", body, err)
		}
	}
	// Chatter around the result does no harm.
	noisy := program(t, "echo hello; printf 'no newline'; echo oops >&2; /bin/sh \"$@\"; echo bye")
	if _, err := bootstrap.Probe(t.Context(), newAccount(t, noisy.Path), version, 0); err != nil {
		t.Errorf("a shell that talks: %v", err)
	}
}

// H-02: what was made for another machine, or for a newer system, is not taken,
// and the error says what to give.
func TestABinaryThatDoesNotStart(t *testing.T) {
	t.Parallel()
	a := newAccount(t, "/bin/sh")
	facts, err := bootstrap.Probe(t.Context(), a, version, 0)
	if err != nil {
		t.Fatal(err)
	}
	newer := program(t, "echo \"$0: /lib/libc.so.6: version GLIBC_2.99 not found\" >&2; exit 1\n")
	static := program(t, pretend)
	got, err := bootstrap.Install(t.Context(), a, facts, version, []bootstrap.Binary{newer, static}, nil)
	if err != nil || len(got.Passed) != 1 || !strings.Contains(got.Passed[0], "GLIBC_2.99") {
		t.Errorf("with a static one: %+v, %v", got, err)
	}
	_, err = bootstrap.Install(t.Context(), a, facts, version, []bootstrap.Binary{newer}, nil)
	for _, part := range []string{"GLIBC_2.99", "--binary", "make release", "binaries/cdui-" + runtime.GOOS + "-" + runtime.GOARCH + "-" + version} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("without one: %v lacks %s", err, part)
		}
	}
	other := static
	other.Arch = "riscv64"
	if _, err = bootstrap.Install(t.Context(), a, facts, version, []bootstrap.Binary{other}, nil); err == nil || !strings.Contains(err.Error(), "--binary") {
		t.Errorf("of another architecture: %v", err)
	}
	other.Asked = true
	if _, err = bootstrap.Install(t.Context(), a, facts, version, []bootstrap.Binary{other}, nil); err == nil || !strings.Contains(err.Error(), "made for "+runtime.GOOS+"/riscv64") {
		t.Errorf("named, of another architecture: %v", err)
	}
}

func TestACopyThatBreaksOff(t *testing.T) {
	t.Parallel()
	a := newAccount(t, "/bin/sh")
	facts, err := bootstrap.Probe(t.Context(), a, version, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bootstrap.Install(t.Context(), &torn{a}, facts, version, []bootstrap.Binary{program(t, pretend)}, nil); err == nil || !strings.Contains(err.Error(), "did not arrive whole") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(facts.Base + "/" + version + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// torn loses the end of what is sent.
type torn struct{ *account }

func (r *torn) Run(ctx context.Context, command string, in io.Reader) (out, said []byte, code int, err error) {
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, nil, 0, err
	}
	if i := bytes.LastIndex(raw, []byte("agent forget")); i > 0 && bytes.Contains(raw, []byte("want=")) {
		raw = raw[:i]
	}
	return r.account.Run(ctx, command, bytes.NewReader(raw))
}

func TestWhatAnAgentSaysOfItsStart(t *testing.T) {
	t.Parallel()
	a := newAccount(t, "/bin/sh")
	for body, unknown := range map[string]bool{"echo 'this agent is not enrolled; give it a token' >&2; exit 1": true, "echo 'no space' >&2; exit 1": false} {
		agent := bootstrap.Agent{Name: "box", Exe: program(t, body).Path, Dir: a.home + "/.cache/cdui/tunnel/box"}
		if err := bootstrap.Prepare(t.Context(), a, agent); err != nil {
			t.Fatal(err)
		}
		_, err := bootstrap.Start(t.Context(), a, agent, "")
		var not *bootstrap.NotEnrolledError
		if err == nil || errors.As(err, &not) != unknown {
			t.Errorf("%s: %v", body, err)
		}
	}
}
