package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
)

// hub is the control plane's address in a world.
const hub = "10.77.0.1"

// world is a control plane and the machines around it, each in a network
// namespace of its own and joined to the control plane's by a line that can be
// cut. The test itself stands in the control plane's namespace.
type world struct {
	t *testing.T
	*plane
	boxes []*box
	// etc is set once /etc is the world's own.
	etc bool
}

// box is a machine with an agent.
type box struct {
	w *world
	// name is the worker's and the namespace's; line the control plane's end of
	// the line.
	name, line string
	// control is what it calls the control plane, where that isn't the world's.
	control string
	dir     string
	env     []string
	cmd     *exec.Cmd
	log     *safeBuffer
	exited  <-chan struct{}
}

// insideVariable tells the test that it runs in a world.
const insideVariable = "CDUI_E2E_WORLD"

// inWorld runs a test in namespaces of its own: the test program starts itself
// again there, so that nothing is left of them however the test ends.
func inWorld(t *testing.T, within time.Duration, do func(t *testing.T, w *world)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("the command ip is not installed (package iproute2)")
	}
	if os.Getenv(insideVariable) == t.Name() {
		do(t, newWorld(t))
		return
	}
	t.Parallel()                                                                                                                 // each has its own machines
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+within.String()) //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), insideVariable+"="+t.Name(), "CDUI_BINARY="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, tail(text, 20000))
	}
	if strings.Contains(text, "--- SKIP") {
		t.Skip(text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "faults survived") {
			fmt.Print(line)
		}
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	// What ip keeps of namespaces must not be seen outside, nor outlive us.
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{{"none", "/", "", syscall.MS_REC | syscall.MS_PRIVATE}, {"cdui-world", "/run", "tmpfs", 0}} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			t.Skipf("can't make a world: mount %s: %v", m.target, err)
		}
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n", hub, hostname(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(hosts, "/etc/hosts", "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("can't make a world: names: %v", err)
	}
	sh(t, "ip", "link", "set", "lo", "up")
	sh(t, "ip", "addr", "add", hub+"/32", "dev", "lo")
	_, port, _ := strings.Cut(freeAddr(t), ":")
	w := &world{t: t}
	w.plane = preparePlane(t, "CDUI_LISTEN=0.0.0.0:"+port)
	w.addr = "127.0.0.1:" + port
	return w
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// control is what agents call the control plane.
func (w *world) control() string {
	_, port, _ := strings.Cut(w.addr, ":")
	return "http://" + hub + ":" + port
}

// networks are the network namespaces of this world, as /proc/PID/ns/net names
// them.
func (w *world) networks() map[string]bool {
	w.t.Helper()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]bool{own: true}
	names, _ := filepath.Glob("/run/netns/*")
	for _, name := range names {
		var st syscall.Stat_t
		if err := syscall.Stat(name, &st); err != nil {
			w.t.Fatal(err)
		}
		all[fmt.Sprintf("net:[%d]", st.Ino)] = true
	}
	return all
}

