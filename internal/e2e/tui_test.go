package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pane is `cdui tui` in a tmux of 80 by 24, used by keys alone.
type pane struct {
	t    *testing.T
	p    *plane
	sock string
}

// newPane starts it in a folder.
func newPane(t *testing.T, p *plane, dir string) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("no tmux; run scripts/deps.sh test")
	}
	x := &pane{t: t, p: p, sock: filepath.Join(shortTemp(t), "tmux")}
	cmd := exec.Command("tmux", "-S", x.sock, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24",
		"'"+binary+"' tui --theme dark; echo left with $?; sleep 1000")
	cmd.Env, cmd.Dir = append(p.environ(), "LC_ALL=C.UTF-8", "SHELL=/bin/sh", "TERM=xterm-256color"), dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v: %s", err, out)
	}
	t.Cleanup(func() { _, _ = x.tmux("kill-server") })
	return x
}

func (x *pane) tmux(args ...string) (string, error) {
	out, err := exec.Command("tmux", append([]string{"-S", x.sock}, args...)...).CombinedOutput()
	return string(out), err
}

// terminate sends SIGTERM to the program in the pane.
func (x *pane) terminate() {
	x.t.Helper()
	out, err := x.tmux("list-panes", "-F", "#{pane_pid}")
	if err != nil {
		x.t.Fatalf("tmux: %v: %s", err, out)
	}
	shell := strings.TrimSpace(out)
	children, err := os.ReadFile(filepath.Join("/proc", shell, "task", shell, "children"))
	if err != nil {
		x.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		x.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		x.t.Fatal(err)
	}
}

// text is what the screen shows now.
func (x *pane) text() string {
	x.t.Helper()
	out, err := x.tmux("capture-pane", "-p")
	if err != nil {
		x.t.Fatalf("tmux: %v: %s", err, out)
	}
	return out
}

// keys sends keys by tmux's names, one after the other.
func (x *pane) keys(keys ...string) {
	x.t.Helper()
	for _, k := range keys {
		if out, err := x.tmux("send-keys", k); err != nil {
			x.t.Fatalf("tmux: %v: %s", err, out)
		}
		if k == "Escape" {
			<-time.After(100 * time.Millisecond) // or it is taken for Alt with the next key
		}
	}
}

func (x *pane) write(text string) {
	x.t.Helper()
	if out, err := x.tmux("send-keys", "-l", text); err != nil {
		x.t.Fatalf("tmux: %v: %s", err, out)
	}
}

// shows waits until all words stand on the screen.
func (x *pane) shows(words ...string) {
	x.t.Helper()
	x.until(strings.Join(words, ", "), func(s string) bool {
		for _, w := range words {
			if !strings.Contains(s, w) {
				return false
			}
		}
		return true
	})
}

func (x *pane) hides(words string) {
	x.t.Helper()
	x.until("nothing of "+words, func(s string) bool { return !strings.Contains(s, words) })
}

