package pyruntime_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"cdui/internal/pyruntime"
	"cdui/internal/run"
	pysrc "cdui/runtime"
)

const sources = "../../runtime/cdui"

// Proves P-01.
func TestEveryPythonSourceIsEmbedded(t *testing.T) {
	var onDisk, embedded []string
	err := filepath.WalkDir(sources, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.Contains(path, "__pycache__") {
			rel, _ := filepath.Rel(sources, path)
			onDisk = append(onDisk, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(pysrc.FS, "cdui", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			embedded = append(embedded, strings.TrimPrefix(path, "cdui/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(onDisk)
	slices.Sort(embedded)
	if !slices.Equal(onDisk, embedded) {
		t.Errorf("embedded %q, on disk %q: mend the globs of runtime/embed.go", embedded, onDisk)
	}
	if !slices.Contains(embedded, "__init__.py") {
		t.Error("__init__.py is not embedded")
	}
}

// Proves P-01.
func TestExtract(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	root, err := pyruntime.Extract(data)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(data, "runtime", pyruntime.Digest()); root != want {
		t.Errorf("got %s, want %s", root, want)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	child := filepath.Join(root, "cdui", "child.py")
	before := stat(t, child)
	// What Python leaves there is no change.
	if err := os.Mkdir(filepath.Join(root, "cdui", "__pycache__"), 0o700); err != nil {
		t.Fatal(err)
	}
	again, err := pyruntime.Extract(data)
	if err != nil || again != root {
		t.Errorf("second time: %s, %v", again, err)
	}
	if !os.SameFile(before, stat(t, child)) {
		t.Error("a whole copy was unpacked again")
	}
	if left := names(t, filepath.Dir(root)); !slices.Equal(left, []string{pyruntime.Digest()}) {
		t.Errorf("left behind: %q", left)
	}
}

func TestExtractMovesAChangedCopyAside(t *testing.T) {
	data := t.TempDir()
	root, err := pyruntime.Extract(data)
	if err != nil {
		t.Fatal(err)
	}
	wire := filepath.Join(root, "cdui", "wire.py")
	original := read(t, wire)
	for name, change := range map[string]func() error{
		"cut short": func() error { return os.Truncate(wire, 3) },
		"removed":   func() error { return os.Remove(wire) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			again, err := pyruntime.Extract(data)
			if err != nil || again != root {
				t.Fatalf("got %s, %v", again, err)
			}
			if read(t, wire) != original {
				t.Error("the copy is still changed")
			}
		})
	}
}

func TestExtractAtTheSameTime(t *testing.T) {
	data := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := pyruntime.Extract(data); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if left := names(t, filepath.Join(data, "runtime")); !slices.Equal(left, []string{pyruntime.Digest()}) {
		t.Errorf("left behind: %q", left)
	}
}

func TestExtractNamesTheFolderThatRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pyruntime.Extract(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error that names %s", err, file)
	}
}

// program writes an executable shell script.
func program(t *testing.T, path, body string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	// Not scripts, so nothing is started to look behind them.
	program(t, filepath.Join(dir, "venv", "bin", "python"), "\x7fELF")
	program(t, filepath.Join(dir, "conda", "bin", "python3"), "\x7fELF")
	program(t, filepath.Join(dir, "path", "python3"), "\x7fELF")
	program(t, filepath.Join(dir, "path", "python3.12"), "\x7fELF")
	program(t, filepath.Join(dir, "shim", "python3"), "#!/bin/sh\necho noise\necho /real/python\n")
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plain"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	path := "PATH=relative:" + filepath.Join(dir, "path")
	tests := []struct {
		name, preferred string
		env             []string
		want, err       string
	}{
		{name: "path", env: []string{path}, want: "path/python3"},
		{name: "virtual environment", env: []string{path, "VIRTUAL_ENV=" + dir + "/venv", "CONDA_PREFIX=" + dir + "/conda"}, want: "venv/bin/python"},
		{name: "conda", env: []string{path, "CONDA_PREFIX=" + dir + "/conda"}, want: "conda/bin/python3"},
		{name: "preferred file", preferred: dir + "/path/python3", env: []string{"VIRTUAL_ENV=" + dir + "/venv"}, want: "path/python3"},
		{name: "preferred folder", preferred: dir + "/venv", want: "venv/bin/python"},
		{name: "preferred name", preferred: "python3.12", env: []string{path}, want: "path/python3.12"},
		{name: "launcher script", env: []string{"PATH=" + dir + "/shim"}, want: "/real/python"},
		{name: "not there", preferred: dir + "/gone", err: "no Python at " + dir + "/gone: no such file or directory; give an interpreter with --python"},
		{name: "name not there", preferred: "python9", env: []string{path}, err: "no Python at python9: no such file or directory"},
		{name: "no environment", preferred: dir + "/empty", err: "the folder has no bin/python, so it is no environment"},
		{name: "not executable", preferred: dir + "/plain", err: "the file is not executable"},
		{name: "environment gone", env: []string{path, "VIRTUAL_ENV=" + dir + "/old"}, err: "VIRTUAL_ENV names " + dir + "/old, which has no bin/python"},
		{name: "none", env: []string{"PATH=" + dir + "/empty"}, err: "no python3 in PATH; install Python 3.9 or newer, or give"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := pyruntime.Find(t.Context(), tt.preferred, tt.env)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %q, %v, want error %q", got, err, tt.err)
				}
				return
			}
			want := tt.want
			if !filepath.IsAbs(want) {
				want = filepath.Join(dir, want)
			}
			if err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestProbe(t *testing.T) {
	python := realPython(t)
	got, err := pyruntime.Probe(t.Context(), python)
	if err != nil {
		t.Fatal(err)
	}
	if got.Executable == "" || !strings.HasPrefix(got.Version, "3.") || len(got.Faults) != 0 || got.CUDA != nil {
		t.Errorf("got %+v", got)
	}
}

func TestProbeSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name, path string
		ctx        context.Context
		err        string
	}{
		{"not there", dir + "/gone", t.Context(), "no Python at " + dir + "/gone: no such file; give"},
		{"another program", program(t, dir+"/other", "#!/bin/sh\necho hello\n"), t.Context(), `it answered "hello"`},
		{"a failing one", program(t, dir+"/failing", "#!/bin/sh\necho first >&2\necho broken install >&2\nexit 3\n"), t.Context(), "exit status 3 (broken install); give"},
		{"cancelled", program(t, dir+"/slow", "#!/bin/sh\nsleep 60\n"), canceled, "no answer: context canceled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := pyruntime.Probe(tt.ctx, tt.path)
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
}

// TestScriptRunsFromAnUnpackedCopy drives the real interpreter with what the
// rest of the program would use.
func TestScriptRunsFromAnUnpackedCopy(t *testing.T) {
	python := realPython(t)
	root, err := pyruntime.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "train.py")
	source := "import cdui, sys\ncdui.log({'a': 1})\nprint(sys.argv[1:], cdui.params(), cdui.device())\nsys.exit(4)\n"
	if err := os.WriteFile(script, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	argv := pyruntime.ScriptArgv(root, python, run.ScriptSpec{Path: script, Args: []string{"--lr", "3"}})
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = pyruntime.ChildEnv(os.Environ(), pyruntime.EnvSpec{Runtime: root, Params: []byte(`{"n": 2}`)})
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 4 {
		t.Errorf("ended with %v, want exit status 4", err)
	}
	if want := "['--lr', '3'] {'n': 2} cpu\n"; string(out) != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}

func realPython(t *testing.T) string {
	t.Helper()
	python, err := pyruntime.Find(t.Context(), "", os.Environ())
	if err != nil {
		t.Skipf("no Python here: %v", err)
	}
	return python
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
