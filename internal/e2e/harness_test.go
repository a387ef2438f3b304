package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
)

// binary is the program under test, built by TestMain.
var binary string

// python is an interpreter that has torch.
var python string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "cdui-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary = os.Getenv("CDUI_BINARY")
		if binary == "" {
			binary = filepath.Join(dir, "cdui")
			build := exec.Command("go", "build", "-tags", "cdui_debug,nethttpomithttp2", "-o", binary, "cdui/cmd/cdui")
			build.Stdout, build.Stderr = os.Stderr, os.Stderr
			if err := build.Run(); err != nil {
				fmt.Fprintln(os.Stderr, "build cdui:", err)
				return 1
			}
		}
		python = findTorch()
		return m.Run()
	}())
}

// findTorch gives the first interpreter that can import torch, empty if none.
func findTorch() string {
	for _, name := range []string{os.Getenv("CDUI_TEST_PYTHON"), "python3", "/usr/bin/python3"} {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.Command(path, "-c", "import sys,torch; print(sys.executable)").Output()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	return ""
}

func needTorch(t testing.TB) {
	t.Helper()
	if python == "" {
		t.Fatal("no python with torch; run scripts/deps.sh test")
	}
}

// plane is a control plane in a folder of its own.
type plane struct {
	t    testing.TB
	dir  string
	addr string
	uid  int // the user that it runs as; 0 is root
	env  []string
	cmd  *exec.Cmd
	log  *safeBuffer
	// exited is closed once the control plane has ended.
	exited <-chan struct{}
}

// safeBuffer takes a process's output while a test may read it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newPlane starts a control plane with extra settings, NAME=value.
func newPlane(t testing.TB, env ...string) *plane {
	t.Helper()
	p := preparePlane(t, env...)
	p.start()
	return p
}

func preparePlane(t testing.TB, env ...string) *plane {
	t.Helper()
	p := &plane{t: t, dir: filepath.Join(shortTemp(t), "d"), addr: freeAddr(t), env: env}
	t.Cleanup(func() {
		p.sweep()
		if t.Failed() && p.log != nil {
			t.Logf("control plane's log:\n%s", tail(p.log.String(), 4000))
		}
	})
	return p
}

// shortTemp is a temp folder that any user can reach.
func shortTemp(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cdui-t-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (p *plane) environ() []string {
	base := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(p.dir), "CDUI_HOME=" + p.dir, "LANG=C.UTF-8", "CDUI_LISTEN=" + p.addr}
	if python != "" {
		base = append(base, "CDUI_PYTHON="+python)
	}
	return append(base, p.env...)
}

func (p *plane) asUser(cmd *exec.Cmd) {
	if p.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}}
	}
}

// start runs the control plane in the foreground and waits until it answers.
func (p *plane) start() {
	p.t.Helper()
	p.log = &safeBuffer{}
	p.cmd = exec.Command(binary, "start", "-f")
	p.cmd.Env, p.cmd.Dir = p.environ(), "/"
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.asUser(p.cmd)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	exited := make(chan struct{})
	p.exited = exited
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(exited) }(p.cmd)
	eventually(p.t, 20*time.Second, "the control plane answers", func() bool {
		select {
		case <-exited:
			p.t.Fatalf("the control plane ended: %s", p.log.String())
		default:
		}
		res, err := http.Get("http://" + p.addr + api.PathHealth)
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == 200
	})
}

// signal sends a signal to the control plane and waits for its end.
func (p *plane) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	<-p.exited
}

// gone tells whether the control plane has ended.
func (p *plane) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *plane) kill9() { p.t.Helper(); p.signal(syscall.SIGKILL) }

// sweep stops the control plane with its runs; nothing may be left.
func (p *plane) sweep() {
	if p.cmd == nil {
		return
	}
	if !p.gone() {
		if out, code := p.try("stop", "--cancel-runs"); code != 0 && code != 3 {
			p.t.Logf("stop: exit %d: %s", code, out)
		}
	}
	p.signal(syscall.SIGKILL)
	_, _ = killMatching(p.dir)
}

// killMatching kills what still runs with marker in its environment or
// arguments and tells how many there were.
func killMatching(marker string) (int, []string) {
	n, names := 0, []string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, _ := os.ReadFile(filepath.Join(d, "environ"))
		args, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		if bytes.Contains(env, []byte(marker)) || bytes.Contains(args, []byte(marker)) {
			n++
			names = append(names, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(args, []byte{0}, []byte(" "))))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return n, names
}