func (x *pane) until(what string, ok func(screen string) bool) {
	x.t.Helper()
	deadline, tick := time.NewTimer(time.Minute), time.NewTicker(30*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for last := x.text(); !ok(last); last = x.text() {
		select {
		case <-tick.C:
		case <-deadline.C:
			x.t.Fatalf("the screen doesn't show %s:\n%s", what, last)
		}
	}
}

const tuiTraining = `import math, time, cdui
for epoch in range(2000):
    if cdui.should_stop():
        break
    cdui.log({"train_loss": 2.3 * math.exp(-epoch / 20), "val_accuracy": 1 - math.exp(-epoch / 20)}, step=epoch)
    print(f"epoch {epoch} 訓練中 🚀", flush=True)
    time.sleep(0.2)
`

const tuiTry = `import sys, cdui
lr = float(sys.argv[sys.argv.index("--lr") + 1]) if "--lr" in sys.argv else 1
for step in range(50):
    cdui.log({"loss": lr / (step + 1)}, step=step)
`

// Proves T-01, T-02, T-03, T-06 and M-02 on the real thing: a tour by keys alone,
// in 80 by 24, of a control plane with two agents that train.
func TestATourOfTheScreenByKeys(t *testing.T) {
	t.Parallel() // it mostly waits
	needTorch(t)
	p := newPlane(t)
	work := filepath.Join(filepath.Dir(p.dir), "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	p.file("work/train.py", tuiTraining)
	p.file("work/try.py", tuiTry)
	p.file("work/tries.yaml", "script: try.py\nparams:\n  - {arg: --lr, values: [1, 2]}\nobjective: {metric: loss, direction: minimize}\n")
	x := newPane(t, p, work)
	x.shows("● live", "No runs yet.")

	// Two workers are added, and their agents started with what the dialog says.
	x.keys("3")
	agents := map[string]*exec.Cmd{}
	for n, name := range []string{"box1", "box2"} {
		x.keys("a")
		x.write(name)
		x.shows("cdui workers add " + name)
		x.keys("Enter")
		x.shows("--token")
		agents[name] = startAgent(t, p, n+1, name, tokenOn(x.text()))
		x.keys("Escape")
		x.hides("--token")
	}
	x.shows("box1  online", "box2  online", "cuda:1", "mem")

	tourOfRuns(t, p, x)
	tourOfWorkers(p, x)
	tourOfSweeps(x)
	tourOfActions(p, x)

	// The control plane goes away and comes back; what went meanwhile is gone.
	other := p.run("--name", "goes on", "--", "sleep", "1000")
	x.keys("1")
	x.shows("goes on")
	p.kill9()
	x.shows("link lost", "trying again", "goes on")
	p.start()
	x.shows("● live", "goes on")
	x.hides("link lost")
	p.cdui("cancel", other)
	p.ended(other)
	p.cdui("runs", "rm", other)
	x.hides("goes on")
	x.shows("train.py", "7 of 7 runs")

	x.keys("q")
	x.shows("left with 0")

	// U2, with the program as it is shipped.
	x = newPane(t, p, work)
	x.shows("● live", "train.py")
	x.terminate()
	x.shows("left with 143")
	x.hides("● live")
	for _, agent := range agents {
		stopAgent(t, agent)
	}
}

// tourOfRuns submits, filters, opens, follows, looks at a chart, holds, and
// cancels.
func tourOfRuns(t *testing.T, p *plane, x *pane) {
	// A training is submitted to one, and a copy of it to the other.
	x.keys("1", "n")
	x.write("train.py")
	x.keys("Down", "Right")
	x.shows("(•) box1", "start at once", "cdui run --worker box1 --devices cpu train.py")
	x.keys("Enter")
	x.shows("queued as", "train.py", "box1/cpu")
	x.keys("s", "Right")
	x.shows("(•) box2", "cdui runs rerun", "--worker box2 --devices cpu")
	x.keys("Enter")
	x.shows("queued as")
	x.shows("box2/cpu", "2 running", "2 of 2 runs")

	// Filter: one passes, then all but that one.
	other := p.run("--name", "another one", "--hold", "--", "true")
	x.shows("another one")
	x.keys("/")
	x.write("TRAIN")
	x.hides("another one")
	x.keys("Enter", "/", "Home")
	x.write("!")
	x.keys("Enter")
	x.shows("another one", "1 of 3 runs")
	x.hides("train.py")
	x.keys("Escape")
	x.shows("3 of 3 runs")

	// What is held is released in the queue, and goes.
	x.keys("2")
	x.shows("WHY THE FIRST WAITS", "box1/cpu", "box2/cpu")
	x.keys("/")
	x.write("another")
	x.keys("Enter", "h")
	x.shows("‖ held", "cdui queue hold cpu")
	x.keys("h")
	x.shows("cdui queue release cpu")
	x.hides("‖ held")
	x.keys("Enter", "Down", "h")
	x.shows("✓ cdui runs release "+other[:8], "1st", "cpu is busy with") // all three share the processors
	x.keys("Escape")

	// Open one, look at its chart, follow its output.
	x.keys("1", "/")
	x.write("train.*box1")
	x.keys("Enter", "Enter")
	x.shows("running on box1/cpu", "1 overview", "train_loss")
	x.keys("2")
	x.until("a chart", func(s string) bool { return strings.Contains(s, "val_accuracy") && drawn(s) })
	x.keys("3")
	x.shows("following", "訓練中 🚀")
	epoch := regexp.MustCompile(`epoch (\d+) `)
	first := epoch.FindString(x.text())
	x.until("later output", func(s string) bool { return !strings.Contains(s, first) })
	x.keys("Up", "Up")
	x.shows("paused, f follows")
	x.keys("f")
	x.shows("following")
	x.keys("6", "Enter")
	x.shows("put out no files")
	x.keys("5")
	x.shows("A script has no nodes")

	// Cancel shows the grace, then the end.
	x.keys("c")
	x.shows("asked to stop; it has", "cdui cancel")
	x.until("its end", func(s string) bool {
		return strings.Contains(s, "⊘ cancelled") || strings.Contains(s, "✓ succeeded")
	})
	x.keys("Escape", "Escape", "Escape")
	x.shows("3 of 3 runs", "1 running · 0 waiting", "done in")

	// The other one is marked and ends too.
	x.keys("Home", "Space", "c")
	x.shows("asked to stop; it has")
	x.shows("0 running · 0 waiting")
}

// tourOfWorkers drains a machine, cordons and shares a card, and cordons no more.
func tourOfWorkers(p *plane, x *pane) {
	x.keys("3", "/")
	x.write("box1")
	x.keys("Enter", "Home", "D")
	x.shows("box1  draining", "cdui workers drain box1")
	x.keys("D")
	x.shows("box1  online", "cdui workers undrain box1")
	x.keys("Down", "Down", "x")
	x.shows("Keep runs from box1/cuda:0")
	x.write("fan is loud")
	x.shows("cdui workers cordon box1 cuda:0 --reason 'fan is loud'")
	x.keys("Enter")
	x.shows("cordoned: fan is loud")
	x.keys("x")
	x.hides("cordoned: fan is loud")
	x.keys("m")
	x.shows("✓ box1/cuda:0 is shared by memory", "cdui workers share box1 cuda:0 on")
	x.keys("s")
	x.shows("(•) box1", "[x] cuda:0")
	x.keys("Escape", "Escape")
}

// tourOfSweeps follows a sweep and a study to their ends, and looks at curves.
func tourOfSweeps(x *pane) {
	x.keys("4")
	x.shows("No sweeps and no studies yet.")
	x.keys("S")
	x.write("tries.yaml")
	x.keys("Enter")
	x.shows("queued as", "cdui sweep run tries.yaml")
	x.shows("2/2", "finished", "loss 0.02")
	x.keys("Enter")
	x.shows("RANK", "2 succeeded", "0.02", "0.04")
	x.hides("step 0")
	x.keys("v")
	x.until("curves", func(s string) bool {
		return strings.Contains(s, "#1") && strings.Contains(s, "step 0…49") && drawn(s)
	})
	x.keys("Down", "Space")
	x.hides("lr=1")
	x.keys("Escape", "Escape")
	x.keys("T")
	x.write("try.py")
	x.keys("Down", "Down", "Down", "BSpace", "2")
	x.shows("cdui study run -n 2 try.py")
	x.keys("Enter")
	x.shows("try.py", "± 0")
	x.keys("Home", "Enter")
	x.shows("OUTCOME", "2 scored")
	x.keys("Escape")
}

// tourOfActions reads what all this has left in the log, which goes on by itself.
func tourOfActions(p *plane, x *pane) {
	x.keys(":")
	x.write("actions")
	x.keys("Enter")
	x.shows("submit", "study", "undrain", "worker box1", "127.0.0.1")
	p.cdui("workers", "drain", "box2")
	x.shows("worker box2")
	x.keys("/")
	x.write("fan is loud")
	x.keys("Enter", "Home")
	x.shows("1 action", "device box1 cuda:0", "cordoned: fan is loud")
	x.keys("d")
	x.shows("An action", "cdui actions")
	x.keys("Escape", "Escape")
}

// drawn tells whether a screen has braille.
func drawn(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 0x2800 && r <= 0x28ff }) >= 0
}

