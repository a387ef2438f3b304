package pyruntime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	pysrc "cdui/runtime"
)

// Interpreter is what a Python says of itself.
type Interpreter struct {
	Executable     string `json:"executable"`
	Version        string `json:"version"`
	Implementation string `json:"implementation"`
	Prefix         string `json:"prefix"`
	BasePrefix     string `json:"base_prefix"`
	Machine        string `json:"machine"`
	// Torch is the version of an installed torch, empty without one, and
	// TorchCUDA the CUDA that it was built for.
	Torch     string `json:"torch"`
	TorchCUDA string `json:"torch_cuda"`
	// What torch sees; nil where it was not asked.
	CUDA        *bool `json:"cuda"`
	CUDADevices *int  `json:"cuda_devices"`
	MPS         *bool `json:"mps"`
	// Faults are reasons why scripts won't run well under it.
	Faults []Fault `json:"faults"`
}

// Fault is a known fault of an interpreter: python_too_old or torch_broken.
type Fault struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Answers that take longer are not worth waiting for. Importing torch from a
// cold network disk has been seen to take most of a minute.
const (
	lookTimeout  = 20 * time.Second
	torchTimeout = 2 * time.Minute
	killDelay    = time.Second
)

const mend = "give an interpreter with --python or an environment with --venv"

// Probe asks the interpreter at path what it is and which torch is installed.
func Probe(ctx context.Context, path string) (Interpreter, error) {
	return probe(ctx, path, lookTimeout)
}

// ProbeTorch also imports torch and asks it for its devices, which takes
// seconds.
func ProbeTorch(ctx context.Context, path string) (Interpreter, error) {
	return probe(ctx, path, torchTimeout, "--torch")
}

func probe(ctx context.Context, path string, patience time.Duration, flags ...string) (Interpreter, error) {
	var found Interpreter
	source, err := pysrc.FS.ReadFile("cdui/probe.py")
	if err != nil {
		return found, fmt.Errorf("read embedded probe: %w", err)
	}
	out, err := ask(ctx, patience, path, append([]string{"-c", string(source)}, flags...)...)
	if err != nil {
		return found, err
	}
	// Start-up files of the environment may have printed before it.
	line := out[bytes.LastIndexByte(out, '\n')+1:]
	if err := json.Unmarshal(line, &found); err != nil || found.Version == "" {
		return found, fmt.Errorf("no Python at %s: it answered %.80q; %s", path, line, mend)
	}
	if found.Executable == "" {
		found.Executable = path
	}
	return found, nil
}

// ask runs an interpreter in the environment that a child would have.
func ask(ctx context.Context, patience time.Duration, path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(inherited(os.Environ(), nil), passedOn("PYENV_VERSION", "PYENV_ROOT")...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	switch {
	case err == nil:
		return bytes.TrimSpace(stdout.Bytes()), nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("ask Python at %s: no answer: %w", path, context.Cause(ctx))
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no Python at %s: no such file; %s", path, mend)
	}
	return nil, fmt.Errorf("no Python at %s: %w%s; %s", path, err, lastLine(stderr.String()), mend)
}

// passedOn gives variables of this process that the allow-list lacks.
func passedOn(names ...string) []string {
	var out []string
	for _, name := range names {
		if v, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return out
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return fmt.Sprintf(" (%.200s)", text[strings.LastIndexByte(text, '\n')+1:])
}

// Find gives the absolute path of the interpreter to use. preferred is a path,
// an environment's folder or a name to look up in PATH; without it the active
// virtual or conda environment of env counts, then python3 in its PATH.
func Find(ctx context.Context, preferred string, env []string) (string, error) {
	vars := toMap(env)
	if preferred != "" {
		return findPreferred(ctx, preferred, vars["PATH"])
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		folder := vars[name]
		if folder == "" {
			continue
		}
		found, ok := inEnvironment(folder)
		if !ok {
			return "", fmt.Errorf("%s names %s, which has no bin/python; leave that environment, or %s", name, folder, mend)
		}
		return found, nil
	}
	for _, name := range []string{"python3", "python"} {
		if found, ok := inPath(name, vars["PATH"]); ok {
			return behindScript(ctx, found)
		}
	}
	return "", fmt.Errorf("no python3 in PATH; install Python 3.9 or newer, or %s", mend)
}

func findPreferred(ctx context.Context, preferred, path string) (string, error) {
	if !strings.ContainsRune(preferred, filepath.Separator) {
		if found, ok := inPath(preferred, path); ok {
			return behindScript(ctx, found)
		}
	}
	full, err := filepath.Abs(preferred)
	if err != nil {
		return "", fmt.Errorf("find Python at %s: %w", preferred, err)
	}
	info, err := os.Stat(full)
	switch {
	case err != nil:
		return "", fmt.Errorf("no Python at %s: %s; %s", preferred, reason(err), mend)
	case info.IsDir():
		found, ok := inEnvironment(full)
		if !ok {
			return "", fmt.Errorf("no Python at %s: the folder has no bin/python, so it is no environment; %s", preferred, mend)
		}
		return found, nil
	case !executable(info):
		return "", fmt.Errorf("no Python at %s: the file is not executable; %s", preferred, mend)
	}
	return behindScript(ctx, full)
}

func reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

func inEnvironment(folder string) (string, bool) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", false
	}
	for _, name := range []string{"python", "python3"} {
		full := filepath.Join(folder, "bin", name)
		if info, err := os.Stat(full); err == nil && executable(info) {
			return full, true
		}
	}
	return "", false
}

func inPath(name, path string) (string, bool) {
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		full := filepath.Join(folder, name)
		if info, err := os.Stat(full); err == nil && executable(info) {
			return full, true
		}
	}
	return "", false
}

func executable(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// behindScript resolves a launcher that is a script, such as a pyenv shim: it
// costs each start tens of milliseconds and depends on the working directory.
func behindScript(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return path, nil //nolint:nilerr // executable but not readable: it may still be started
	}
	head := make([]byte, 2)
	_, err = f.Read(head)
	if closeErr := f.Close(); err != nil || closeErr != nil || string(head) != "#!" {
		return path, nil //nolint:nilerr // no script, or too short to be one
	}
	out, err := ask(ctx, lookTimeout, path, "-c", "import sys; print(sys.executable)")
	if err != nil {
		return "", err
	}
	found := string(out[bytes.LastIndexByte(out, '\n')+1:])
	if !filepath.IsAbs(found) {
		return "", fmt.Errorf("no Python at %s: it answered %.80q; %s", path, found, mend)
	}
	return found, nil
}
