// Package clitest runs commands in tests: an Env made of buffers, a control
// plane with canned replies, golden files. Only tests may import it.
package clitest

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/run"
)

//nolint:gochecknoglobals // flags of the test binary
var update = flag.Bool("update", false, "write golden files instead of comparing")

//nolint:gochecknoinits // golden files must not depend on where they are compared
func init() { time.Local = time.UTC }

// Now is the time that it is in tests.
func Now() time.Time { return time.Date(2026, 3, 4, 14, 2, 0, 0, time.UTC) }

// Env is an Env and what was written to it.
type Env struct {
	*env.Env
	Stdout, Stderr *Buffer
}

// Buffer is a bytes.Buffer that several goroutines may use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// New makes an Env whose home is a temporary folder. On a terminal it is
// columns wide; 0 is a pipe.
func New(t *testing.T, columns int) *Env {
	t.Helper()
	home := t.TempDir()
	e := &Env{Stdout: &Buffer{}, Stderr: &Buffer{}}
	e.Env = &env.Env{
		In: strings.NewReader(""), Out: e.Stdout, Err: e.Stderr,
		OutTTY: columns > 0, ErrTTY: columns > 0, Columns: func() int { return columns },
		Environ: []string{"HOME=" + home, "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH"), "NO_COLOR=1"},
		Dir:     home, UID: os.Getuid(), Now: Now, Exe: os.Args[0],
		Alive: func(pid int) bool { return pid == os.Getpid() }, UserAgent: "cdui/test",
	}
	return e
}

// Set adds a variable to the environment.
func (e *Env) Set(name, value string) { e.Environ = append(e.Environ, name+"="+value) }

// Reply is a canned reply of a control plane.
type Reply struct {
	Status int
	Body   any
	Header map[string]string
}

// Control is a control plane with canned replies, by "METHOD /path". It keeps
// what it was asked.
type Control struct {
	*httptest.Server

	mu       sync.Mutex
	replies  map[string]Reply
	requests []Request
}

// Request is what a control plane was asked.
type Request struct {
	Method, Path, Query string
	Body                string
}

// Serve starts a control plane and points e at it.
func (e *Env) Serve(t *testing.T, replies map[string]Reply) *Control {
	t.Helper()
	c := &Control{replies: replies}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	e.Set("CDUI_SERVER", c.URL)
	return c
}

// Requests lists what was asked, by "METHOD /path?query".
func (c *Control) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Request{}, c.requests...)
}

func (c *Control) serve(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	c.mu.Lock()
	c.requests = append(c.requests, Request{r.Method, r.URL.Path, r.URL.RawQuery, body.String()})
	reply, ok := c.replies[r.Method+" "+r.URL.Path]
	c.mu.Unlock()
	if !ok {
		reply = Reply{Status: http.StatusNotFound, Body: api.ErrorBody{Error: api.Errorf(api.NotFound, "no reply for %s %s", r.Method, r.URL.Path)}}
	}
	for k, v := range reply.Header {
		w.Header().Set(k, v)
	}
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	switch b := reply.Body.(type) {
	case []byte:
		_, _ = w.Write(b)
	case nil:
	default:
		_ = json.NewEncoder(w).Encode(b)
	}
}

// Refusal is a reply that says no.
func Refusal(code api.Code, message string) Reply {
	return Reply{Status: code.Status(), Body: api.ErrorBody{Error: api.Errorf(code, "%s", message)}}
}

// Golden compares got with testdata/name.golden.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil { //nolint:gosec // checked in
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // checked in
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got\n%s\nwant\n%s", path, got, want)
	}
}

// Ago is a time before Now.
func Ago(d time.Duration) *time.Time {
	t := Now().Add(-d)
	return &t
}

// ID makes a run id of its first letters.
func ID(prefix string) string { return prefix + strings.Repeat("0", 32-len(prefix)) }

// Runs is a list that has all that lists can show.
func Runs() api.RunList {
	two := 2
	pid := 41277
	script := func(name string, args ...string) *run.ScriptSpec {
		return &run.ScriptSpec{Path: "/home/ada/" + name, Args: args, Cwd: "/home/ada", Interpreter: "/usr/bin/python3"}
	}
	raw := func(pairs ...string) map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = json.RawMessage(pairs[i+1])
		}
		return m
	}
	list := []api.Run{
		{Row: run.Row{ID: ID("3f1c9ab2"), Name: "resnet epoch sweep #3", Status: run.Running, QueueKey: "cuda:0", Devices: []string{"cuda:0"}, CreatedAt: *Ago(19 * time.Minute), StartedAt: Ago(18 * time.Minute), Attempt: 1}, PID: &pid, FinalMetrics: raw("loss", "0.12354", "lr", "0.001")},
		{Row: run.Row{ID: ID("5b90cc12"), Name: "訓練 finetune-7b", Status: run.Queued, QueueKey: "cuda:0", CreatedAt: *Ago(2 * time.Minute)}, QueuePosition: &two, QueueReason: "behind 81d00211", QueueReasonCode: "behind"},
		{Row: run.Row{ID: ID("c0ffee00"), Status: run.Queued, QueueKey: "cpu", CreatedAt: *Ago(3 * time.Minute), Options: run.Options{Hold: true, Script: script("probe.py")}}, QueueReason: "held; release it to let it queue", QueueReasonCode: run.ReasonHeld},
		{Row: run.Row{ID: ID("9e0a17aa"), Status: run.Succeeded, QueueKey: "cpu", Devices: []string{"cpu"}, CreatedAt: *Ago(3 * time.Hour), StartedAt: Ago(3 * time.Hour), FinishedAt: Ago(3*time.Hour - 64*time.Second), Options: run.Options{Script: script("digits.py", "--epochs", "30")}}, FinalMetrics: raw("accuracy", "0.97812", "train_loss", "0.0502")},
		{Row: run.Row{ID: ID("44f2b1cc"), Name: "🚀 wide-unet", Status: run.Failed, EndClass: run.EndOutOfMemory, Error: "CUDA out of memory: asked 9.5 GiB, 3.1 GiB free", QueueKey: "cuda:1", Devices: []string{"cuda:1"}, CreatedAt: *Ago(5 * time.Hour), StartedAt: Ago(5 * time.Hour), FinishedAt: Ago(5*time.Hour - 12*time.Second)}},
		{Row: run.Row{ID: ID("77aa01ee"), Name: "evil\x1b[31m\nname", Status: run.Cancelled, QueueKey: "cpu", CreatedAt: *Ago(50 * time.Hour)}},
	}
	return api.RunList{Runs: list, Total: 1204, Limit: 30}
}