// command prepares a cdui command against this plane.
func (p *plane) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Dir = p.environ(), filepath.Dir(p.dir)
	p.asUser(cmd)
	return cmd
}

// try runs a command and gives its combined output and exit code.
func (p *plane) try(args ...string) (string, int) {
	out, err := p.command(args...).CombinedOutput()
	return string(out), exitCode(p.t, err)
}

// cdui runs a command that must succeed and gives its standard output.
func (p *plane) cdui(args ...string) string {
	p.t.Helper()
	var stderr bytes.Buffer
	cmd := p.command(args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("cdui %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func exitCode(t testing.TB, err error) int {
	if err == nil {
		return 0
	}
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode()
	}
	t.Fatal(err)
	return -1
}

// run submits in the background and gives the run's id.
func (p *plane) run(args ...string) string {
	p.t.Helper()
	var reply api.SubmitReply
	out := p.cdui(append([]string{"run", "--detach", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &reply); err != nil || reply.RunID == "" {
		p.t.Fatalf("run: %v: %s", err, out)
	}
	return reply.RunID
}

func (p *plane) get(path string, v any) {
	p.t.Helper()
	res, err := http.Get("http://" + p.addr + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if res.StatusCode != 200 {
		p.t.Fatalf("GET %s: %d %s", path, res.StatusCode, raw)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		p.t.Fatalf("GET %s: %v: %s", path, err, raw)
	}
}

func (p *plane) show(id string) api.Run {
	p.t.Helper()
	var r api.Run
	p.get("/api/runs/"+id, &r)
	return r
}

// facts is the part of execution_facts that tests look at.
type facts struct {
	PID        int    `json:"pid"`
	OutputTail string `json:"output_tail"`
	Isolation  string `json:"isolation"`
	Killed     []struct {
		Name string `json:"name"`
	} `json:"killed"`
	Exit struct {
		Code   *int `json:"code"`
		Signal *int `json:"signal"`
	} `json:"exit"`
}

func (p *plane) facts(id string) facts {
	p.t.Helper()
	var f facts
	if raw := p.show(id).Facts; len(raw) > 0 {
		if err := json.Unmarshal(raw, &f); err != nil {
			p.t.Fatal(err)
		}
	}
	return f
}

// ended waits until a run has ended.
func (p *plane) ended(id string) api.Run {
	p.t.Helper()
	var r api.Run
	eventually(p.t, 2*time.Minute, "run "+id+" ends", func() bool {
		r = p.show(id)
		return !r.Active
	})
	return r
}

// running waits until a run's child is there and gives its pid.
func (p *plane) running(id string) int {
	p.t.Helper()
	pid := 0
	eventually(p.t, time.Minute, "run "+id+" starts", func() bool {
		r := p.show(id)
		if !r.Active {
			p.t.Fatalf("run %s ended: %s %s", id, r.Status, r.Error)
		}
		if r.PID == nil {
			return false
		}
		pid = *r.PID
		return true
	})
	return pid
}

func (p *plane) events(id string) []api.Event {
	p.t.Helper()
	var all []api.Event
	cursor := int64(0)
	for {
		var page api.Events
		p.get(fmt.Sprintf("/api/runs/%s/events?cursor=%d&limit=2000", id, cursor), &page)
		if len(page.Events) == 0 {
			return all
		}
		all = append(all, page.Events...)
		cursor = page.Cursor
	}
}

func (p *plane) rawLog(id string) []byte {
	p.t.Helper()
	res, err := http.Get("http://" + p.addr + "/api/runs/" + id + "/log")
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return raw
}

// file writes a file beside the data folder and gives its path.
func (p *plane) file(name, text string) string {
	p.t.Helper()
	path := filepath.Join(filepath.Dir(p.dir), name)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// eventually polls until ok or the time is over.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

// alive tells whether a process exists and is no zombie.
func alive(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(raw), ") ")
	return ok && !strings.HasPrefix(rest, "Z")
}

// withEnv lists the processes whose environment holds marker.
func withEnv(marker string) []int {
	var out []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		env, readErr := os.ReadFile(filepath.Join(d, "environ"))
		if err == nil && readErr == nil && bytes.Contains(env, []byte(marker)) && alive(pid) {
			out = append(out, pid)
		}
	}
	return out
}

// withArgs lists the processes whose arguments hold marker.
func withArgs(marker string) []int {
	var out []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		args, readErr := os.ReadFile(filepath.Join(d, "cmdline"))
		if err == nil && readErr == nil && bytes.Contains(args, []byte(marker)) && alive(pid) {
			out = append(out, pid)
		}
	}
	return out
}
