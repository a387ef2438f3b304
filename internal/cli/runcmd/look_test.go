package runcmd

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // a test's own folder
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatCannotBeRunIsRefusedInOneSentence(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	write(t, filepath.Join(e.Dir, "photo.png"), "\x89PNG\x00", 0o600)
	write(t, filepath.Join(e.Dir, "prog"), "\x7fELF\x02", 0o700)
	write(t, filepath.Join(e.Dir, "job.sh"), "#!/bin/sh\necho", 0o700)
	write(t, filepath.Join(e.Dir, "broken.json"), "{\n \"nodes\": [\n}", 0o600)
	write(t, filepath.Join(e.Dir, "list.json"), "[]", 0o600)
	write(t, filepath.Join(e.Dir, "train.py"), "print()", 0o600)
	for _, c := range []struct {
		o    Options
		says string
	}{
		{Options{File: "gone.py"}, "gone.py: no such file"},
		{Options{File: "sh"}, "sh: no such file; to run the command write: cdui run -- sh"},
		{Options{File: "."}, ". is a folder; name the script in it"},
		{Options{File: "photo.png"}, "photo.png is no Python script: it holds binary data"},
		{Options{File: "prog"}, "prog is a program, not a Python script; run it as a command: cdui run -- ./prog"},
		{Options{File: "job.sh"}, "cdui run -- ./job.sh"},
		{Options{File: "broken.json"}, "broken.json is not JSON: line 3"},
		{Options{File: "list.json"}, "list.json is no graph"},
		{Options{File: "train.py", Cwd: "nowhere"}, "--cwd nowhere: no such folder"},
		{Options{File: "train.py", Python: "no-such-python"}, "no-such-python"},
		{Options{File: "train.py", Venv: "env"}, "--venv env: no virtual environment is there"},
		{Options{File: "train.py", Venv: "a", Conda: "b"}, "can't be given together"},
		{Options{File: "train.py", Conda: "nope"}, "--conda nope: no such environment"},
		{Options{File: "train.py", Env: []string{"HF_TOKEN=x"}}, "--env HF_TOKEN looks like a secret"},
		{Options{File: "train.py", Env: []string{"=x"}}, "lacks a name"},
		{Options{Args: []string{"no-such-program-here"}}, "no-such-program-here: no such program in PATH"},
		{Options{Args: []string{"./train.py"}}, "./train.py: is not executable; chmod +x makes it so"},
		{Options{Args: []string{"./"}}, "is a folder"},
		{Options{Args: []string{"sh"}, Python: "python3"}, "--python is for scripts"},
	} {
		_, err := look(context.Background(), e.Env, &c.o)
		var usage *env.Usage
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

func TestAScriptIsFoundWithItsSurroundings(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	script := write(t, filepath.Join(e.Dir, "train.py"), "#!/usr/bin/env python3\n", 0o600)
	venv := filepath.Join(e.Dir, "env")
	python := write(t, filepath.Join(venv, "bin", "python"), "#!/bin/sh\n", 0o700)
	e.Set("VIRTUAL_ENV", venv)
	e.Set("LR", "3e-4")
	f, err := look(t.Context(), e.Env, &Options{File: "train.py", Env: []string{"LR", "MODE=fast=yes"}})
	if err != nil {
		t.Fatal(err)
	}
	if f.kind != isScript || f.path != script || f.cwd != e.Dir || f.venv != venv || f.interpreter != python {
		t.Errorf("found %+v", f)
	}
	if f.env["LR"] != "3e-4" || f.env["MODE"] != "fast=yes" {
		t.Errorf("variables are %v", f.env)
	}
}

func TestACommandIsFoundAsAShellWould(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	venv := filepath.Join(e.Dir, "env")
	write(t, filepath.Join(venv, "bin", "python"), "#!/bin/sh\n", 0o700)
	tool := write(t, filepath.Join(venv, "bin", "torchrun"), "#!/bin/sh\n", 0o700)
	job := write(t, filepath.Join(e.Dir, "sub", "job.sh"), "#!/bin/sh\n", 0o700)
	f, err := look(t.Context(), e.Env, &Options{Args: []string{"torchrun", "x"}, Venv: "env"})
	if err != nil || f.program != tool || f.kind != isCommand {
		t.Errorf("%+v, %v", f, err)
	}
	f, err = look(t.Context(), e.Env, &Options{Args: []string{"./job.sh"}, Cwd: "sub"})
	if err != nil || f.program != job {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestConda(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	root := filepath.Join(e.Dir, "miniconda3")
	for _, dir := range []string{root, filepath.Join(root, "envs", "train"), filepath.Join(e.Dir, "elsewhere", "lab")} {
		write(t, filepath.Join(dir, "conda-meta", "history"), "", 0o600)
	}
	write(t, filepath.Join(e.Dir, ".conda", "environments.txt"), filepath.Join(e.Dir, "elsewhere", "lab")+"\n", 0o600)
	for name, want := range map[string]string{
		"base": root, "train": filepath.Join(root, "envs", "train"), "lab": filepath.Join(e.Dir, "elsewhere", "lab"), "./elsewhere/lab": filepath.Join(e.Dir, "elsewhere", "lab"),
	} {
		if got, err := condaPrefix(name, e.Dir, e.Getenv); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := condaPrefix("gone", e.Dir, e.Getenv); err == nil || !strings.Contains(err.Error(), "Known: lab") {
		t.Errorf("%v", err)
	}
}

// C.15: the commit, and clean, changed or unknown.
func TestGitState(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	dir := t.TempDir()
	if got := gitState(t.Context(), dir); got != nil {
		t.Errorf("outside of a checkout: %+v", got)
	}
	write(t, filepath.Join(dir, "a"), "1", 0o600)
	for _, args := range [][]string{{"init", "-q"}, {"add", "a"}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "m"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil { //nolint:gosec // a test's own words
			t.Fatalf("%v: %s", err, out)
		}
	}
	got := gitState(t.Context(), dir)
	if got == nil || len(got.Commit) != 40 || got.Dirty == nil || *got.Dirty {
		t.Fatalf("a clean checkout: %+v", got)
	}
	write(t, filepath.Join(dir, "a"), "2", 0o600)
	if got := gitState(t.Context(), dir); got == nil || !*got.Dirty {
		t.Errorf("a changed checkout: %+v", got)
	}
}

func FuzzNotPython(f *testing.F) {
	f.Add([]byte("#!/bin/sh"))
	f.Fuzz(func(t *testing.T, head []byte) {
		if err := notPython(head, "x"); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %q", err)
		}
	})
}

func decode(t *testing.T, raw json.RawMessage) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
