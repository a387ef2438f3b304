package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/pyruntime"
)

// fakePython makes an executable that is found as an interpreter.
func fakePython(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a test's own folder
		t.Fatal(err)
	}
	// Not a script: those are asked what is behind them.
	if err := os.WriteFile(path, []byte("\x7fELF"), 0o700); err != nil { //nolint:gosec // must be executable
		t.Fatal(err)
	}
	return path
}

// torchIn says that some interpreters have torch.
func torchIn(paths ...string) Probe {
	return func(_ context.Context, path string) (pyruntime.Interpreter, error) {
		if slices.Contains(paths, path) {
			return pyruntime.Interpreter{Version: "3.11", Torch: "2.6.0"}, nil
		}
		return pyruntime.Interpreter{Version: "3.11"}, nil
	}
}

func TestThePythonWithTorchIsChosen(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	venv := fakePython(t, filepath.Join(e.Dir, "venv", "bin", "python"))
	path := fakePython(t, filepath.Join(e.Dir, "bin", "python3"))
	e.Set("PATH", filepath.Join(e.Dir, "bin"))
	e.Set("VIRTUAL_ENV", filepath.Join(e.Dir, "venv"))
	for name, c := range map[string]struct {
		probe Probe
		asked string
		want  string
	}{
		"the active environment's first": {torchIn(venv, path), "", venv},
		"then that of PATH":              {torchIn(path), "", path},
		"the one that was asked for":     {torchIn(venv, path), path, path},
		"an environment's folder":        {torchIn(venv), filepath.Join(e.Dir, "venv"), venv},
	} {
		got, torch, err := choose(t.Context(), e.Env, c.probe, c.asked)
		if err != nil || got != c.want || torch != "2.6.0" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestWithoutTorchItSaysWhatToInstall(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	path := fakePython(t, filepath.Join(e.Dir, "bin", "python3"))
	e.Set("PATH", filepath.Join(e.Dir, "bin"))
	_, _, err := choose(t.Context(), e.Env, torchIn(), "")
	var exit *env.Exit
	if !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(exit.Text, "pip install torch") || !strings.Contains(exit.Text, path) {
		t.Errorf("%v", err)
	}
	if _, _, err = choose(t.Context(), e.Env, torchIn(), path); err == nil || !strings.Contains(err.Error(), path+" -m pip install torch") {
		t.Errorf("%v", err)
	}
	var usage *env.Usage
	if _, _, err = choose(t.Context(), e.Env, torchIn(), "/no/such/python"); !errors.As(err, &usage) {
		t.Errorf("%v", err)
	}
}

func TestTheDemoHasDefaultSettings(t *testing.T) {
	t.Parallel()
	got := withoutSettings([]string{"CDUI_SERVER=x", "CODEFYUI_HOME=y", "PATH=/bin"})
	if len(got) != 1 || got[0] != "PATH=/bin" {
		t.Errorf("%v", got)
	}
}