// sh runs a command that must succeed.
func sh(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// box makes a machine with two fake cards. Its agent isn't started.
func (w *world) box(name string) *box {
	w.t.Helper()
	n := len(w.boxes) + 1
	b := &box{w: w, name: name, line: fmt.Sprintf("to-%s", name), dir: filepath.Join(shortTemp(w.t), name)}
	w.boxes = append(w.boxes, b)
	near, far := fmt.Sprintf("10.77.%d.1", n), fmt.Sprintf("10.77.%d.2", n)
	sh(w.t, "ip", "netns", "add", name)
	sh(w.t, "ip", "link", "add", b.line, "type", "veth", "peer", "name", "line", "netns", name)
	sh(w.t, "ip", "addr", "add", near+"/30", "dev", b.line)
	sh(w.t, "ip", "link", "set", b.line, "up")
	for _, args := range [][]string{{"addr", "add", far + "/30", "dev", "line"}, {"link", "set", "line", "up"}, {"link", "set", "lo", "up"}, {"route", "add", hub, "via", near}} {
		sh(w.t, "ip", append([]string{"-n", name}, args...)...)
	}
	fakeCards(w.t, filepath.Join(b.dir, "bin"), n)
	w.t.Cleanup(func() {
		b.sweep()
		if w.t.Failed() && b.log != nil {
			w.t.Logf("log of agent %s:\n%s", name, tail(b.log.String(), 4000))
		}
	})
	return b
}

// fakeCards puts a driver's program into a folder that tells of two cards, those
// of machine n.
func fakeCards(t testing.TB, dir string, n int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cards := ""
	for i := range 2 {
		cards += fmt.Sprintf("%d, NVIDIA Fake, GPU-%08d-0000-4000-8000-%012d, 00000000:%02X:00.0, 8192, 8000, 1, 40, 50.0\n", i, n, i, 16*n+i)
	}
	fake := "#!/bin/sh\ncase \"$1\" in --query-gpu=*) cat <<'E'\n" + cards + "E\n;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (b *box) home() string { return filepath.Join(b.dir, "home") }

func (b *box) environ() []string {
	base := []string{
		"PATH=" + filepath.Join(b.dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + b.dir, "CDUI_HOME=" + b.home(), "LANG=C.UTF-8",
		"MARK_BOX=" + b.name,
	}
	if python != "" {
		base = append(base, "CDUI_PYTHON="+python)
	}
	return append(base, b.env...)
}

// command prepares a cdui command on the machine.
func (b *box) command(args ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", b.name, binary}, args...)...) //nolint:gosec // our own program
	cmd.Env, cmd.Dir = b.environ(), b.dir
	return cmd
}

// try runs a command there and gives its combined output and exit code.
func (b *box) try(args ...string) (string, int) {
	out, err := b.command(args...).CombinedOutput()
	return string(out), exitCode(b.w.t, err)
}

// launch starts the agent in the foreground, without waiting.
func (b *box) launch(args ...string) {
	b.w.t.Helper()
	control := b.control
	if control == "" {
		control = b.w.control()
	}
	all := []string{"agent", "start", "--control", control, "--name", b.name, "--pass-env", "MARK_BOX"}
	if python != "" {
		all = append(all, "--python", python)
	}
	b.spawn(append(all, args...)...)
}

// spawn runs a command of the agent without waiting.
func (b *box) spawn(args ...string) {
	b.w.t.Helper()
	b.log = &safeBuffer{}
	b.cmd = b.command(args...)
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		b.w.t.Fatal(err)
	}
	exited := make(chan struct{})
	b.exited = exited
	go func(cmd *exec.Cmd) { _ = cmd.Wait(); close(exited) }(b.cmd)
}

// start starts the agent and waits until the control plane has welcomed it.
func (b *box) start(args ...string) {
	b.w.t.Helper()
	b.launch(args...)
	b.online()
}

// online waits until the worker is connected. The agent itself must say so: after
// a kill the control plane may still hold the line of the one before.
func (b *box) online() {
	b.w.t.Helper()
	eventually(b.w.t, time.Minute, b.name+" is online", func() bool {
		select {
		case <-b.exited:
			b.w.t.Fatalf("agent %s ended: %s", b.name, b.log.String())
		default:
		}
		return strings.Contains(b.log.String(), "msg=connected") && b.row().State == api.WorkerOnline
	})
}

// enroll makes the machine a worker.
func (b *box) enroll() {
	b.w.t.Helper()
	b.start("--token", b.w.enrollment(b.name))
}

func (b *box) kill9() {
	b.w.t.Helper()
	if err := b.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		b.w.t.Fatal(err)
	}
	<-b.exited
}

// cut takes the line down: what is sent on it is lost, on either end.
func (b *box) cut() { b.w.t.Helper(); sh(b.w.t, "ip", "link", "set", b.line, "down") }

func (b *box) heal() { b.w.t.Helper(); sh(b.w.t, "ip", "link", "set", b.line, "up") }

// row is the worker as the control plane sees it, zero when it doesn't.
func (b *box) row() api.Worker {
	b.w.t.Helper()
	for _, w := range b.w.workers() {
		if w.Name == b.name {
			return w
		}
	}
	return api.Worker{}
}

// sweep stops the agent with its runs; nothing may be left.
func (b *box) sweep() {
	if b.cmd == nil {
		return
	}
	_, _ = b.try("agent", "stop", "--cancel-runs")
	_ = b.cmd.Process.Kill()
	<-b.exited
	_, _ = killMatching(b.dir)
}

func (w *world) workers() []api.Worker {
	w.t.Helper()
	var list api.WorkerList
	if err := json.Unmarshal([]byte(w.cdui("workers", "ls", "--json")), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Workers
}

// enrollment makes a one-time token.
func (w *world) enrollment(name string, args ...string) string {
	w.t.Helper()
	var reply api.EnrollmentReply
	out := w.cdui(append([]string{"workers", "add", name, "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &reply); err != nil || reply.Token == "" {
		w.t.Fatalf("workers add: %v: %s", err, out)
	}
	return reply.Token
}

// leaks lists the files below dir that hold secret.
func leaks(t testing.TB, dir, secret string, but ...string) []string {
	t.Helper()
	var found []string
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // files come and go
		}
		for _, b := range but {
			if path == b {
				return nil
			}
		}
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, []byte(secret)) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// script writes a program into a folder of its own and gives its path.
func (w *world) script(name, text string) string {
	w.t.Helper()
	path := filepath.Join(shortTemp(w.t), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// tryIn runs a command in a folder and gives its combined output and exit code.
func (w *world) tryIn(dir string, args ...string) (string, int) {
	cmd := w.command(args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), exitCode(w.t, err)
}

// sumOf hashes a file.
func sumOf(path string) (string, error) {
	raw, err := os.ReadFile(path)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}
