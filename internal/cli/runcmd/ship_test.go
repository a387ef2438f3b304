package runcmd

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/codeset"
	"cdui/internal/run"
)

// takesCode answers as a control plane that lacks nothing of folder.
func takesCode(t *testing.T, e *clitest.Env, folder string, listed ...string) (*clitest.Control, string) {
	t.Helper()
	disk, err := codeset.OpenDisk(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	found, err := codeset.Scan(t.Context(), disk, listed...)
	if err != nil {
		t.Fatal(err)
	}
	m, err := codeset.Sum(t.Context(), disk, found.Files)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	hash := codeset.Hash(raw)
	return e.Serve(t, map[string]clitest.Reply{
		"GET /api/workers/box1": {Body: api.Worker{Name: "box1"}},
		"POST /api/code":        {Body: api.CodeReply{CodeRef: api.CodeRef{Hash: hash, Files: len(found.Files)}}},
		"POST /api/runs":        {Body: api.SubmitReply{RunID: clitest.ID("3f1c9ab2"), Status: run.Queued, QueueKey: "box1/cpu", Name: "train.py"}},
	}), hash
}

// project lays a script and what it needs into e's folder.
func project(t *testing.T, e *clitest.Env) string {
	t.Helper()
	dir := filepath.Join(e.Dir, "proj")
	for _, made := range []string{filepath.Join(dir, "lib"), filepath.Join(e.Dir, "other")} {
		if err := os.MkdirAll(made, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "train.py"), "import lib.a", 0o600)
	write(t, filepath.Join(dir, "lib", "a.py"), "", 0o600)
	write(t, filepath.Join(dir, "job.sh"), "#!/bin/sh\n", 0o700)
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// REF-01: for a worker that nobody knows nothing is sent.
func TestNothingIsSentForAnUnknownWorker(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	e.Dir = project(t, e)
	control := e.Serve(t, map[string]clitest.Reply{
		"POST /api/runs": {Status: 400, Body: api.ErrorBody{Error: api.Errorf(api.Invalid, "no worker \"gpu-bx\"")}},
	})
	err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, &Options{File: "train.py", Worker: "gpu-bx"})
	if err == nil || !strings.Contains(err.Error(), "gpu-bx") || len(bodies(control, "/api/code")) > 0 {
		t.Errorf("%v, %d folders sent", err, len(bodies(control, "/api/code")))
	}
}

func TestARunOnAWorkerTakesItsFolderAlong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		dir     string
		o       Options
		listed  []string
		options string
		says    string
	}{
		{
			"script", "proj",
			Options{File: "train.py", Worker: "box1"},
			nil,
			`{"script":{"path":"DIR/train.py","args":[],"cwd":"DIR"},"target":{"worker":"box1"}}`, "sends 3 files (22 B) of DIR to box1\n  left out: out: ",
		},
		{
			"script from elsewhere", "other",
			Options{File: "../proj/train.py", Worker: "any", Python: "/opt/python3"},
			nil,
			`{"script":{"path":"DIR/train.py","args":[],"cwd":"DIR","interpreter":"/opt/python3"},"target":{"worker":"any"}}`, "sends 3 files (22 B) of DIR to the worker\n",
		},
		{
			"command", "proj",
			Options{Args: []string{"./job.sh", "x"}, Worker: "box1"},
			nil,
			`{"command":{"argv":["./job.sh","x"],"cwd":"DIR"},"target":{"worker":"box1"}}`, "sends 3 files",
		},
		{
			"listed files", "proj",
			Options{File: "train.py", Files: []string{"lib"}, Worker: "box1"},
			[]string{"lib", "train.py"},
			`{"script":{"path":"DIR/train.py","args":[],"cwd":"DIR"},"target":{"worker":"box1"}}`, "sends 2 files",
		},
	} {
		e := clitest.New(t, 0)
		folder := project(t, e)
		e.Set("VIRTUAL_ENV", e.Dir) // the worker has another one
		e.Dir = filepath.Join(e.Dir, c.dir)
		control, hash := takesCode(t, e, folder, c.listed...)
		c.o.Watch.Detach = true
		if err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, &c.o); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var body api.SubmitRequest
		if err := json.Unmarshal([]byte(bodies(control, "/api/runs")[0]), &body); err != nil {
			t.Fatal(err)
		}
		if body.Code == nil || body.Code.Hash != hash || body.Code.Root != folder {
			t.Errorf("%s: code %+v", c.name, body.Code)
		}
		if got, want := canonical(t, string(body.Options)), canonical(t, strings.ReplaceAll(c.options, "DIR", folder)); got != want {
			t.Errorf("%s: options %s, want %s", c.name, got, want)
		}
		if got := e.Stderr.String(); !strings.HasPrefix(got, strings.ReplaceAll(c.says, "DIR", folder)) {
			t.Errorf("%s: said %q", c.name, got)
		}
	}
}

func canonical(t *testing.T, doc string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestWithoutFilesPathsAreTheWorkers(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	control, _ := takesCode(t, e, project(t, e))
	o := &Options{Args: []string{"/opt/job", "x"}, Worker: "box1", NoFiles: true, Watch: Watch{Detach: true}}
	if err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, o); err != nil {
		t.Fatal(err)
	}
	if got := bodies(control, "/api/runs")[0]; strings.Contains(got, `"code"`) || !strings.Contains(got, `"argv":["/opt/job","x"]`) || len(bodies(control, "/api/code")) > 0 {
		t.Errorf("asked %s", got)
	}
}

func TestNonsenseForWorkers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir  string
		o    Options
		says string
	}{
		{"proj", Options{File: "train.py", Files: []string{"lib"}}, "go with --worker"},
		{"proj", Options{File: "train.py", Worker: "local", NoFiles: true}, "go with --worker"},
		{"proj", Options{File: "train.py", Worker: "box1", Python: "python3"}, "absolute path of that machine"},
		{"proj", Options{File: "train.py", Worker: "box1", Venv: "venv"}, "absolute path of that machine"},
		{"proj", Options{File: "train.py", Worker: "box1", Conda: "ml"}, "--python /opt/conda/envs/ml/bin/python"},
		{"proj", Options{File: "train.py", Worker: "box1", NoFiles: true, Files: []string{"lib"}}, "can't be given together"},
		{"proj", Options{Args: []string{"./train.sh"}, Worker: "box1"}, "no such program"},
		{"", Options{Args: []string{"true"}, Worker: "box1"}, "would go along as a whole"},
		{"", Options{File: "proj/train.py", Worker: "box1", Cwd: "proj/lib"}, "does not lie in"},
		{"", Options{File: "net.json", Worker: "box1", NoFiles: true}, "a graph names its files itself"},
	} {
		e := clitest.New(t, 0)
		project(t, e)
		write(t, filepath.Join(e.Dir, "net.json"), graphFile, 0o600)
		e.Dir = filepath.Join(e.Dir, c.dir)
		control := e.Serve(t, nil)
		var usage *env.Usage
		err := Run(t.Context(), e.Env, Deps{Control: func() Control { return e.Client() }}, &c.o)
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) || len(control.Requests()) > 0 {
			t.Errorf("%+v: %v, asked %v", c.o, err, control.Requests())
		}
	}
}