// tokenOn finds the one-time token on a screen that has broken its line.
func tokenOn(screen string) string {
	var all strings.Builder
	for line := range strings.SplitSeq(screen, "\n") {
		if _, rest, ok := strings.Cut(line, "│ "); ok {
			inner, _, _ := strings.Cut(rest, " │")
			all.WriteString(strings.TrimRight(inner, " "))
			if strings.HasSuffix(inner, " ") {
				all.WriteByte(' ')
			}
		}
	}
	m := regexp.MustCompile(`--token ([a-z0-9.]+)`).FindStringSubmatch(all.String())
	if m == nil {
		return ""
	}
	return m[1]
}

// startAgent starts an agent of this machine, with a folder and two cards of its
// own.
func startAgent(t *testing.T, p *plane, n int, name, token string) *exec.Cmd {
	t.Helper()
	if token == "" {
		t.Fatal("no token on the screen")
	}
	home := shortTemp(t)
	args := []string{"agent", "start", "--control", "http://" + p.addr, "--name", name, "--token", token}
	if python != "" {
		args = append(args, "--python", python)
	}
	cmd := exec.Command(binary, args...)
	fakeCards(t, filepath.Join(home, "bin"), n)
	cmd.Env = append(p.environ(), "CDUI_HOME="+filepath.Join(home, "a"), "HOME="+home, "PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
	cmd.Dir = home
	log := &safeBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		_, _ = killMatching(home)
		if t.Failed() {
			t.Logf("agent's log:\n%s", tail(log.String(), 3000))
		}
	})
	return cmd
}

func stopAgent(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Logf("agent: %v", err)
	}
}

// Proves T-01 and S-05: lists that go on follow the feed, and say when the line
// is lost.
func TestListsThatGoOn(t *testing.T) {
	p := newPlane(t)
	out := &safeBuffer{}
	errs := &safeBuffer{}
	cmd := p.command("ls", "--watch")
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	id := p.run("--name", "watched", "--", "true")
	p.ended(id)
	eventually(t, time.Minute, "its end is in the list", func() bool {
		return strings.Contains(out.String(), "watched") && strings.Contains(out.String(), "succeeded")
	})
	p.kill9()
	eventually(t, time.Minute, "the lost line is said", func() bool { return strings.Contains(errs.String(), "trying again") })
	p.start()
	p.run("--name", "after", "--", "true")
	eventually(t, time.Minute, "the list goes on", func() bool { return strings.Contains(out.String(), "after") })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-done
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
}
