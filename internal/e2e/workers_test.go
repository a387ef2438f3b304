package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/run"
)

// oddNames are legal names that are easily mistaken.
func oddNames() []string {
	return []string{"plain.bin", "with space.bin", "new\nline.bin", "épée 🗡.bin", "-rf", "..hidden", strings.Repeat("n", 255), "deep/er/file"}
}

// program lays a program with modules, a data file and things that can't come
// along into a folder.
func program(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string]string{
		"train.py": `import os, sys, cdui
import alpha
from pkg import beta
from pkg.sub.gamma import VALUE
print("box", os.environ["MARK_BOX"], "sum", alpha.total(open("data/points.csv")) + beta.ONE + VALUE)
os.makedirs("out/deep/er", exist_ok=True)
for i, name in enumerate(open("names.bin", "rb").read().split(b"\0")):
    path = os.path.join(b"out", name)
    with open(path, "wb") as f: f.write(os.urandom(1000) * (i + 1))
    sys.stdout.flush()
    cdui.artifact(os.fsdecode(path), kind="odd")
    import hashlib
    print("file", i, hashlib.sha256(open(path, "rb").read()).hexdigest())
cdui.log({"total": 42.0}, step=1)
`,
		"alpha.py": "def total(f): return sum(int(x) for x in f)\n", "pkg/__init__.py": "", "pkg/beta.py": "ONE = 1\n",
		"pkg/sub/__init__.py": "", "pkg/sub/gamma.py": "VALUE = 10\n", "data/points.csv": "10\n11\n10\n",
		"names.bin": strings.Join(oddNames(), "\x00"), ".cduiignore": "secret.txt\n", "secret.txt": "not for the worker",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"loop": "loop", "outside": "/etc/hostname", "inside": "alpha.py"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runIn submits in the background from a folder and gives the run's id.
func (w *world) runIn(dir string, args ...string) string {
	w.t.Helper()
	cmd := w.command(append([]string{"run", "--detach", "--json"}, args...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var reply api.SubmitReply
	if err != nil || json.Unmarshal(out, &reply) != nil || reply.RunID == "" {
		w.t.Fatalf("run %s: %v: %s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return reply.RunID
}

// succeeded waits for a run that must succeed.
func (w *world) succeeded(id string) api.Run {
	w.t.Helper()
	r := w.ended(id)
	if r.Status != run.Succeeded {
		w.t.Fatalf("run %s: %s %s %q\n%s", id, r.Status, r.EndClass, r.Error, w.rawLog(id))
	}
	return r
}

// ST-01, ST-02, XFER-04, XFER-05, XFER-06, XFER-07, K-02, R-05: two machines run a script
// with modules and data that they never had, a command on a card and a graph; files come back byte for byte.
func TestWorkersRunScriptsCommandsAndGraphs(t *testing.T) {
	needTorch(t)
	inWorld(t, 5*time.Minute, func(t *testing.T, w *world) {
		w.start()
		one, two := w.box("box1"), w.box("box2")
		one.enroll()
		two.enroll()
		for _, b := range w.boxes {
			row := b.row()
			var devices []string
			for _, d := range row.Devices {
				devices = append(devices, d.Device.Device)
			}
			if row.State != api.WorkerOnline || !slices.Equal(devices, []string{device.CPU, "cuda:0", "cuda:1"}) || row.Draining || row.Degraded ||
				row.Version == "" || row.Platform == nil || row.Python == nil || row.ConnectedAt == nil || row.Via != "direct" {
				t.Errorf("%s: %+v", b.name, row)
			}
		}
		folder := filepath.Join(shortTemp(t), "proj")
		program(t, folder)
		for _, b := range w.boxes {
			slow := w.runIn(folder, "--worker", b.name, "--devices", "cuda:1", "--", "sh", "-c", "echo on $MARK_BOX $CUDA_VISIBLE_DEVICES; cat data/points.csv; sleep 3")
			w.running(slow)
			if row := b.row(); !slices.Equal(row.Runs, []string{slow}) {
				t.Errorf("%s holds %v, not %s", b.name, row.Runs, slow)
			}
			script := w.runIn(folder, "--worker", b.name, "train.py")
			r := w.succeeded(script)
			log := string(w.rawLog(script))
			if !strings.Contains(log, "box "+b.name+" sum 42") || r.WorkerID != b.name {
				t.Errorf("script on %q: %s", r.WorkerID, log)
			}
			w.cameBack(t, script, log)
			w.succeeded(slow)
			if log := string(w.rawLog(slow)); !strings.HasPrefix(log, "on "+b.name+" ") || !strings.HasSuffix(log, "10\n11\n10\n") {
				t.Errorf("command: %q", log)
			}
			net := w.runIn(folder, "--worker", b.name, w.file("net.json", tinyGraph))
			if r := w.succeeded(net); r.WorkerID != b.name {
				t.Errorf("graph on %q", r.WorkerID)
			}
			if row := b.row(); len(row.Runs) != 0 {
				t.Errorf("%s still holds %v", b.name, row.Runs)
			}
			left, err := filepath.Glob(filepath.Join(b.home(), "agent", b.name, "files", "*", "code", "secret.txt"))
			if err != nil || len(left) > 0 {
				t.Errorf("what was to stay behind came along: %v, %v", left, err)
			}
		}
		out, code := w.tryIn(folder, "run", "--detach", "--worker", "box1", "train.py")
		if code != 0 || !strings.Contains(out, "sends ") {
			t.Errorf("preview: exit %d, %s", code, out)
		}
		for _, name := range []string{"loop", "outside", "fifo"} {
			if !strings.Contains(out, "left out: "+name) {
				t.Errorf("the preview doesn't say that %s is left out: %s", name, out)
			}
		}
		if out, code := w.try("run", "--worker", "bx1", "--no-files", "--", "true"); code == 0 || !strings.Contains(out, "box1") {
			t.Errorf("a worker that isn't there: exit %d, %s", code, out)
		}
	})
}

// tinyGraph adds two tensors.
const tinyGraph = `{"nodes":[{"id":"s","type":"Start","data":{"params":{}}},
 {"id":"a","type":"TensorCreate","data":{"params":{"shape":"2,3","fill":"ones"}}},
 {"id":"p","type":"Print","data":{"params":{"label":"sum"}}}],
 "edges":[{"id":"t","source":"s","target":"a","type":"trigger"},{"id":"e","source":"a","target":"p","sourceHandle":"tensor","targetHandle":"value"}]}`

// cameBack holds the artifacts of the program against what it printed of them.
func (w *world) cameBack(t *testing.T, id, log string) {
	t.Helper()
	var reply api.Artifacts
	w.get("/api/runs/"+id+"/artifacts", &reply)
	if len(reply.Artifacts) != len(oddNames()) {
		t.Fatalf("%d artifacts, not %d: %+v", len(reply.Artifacts), len(oddNames()), reply.Artifacts)
	}
	for i := range oddNames() {
		a := reply.Artifacts[i]
		sum, err := sumOf(a.Path)
		if err != nil || !strings.Contains(log, fmt.Sprintf("file %d %s\n", i, sum)) {
			t.Errorf("artifact %q: %v, its bytes are not those of the worker", a.Path, err)
		}
		if !strings.HasPrefix(a.Path, w.dir) {
			t.Errorf("artifact %q is not with the control plane", a.Path)
		}
	}
}

// quiet takes the warnings about the line out of what a log tells.
func quiet(types []string) []string {
	return slices.DeleteFunc(types, func(s string) bool { return s == run.EventRunWarning })
}

// calm is what an undisturbed run of counting tells.
type calm struct {
	types, points []string
	log           string
}

// undisturbed runs counting on a machine.
func (w *world) undisturbed(b *box, script string) calm {
	w.t.Helper()
	r := w.succeeded(w.runIn(filepath.Dir(script), "--worker", b.name, script, "--", filepath.Join(b.dir, "starts-calm")))
	types, points := telling(w.events(r.ID))
	if len(points) != 60 {
		w.t.Fatalf("undisturbed: %d points", len(points))
	}
	return calm{quiet(types), points, string(w.rawLog(r.ID))}
}

// compare counts how a run differs from an undisturbed one.
func (w *world) compare(what, id, starts string, want calm, c *tally) {
	w.t.Helper()
	r := w.ended(id)
	events := w.events(r.ID)
	types, points := telling(events)
	types = quiet(types)
	log := string(w.rawLog(r.ID))
	if r.Status != run.Succeeded || !slices.Equal(types, want.types) || !slices.Equal(points, want.points) || log != want.log {
		w.t.Errorf("%s: run %s: %s %s %q, %d of %d events, %d of %d points, %d of %d console bytes\n%v", what, r.ID, r.Status, r.EndClass, r.Error,
			len(types), len(want.types), len(points), len(want.points), len(log), len(want.log), types)
		if len(points) > len(want.points) || len(types) > len(want.types) || len(log) > len(want.log) {
			c.doubled++
		} else {
			c.lost++
		}
	}
	for k, e := range events {
		if e.Cursor != int64(k+1) {
			w.t.Errorf("%s: cursor %d at place %d", what, e.Cursor, k+1)
		}
	}
	raw, err := os.ReadFile(starts)
	if n := strings.Count(string(raw), "\n"); err != nil || n != 1 {
		w.t.Errorf("%s: the script was started %d times", what, n)
		c.copies += max(0, n-1)
	}
	c.orphans += len(withEnv("CDUI_RUN_ID=" + r.ID))
}

// stuck counts the slots that nobody uses and that are taken.
func (w *world) stuck() int {
	w.t.Helper()
	n := 0
	for _, row := range w.workers() {
		for _, d := range row.Devices {
			n += d.Slots.Used
		}
	}
	return n
}

// P-03, W-05, DSC-01, DSC-09, DSC-10, ADP-01, ADP-04, ADP-06, R-07: the line is cut, the agent and the
// control plane are killed, singly and together: the same child, and everything once.
func TestP1_ATrainingOnAWorkerOutlivesLineAgentAndControlPlane(t *testing.T) {
	inWorld(t, 8*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		b.enroll()
		script := w.script("count.py", strings.ReplaceAll(counting, "time.sleep(0.02)", "time.sleep(0.2)"))
		want := w.undisturbed(b, script)
		var c tally
		hold := func(d time.Duration) { <-time.NewTimer(d).C }
		for what, strike := range map[string]func(){
			"line cut for 5 s": func() { b.cut(); hold(5 * time.Second); b.heal() },
			"agent killed":     func() { b.kill9(); hold(time.Second); b.start() },
			"control plane killed": func() {
				w.kill9()
				hold(time.Second)
				w.plane.start()
				b.online()
			},
			"both killed": func() {
				b.kill9()
				w.kill9()
				hold(time.Second)
				b.launch()
				w.plane.start()
				b.online()
			},
			"line cut while the control plane restarts": func() {
				b.cut()
				w.kill9()
				w.plane.start()
				hold(2 * time.Second)
				b.heal()
				b.online()
			},
		} {
			starts := filepath.Join(b.dir, "starts-"+strings.ReplaceAll(what, " ", "-"))
			id := w.runIn(filepath.Dir(script), "--worker", b.name, script, "--", starts)
			pid := w.running(id)
			follower := w.command("logs", "-f", id)
			var followed safeBuffer
			follower.Stdout = &followed
			if err := follower.Start(); err != nil {
				t.Fatal(err)
			}
			hold(time.Second)
			strike()
			c.struck++
			if !alive(pid) {
				// On a machine that is slow enough it has come to its end by now,
				// which is then held against that of the undisturbed one.
				t.Logf("%s: the child ended before all were back", what)
			}
			if r := w.show(id); r.Active && r.PID != nil && *r.PID != pid {
				t.Errorf("%s: pid %d became %d", what, pid, *r.PID)
			}
			w.compare(what, id, starts, want, &c)
			if err := follower.Wait(); err != nil || followed.String() != want.log {
				t.Errorf("%s: who follows sees %d of %d bytes, %v", what, len(followed.String()), len(want.log), err)
			}
		}
		if c.stuck = w.stuck(); c.stuck+c.orphans > 0 {
			t.Errorf("orphans or stuck slots: %s", c)
		}
		// What ends while the agent is down is told by the next one.
		id := w.run("--worker", b.name, "--no-files", "--", "sh", "-c", "echo start; sleep 3; echo end; exit 7")
		pid := w.running(id)
		b.kill9()
		eventually(t, time.Minute, "the child ends", func() bool { return !alive(pid) })
		b.start()
		if r := w.ended(id); r.Status != run.Failed || string(w.rawLog(id)) != "start\nend\n" || *w.facts(id).Exit.Code != 7 {
			t.Errorf("%s %q, console %q", r.Status, r.Error, w.rawLog(id))
		}
	})
}

// W-04, W-05, K-05: nothing is lost, doubled, started twice, left over or stuck.
func TestWorkersUnderRandomFaults(t *testing.T) {
	n := faults(t, 6)
	inWorld(t, time.Duration(n)*90*time.Second+3*time.Minute, func(t *testing.T, w *world) {
		w.start()
		boxes := []*box{w.box("box1"), w.box("box2")}
		for _, b := range boxes {
			b.enroll()
		}
		script := w.script("count.py", counting)
		want := w.undisturbed(boxes[0], script)
		random := rand.New(rand.NewSource(time.Now().UnixNano()))
		wait := func(most int) { <-time.NewTimer(time.Duration(random.Intn(most)) * time.Millisecond).C }
		var c tally
		for i := range n {
			b := boxes[i%2]
			starts := filepath.Join(b.dir, fmt.Sprint("starts-", i))
			id := w.runIn(filepath.Dir(script), "--worker", b.name, script, "--", starts)
			wait(1500)
			agent, control, line := random.Intn(2) == 0, random.Intn(2) == 0, random.Intn(2) == 0
			if line {
				b.cut()
			}
			if agent {
				b.kill9()
			}
			wait(500)
			if control {
				w.kill9()
				wait(500)
			}
			if agent {
				b.launch()
			}
			if control {
				w.plane.start()
			}
			wait(1000)
			if line {
				b.heal()
			}
			c.struck++
			for _, b := range boxes {
				b.online()
			}
			w.compare(fmt.Sprintf("fault %d (agent %t, control plane %t, line %t)", i, agent, control, line), id, starts, want, &c)
		}
		if c.stuck = w.stuck(); c.stuck+c.orphans > 0 {
			t.Error("orphans or stuck slots")
		}
		var check api.DBCheck
		w.get(api.PathDBCheck, &check)
		if !check.OK {
			t.Errorf("database: %v", check.Findings)
		}
		fmt.Println(c)
	})
}

// ENR-02, ENR-03, ENR-05, ENR-06, DRN-01, DRN-02, DRN-03, K-08, ERR-08: from the first token to the end of a worker.
func TestEnrollmentDrainAndRemoval(t *testing.T) {
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b, other := w.box("box1"), w.box("box2")
		secret := w.enrollment(b.name)
		b.start("--token", secret)
		refused := func(what, token, says string) {
			t.Helper()
			cmd := other.command("agent", "start", "--control", w.control(), "--name", other.name, "--token-stdin")
			cmd.Stdin = strings.NewReader(token)
			out, err := cmd.CombinedOutput()
			if exitCode(t, err) != 1 || !strings.Contains(string(out), says) {
				t.Errorf("%s: %v: %s", what, err, out)
			}
		}
		refused("a used token", secret, "used")
		late := w.enrollment(other.name, "--ttl", "1s")
		<-time.NewTimer(1500 * time.Millisecond).C
		refused("an expired token", late, "expired")
		refused("a made-up token", "abcdef.0123456789abcdef", "unknown")

		// The folder holds a token of its own from then on.
		b.kill9()
		b.start()

		id := w.run("--worker", b.name, "--no-files", "--", "sleep", "1000")
		pid := w.running(id)
		if out := w.cdui("workers", "drain", b.name); !strings.Contains(out, "1 run there goes on") {
			t.Errorf("drain says %q", out)
		}
		waits := w.run("--worker", b.name, "--no-files", "--", "true")
		eventually(t, 20*time.Second, "the next run waits for the drained worker", func() bool {
			r := w.show(waits)
			return r.Status == run.Queued && r.QueueReasonCode == "worker_draining"
		})
		// Drain outlives the agent and the control plane.
		b.kill9()
		w.kill9()
		w.plane.start()
		b.start()
		if row := b.row(); !row.Draining || !alive(pid) {
			t.Errorf("after restarts: draining %t, child alive %t", row.Draining, alive(pid))
		}
		if r := w.show(waits); r.Status != run.Queued {
			t.Errorf("the waiting run is %s", r.Status)
		}
		w.cdui("workers", "undrain", b.name)
		w.succeeded(waits)

		// A rekeyed worker keeps its runs until it is enrolled again.
		var again api.EnrollmentReply
		if err := json.Unmarshal([]byte(w.cdui("workers", "rekey", b.name, "--json")), &again); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "the run is out of sight", func() bool { return w.show(id).Status == run.Disconnected })
		b.kill9()
		b.start("--token", again.Token)
		eventually(t, 20*time.Second, "the run is back", func() bool { return w.show(id).Status == run.Running })
		if got := w.running(id); got != pid {
			t.Errorf("pid %d became %d", pid, got)
		}

		w.cdui("workers", "rm", b.name)
		r := w.ended(id)
		if r.Status != run.Interrupted || r.EndClass != run.EndWorkerLost || !strings.Contains(r.Error, "removed") {
			t.Errorf("the run of a removed worker: %s %s %q", r.Status, r.EndClass, r.Error)
		}
		if len(w.workers()) != 0 {
			t.Errorf("workers: %+v", w.workers())
		}
	})
}

// ENR-04, SEC-04, P-03, R-10: no token is in arguments, environments, logs, the database, or before a run's eyes.
func TestNoTokenIsLeftAbout(t *testing.T) {
	inWorld(t, 3*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b, c := w.box("box1"), w.box("box2")
		oneTime, second := w.enrollment(b.name), w.enrollment(c.name)
		b.start("--token", oneTime)
		c.env = []string{"CDUI_AGENT_TOKEN=" + second}
		c.start()
		if out, code := c.try("agent", "status", "--json"); code != 0 || !strings.Contains(out, `"connected":true`) {
			t.Errorf("agent status: exit %d, %s", code, out)
		}
		session, err := os.ReadFile(filepath.Join(w.dir, "token"))
		if err != nil {
			t.Fatal(err)
		}
		secrets := map[string]string{"session token": strings.TrimSpace(string(session)), "one-time token": oneTime, "second one-time token": second}
		for _, b := range w.boxes {
			raw, err := os.ReadFile(filepath.Join(b.home(), "agent", b.name, "token"))
			if err != nil {
				t.Fatal(err)
			}
			secrets["worker token of "+b.name] = strings.TrimSpace(string(raw))
			id := w.run("--worker", b.name, "--no-files", "--", "sh", "-c", "env; sleep 2")
			w.running(id)
			for what, secret := range secrets {
				if pids := append(withEnv(secret), withArgs(secret)...); len(pids) > 0 {
					t.Errorf("the %s is in arguments or environments of %v", what, pids)
				}
			}
			w.succeeded(id)
			for what, secret := range secrets {
				if bytes.Contains(w.rawLog(id), []byte(secret)) {
					t.Errorf("a run sees the %s", what)
				}
			}
		}
		for what, secret := range secrets {
			found := leaks(t, w.dir, secret, filepath.Join(w.dir, "token"))
			for _, b := range w.boxes {
				found = append(found, leaks(t, b.dir, secret, filepath.Join(b.home(), "agent", b.name, "token"))...)
				if strings.Contains(b.log.String(), secret) {
					found = append(found, "log of "+b.name)
				}
			}
			if strings.Contains(w.log.String(), secret) {
				found = append(found, "log of the control plane")
			}
			if len(found) > 0 {
				t.Errorf("the %s lies in %q", what, found)
			}
		}
	})
}

