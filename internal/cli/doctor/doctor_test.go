package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/scope"
)

func execute(t *testing.T, cmd *cobra.Command, args ...string) error {
	t.Helper()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...))
	return cmd.ExecuteContext(t.Context())
}

func canned(list ...Finding) []Check {
	return []Check{func(context.Context) []Finding { return list }}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	checks := canned(
		Finding{"python", OK, "3.11.2 at /usr/bin/python3", ""},
		Finding{"torch", Warn, "is not installed for this Python", "activate an environment that has it, or: pip install torch"},
		Finding{"driver", Fail, "nvidia-smi did not answer within 10s", "nvidia-smi itself must work first"},
	)
	e := clitest.New(t, 50)
	err := execute(t, New(e.Env, checks))
	var exit *env.Exit
	if !errors.As(err, &exit) || exit.Code != 1 || exit.Text != "1 thing to mend" {
		t.Errorf("%v", err)
	}
	clitest.Golden(t, "findings", e.Stdout.String())
}

func TestWarningsAloneAreNoFailure(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	if err := execute(t, New(e.Env, canned(Finding{"clock", Warn, "x", "y"})), "--json"); err != nil {
		t.Fatal(err)
	}
	var got struct {
		OK       bool      `json:"ok"`
		Findings []Finding `json:"findings"`
	}
	if err := json.Unmarshal([]byte(e.Stdout.String()), &got); err != nil || !got.OK || len(got.Findings) != 1 || got.Findings[0].Mend != "y" {
		t.Errorf("%v: %s", err, e.Stdout)
	}
}

// one gives the state and text of the only finding.
func one(t *testing.T, list []Finding) (State, string) {
	t.Helper()
	if len(list) != 1 {
		t.Fatalf("findings: %+v", list)
	}
	return list[0].State, list[0].Text + " " + list[0].Mend
}

func TestAccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	expect := func(path string, state State, says string) {
		t.Helper()
		if got, text := one(t, []Finding{access(path)}); got != state || !strings.Contains(text, says) {
			t.Errorf("%s: %s %q", path, got, text)
		}
	}
	expect(data, OK, "made at the first start")
	if err := os.Mkdir(data, 0o755); err != nil { //nolint:gosec // the point of the test
		t.Fatal(err)
	}
	expect(data, Warn, "chmod 700")
	if err := os.Chmod(data, 0o700); err != nil { //nolint:gosec // folders need x
		t.Fatal(err)
	}
	expect(data, OK, data)
	token := filepath.Join(data, "token")
	if err := os.WriteFile(token, nil, 0o644); err != nil { //nolint:gosec // the point of the test
		t.Fatal(err)
	}
	expect(data, Fail, "others may read the token")
	expect(token, Fail, "is no folder")
}

func TestControlPlane(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	if state, text := one(t, controlPlane(t.Context(), e.Env)); state != OK || !strings.Contains(text, "cdui start") {
		t.Errorf("none: %s %q", state, text)
	}
	e.Serve(t, map[string]clitest.Reply{"GET /api/health": {Body: api.Health{Status: "degraded", Version: "9.9", Problems: []api.Problem{{Code: "database", Text: "the disk is full"}}}}})
	list := controlPlane(t.Context(), e.Env)
	if len(list) != 3 || list[0].State != OK || list[1].State != Warn || list[2].State != Fail || list[2].Text != "the disk is full" {
		t.Errorf("%+v", list)
	}
}

func TestPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := clitest.New(t, 0)
	e.Set("CDUI_LISTEN", l.Addr().String())
	if state, text := one(t, port(t.Context(), e.Env)); state != Warn || !strings.Contains(text, "is taken by") {
		t.Errorf("taken: %s %q", state, text)
	}
	l.Close()
	if state, text := one(t, port(t.Context(), e.Env)); state != OK || !strings.Contains(text, "is free") {
		t.Errorf("free: %s %q", state, text)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	if state, _ := one(t, settings(e.Env)); state != OK {
		t.Error(state)
	}
	e.Set("CDUI_ISOLATE", "jail")
	e.Set("CDUI_RUN_QUEUE_MAX_CONCURRENT", "nonsense")
	if list := settings(e.Env); len(list) != 2 || list[0].State != Warn {
		t.Errorf("%+v", list)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	if state, _ := one(t, clock(time.Unix(0, 0))); state != Fail {
		t.Error("1970 is right")
	}
	if state, _ := one(t, clock(clitest.Now())); state == Fail {
		t.Error("2026 is wrong")
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	none := func(string) (string, error) { return "", errors.New("no") }
	all := func(name string) (string, error) { return "/bin/" + name, nil }
	if state, _ := one(t, ssh(none)); state != Warn {
		t.Error("no ssh is fine")
	}
	if state, _ := one(t, ssh(all)); state != OK {
		t.Error("ssh is not fine")
	}
	if daemons(none) != nil {
		t.Error("daemons that aren't there")
	}
	if _, text := one(t, daemons(all)); !strings.Contains(text, "docker, podman, systemd-run") {
		t.Error(text)
	}
	for _, way := range []string{"pidns", "userns", "keeper", "none"} {
		if !strings.HasPrefix(meaning(way), way+": ") {
			t.Error(meaning(way))
		}
	}
}

// K-06.
func TestSystemd(t *testing.T) {
	t.Parallel()
	uid, root := 1000, t.TempDir()
	look := func() []Finding {
		return systemd(t.Context(), scope.New(scope.Config{Environ: []string{}, Root: root, UID: &uid, Name: "ada"}))
	}
	if state, text := one(t, look()); state != OK || !strings.Contains(text, "not started by it") {
		t.Errorf("%s %q", state, text)
	}
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o700); err != nil {
		t.Fatal(err)
	}
	list := look()
	if len(list) != 2 || list[0].State != OK || !strings.Contains(list[0].Text, "outside of this container") || list[1].State != Warn || list[1].Mend != "loginctl enable-linger" {
		t.Errorf("%+v", list)
	}
}
