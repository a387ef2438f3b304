package runcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/graphfile"
	"cdui/internal/config"
	"cdui/internal/pyruntime"
)

type fileKind int

const (
	isCommand fileKind = iota
	isScript
	isGraph
)

// look finds out what the command line means here.
func look(ctx context.Context, e *env.Env, o *Options) (found, error) {
	f := found{title: titleOf(o), cwd: absolute(e.Dir, o.Cwd)}
	if err := o.fits(); err != nil {
		return f, err
	}
	if err := isFolder(f.cwd); err != nil {
		return f, env.Usagef("--cwd %s: %v", o.Cwd, err)
	}
	var err error
	if f.env, err = variables(o.Env, e.Getenv); err != nil {
		return f, err
	}
	if o.away() {
		return lookAway(ctx, e, o, f)
	}
	if f.venv, err = environment(e, o); err != nil {
		return f, err
	}
	if o.File == "" {
		f.kind = isCommand
		if o.Python != "" {
			return f, env.Usagef("--python is for scripts; a command names its own program")
		}
		f.program, err = program(o.Args[0], f.cwd, searchPath(f.venv, e.Getenv("PATH")))
		f.git = gitState(ctx, f.cwd)
		return f, err
	}
	f.path = absolute(e.Dir, o.File)
	if f.kind, f.graph, err = inspect(f.path, o.File); err != nil {
		return f, err
	}
	f.git = gitState(ctx, filepath.Dir(f.path))
	if f.kind == isScript {
		f.interpreter, err = interpreter(ctx, e, o, f.venv)
		return f, err
	}
	return f, nil
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func isFolder(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such folder")
	case err != nil:
		return errors.Unwrap(err)
	case !info.IsDir():
		return errors.New("is no folder")
	}
	return nil
}

// inspect tells a graph from a script, and refuses what is neither.
func inspect(path, shown string) (fileKind, json.RawMessage, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil, env.Usagef("%s: no such file%s", shown, program404(shown))
	case err != nil:
		return 0, nil, env.Usagef("%s: %v", shown, errors.Unwrap(err))
	case info.IsDir():
		return 0, nil, env.Usagef("%s is a folder; name the script in it", shown)
	case !info.Mode().IsRegular():
		return 0, nil, env.Usagef("%s is no ordinary file", shown)
	}
	if isGraphFile(path) {
		raw, err := graphfile.Read(path, shown)
		return isGraph, raw, env.AsUsage(err)
	}
	file, err := os.Open(path)
	if err != nil {
		return 0, nil, env.Usagef("%s can't be read: %v", shown, errors.Unwrap(err))
	}
	defer file.Close()
	head := make([]byte, 64<<10)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, nil, env.Usagef("%s can't be read: %v", shown, err)
	}
	return isScript, nil, notPython(head[:n], shown)
}

// program404 helps those who left "--" out: cdui run nvidia-smi.
func program404(shown string) string {
	if strings.ContainsRune(shown, filepath.Separator) || filepath.Ext(shown) != "" {
		return ""
	}
	if _, err := exec.LookPath(shown); err != nil {
		return ""
	}
	return "; to run the command write: cdui run -- " + shown
}

// notPython refuses binaries and scripts of another language.
func notPython(head []byte, shown string) error {
	asCommand := "run it as a command: cdui run -- " + asWord(shown)
	if bytes.HasPrefix(head, []byte("\x7fELF")) || bytes.HasPrefix(head, []byte{0xcf, 0xfa, 0xed, 0xfe}) {
		return env.Usagef("%s is a program, not a Python script; %s", shown, asCommand)
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return env.Usagef("%s is no Python script: it holds binary data", shown)
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if bytes.HasPrefix(line, []byte("#!")) && !bytes.Contains(line, []byte("python")) {
		return env.Usagef("%s is no Python script, it starts with %q; %s", shown, bytes.TrimSpace(line), asCommand)
	}
	return nil
}

func asWord(path string) string {
	if strings.ContainsRune(path, filepath.Separator) {
		return path
	}
	return "./" + path
}

// environment is the virtual or conda environment to run in: the one asked
// for, else the active one.
func environment(e *env.Env, o *Options) (string, error) {
	if o.Venv != "" && o.Conda != "" {
		return "", env.Usagef("--venv and --conda can't be given together")
	}
	switch {
	case o.Venv != "":
		dir := absolute(e.Dir, o.Venv)
		if _, err := os.Stat(filepath.Join(dir, "bin", "python")); err != nil {
			return "", env.Usagef("--venv %s: no virtual environment is there; make one with: python3 -m venv %s", o.Venv, o.Venv)
		}
		return dir, nil
	case o.Conda != "":
		return condaPrefix(o.Conda, e.Dir, e.Getenv)
	case o.Python != "":
		return "", nil // the interpreter that was named brings its own
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if dir := e.Getenv(name); filepath.IsAbs(dir) && isFolder(dir) == nil {
			return dir, nil
		}
	}
	return "", nil
}

// interpreter is the Python of a script, absolute; empty leaves the choice to
// the control plane.
func interpreter(ctx context.Context, e *env.Env, o *Options, venv string) (string, error) {
	preferred := o.Python
	if preferred == "" {
		preferred = venv
	}
	if preferred == "" {
		vs, err := e.Settings()
		if err != nil {
			return "", err
		}
		preferred = vs.Text(config.Python)
	}
	if strings.ContainsRune(preferred, filepath.Separator) {
		preferred = absolute(e.Dir, preferred)
	}
	path, err := pyruntime.Find(ctx, preferred, e.Environ)
	if err != nil && preferred == "" {
		return "", nil // the control plane may know one
	}
	return path, env.AsUsage(err)
}

func searchPath(venv, path string) string {
	if venv == "" {
		return path
	}
	return filepath.Join(venv, "bin") + string(filepath.ListSeparator) + path
}

// program finds a command's program as a shell in cwd would.
func program(name, cwd, path string) (string, error) {
	found, err := lookPath(name, cwd, path)
	if err != nil {
		return "", env.Usagef("%s: %v", name, err)
	}
	return found, nil
}

// lookPath is exec.LookPath for another folder and PATH than this process's.
func lookPath(name, dir, path string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		full := absolute(dir, name)
		info, err := os.Stat(full)
		switch {
		case err != nil:
			return "", errors.New("no such program")
		case info.IsDir():
			return "", errors.New("is a folder")
		case !executable(full):
			return "", errors.New("is not executable; chmod +x makes it so")
		}
		return full, nil
	}
	for _, entry := range filepath.SplitList(path) {
		if entry == "" {
			continue
		}
		if full := filepath.Join(absolute(dir, entry), name); executable(full) {
			return full, nil
		}
	}
	return "", errors.New("no such program in PATH")
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// gitState is the checkout that dir lies in; nil when it lies in none, or git
// doesn't answer in time.
func gitState(ctx context.Context, dir string) *api.GitState {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	commit, err := git(ctx, dir, "rev-parse", "--verify", "HEAD")
	if err != nil || len(commit) < 40 {
		return nil
	}
	state := &api.GitState{Commit: commit}
	if status, err := git(ctx, dir, "status", "--porcelain", "--untracked-files=no"); err == nil {
		dirty := status != ""
		state.Dirty = &dirty
	}
	return state
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "--no-optional-locks"}, args...)...) //nolint:gosec // our own words
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