// ENR-01, TLS-01, TLS-02: the command that is shown works as it stands, and only with the right key.
func TestTheCommandOfWorkersAddWorksOverTLS(t *testing.T) {
	inWorld(t, 3*time.Minute, func(t *testing.T, w *world) {
		t.Cleanup(func() {
			_, _ = w.try("stop", "--cancel-runs")
			_, _ = killMatching(w.dir)
		})
		if out := w.cdui("start", "--tls-self-signed"); !strings.Contains(out, "https://") || !strings.Contains(out, "sha256:") {
			t.Errorf("start says %q", out)
		}
		b, other := w.box("box1"), w.box("box2")
		add := func(b *box) []string {
			t.Helper()
			var reply api.EnrollmentReply
			if err := json.Unmarshal([]byte(w.cdui("workers", "add", b.name, "--json")), &reply); err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(reply.Command)
			if len(words) < 4 || words[0] != "cdui" || !strings.Contains(reply.Command, "--control https://") {
				t.Fatalf("the command is %q", reply.Command)
			}
			return words[1:]
		}
		b.spawn(add(b)...)
		b.online()
		cmd := w.command("run", "--worker", b.name, "--", "cat", "job.txt")
		cmd.Dir = filepath.Dir(w.script("job.txt", "from afar\n"))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if out, err := cmd.Output(); err != nil || string(out) != "from afar\n" {
			t.Errorf("run: %v, %q, %s", err, out, stderr.String())
		}

		// Whoever shows another key gets nothing.
		words := add(other)
		pin := words[slices.Index(words, "--pin")+1]
		words[slices.Index(words, "--pin")+1] = pin[:len(pin)-4] + "0000"
		out, code := other.try(words...)
		if code != 1 || !strings.Contains(out, "another key") {
			t.Errorf("a wrong pin: exit %d, %s", code, out)
		}
		without := slices.Delete(slices.Clone(words), slices.Index(words, "--pin"), slices.Index(words, "--pin")+2)
		cmd = other.command(append(without, "-d")...)
		if raw, err := cmd.CombinedOutput(); exitCode(t, err) != 1 || !strings.Contains(string(raw), "certificate") {
			t.Errorf("no pin: %v, %s", err, raw)
		}
		if row := other.row(); row.Name != "" {
			t.Errorf("the control plane knows %+v", row)
		}

		// In the background, found again without token and address.
		b.kill9()
		if out, code := b.try("agent", "start", "-d", "--name", b.name); code != 0 || !strings.Contains(out, "the agent box1 is up") {
			t.Errorf("in the background: exit %d, %s", code, out)
		}
		eventually(t, time.Minute, "box1 is back", func() bool { return b.row().State == api.WorkerOnline })
		if out, code := b.try("agent", "stop"); code != 0 || out != "stopped box1\n" {
			t.Errorf("agent stop: exit %d, %q", code, out)
		}
		eventually(t, 20*time.Second, "box1 is away", func() bool { return b.row().State != api.WorkerOnline })
	})
}
