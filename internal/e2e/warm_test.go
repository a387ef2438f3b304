package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cdui/internal/agent"
	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/shim/wire"
	"cdui/internal/warm/stock"
)

// looking is a script that tells all that it sees of where it runs, but for
// what differs from run to run.
const looking = `import os, sys, threading
print(__name__, __file__, sys.argv, sys.path[0], sys.path[2:], os.getcwd(), sys.flags, sys.orig_argv[3:])
print({k: v for k, v in os.environ.items() if not k.startswith("CDUI_") and k not in ("PYTHONPATH", "HOME", "MASTER_PORT", "PET_MASTER_PORT")})
print(sorted(k for k in os.environ))
print(os.environ["CDUI_DEVICE"], os.environ["CDUI_RUN_ID"] in os.environ["CDUI_REPORT"], os.environ["LR"])
print([t.name for t in threading.enumerate()], threading.current_thread() is threading.main_thread())
print(os.getsid(0) == os.getpid(), sorted(int(f) for f in os.listdir("/proc/self/fd"))[:5], os.read(0, 1), os.umask(0o22))
print("to the other stream", file=sys.stderr)
import torch
print(torch.__version__, torch.get_num_threads(), torch.cuda.is_initialized(), torch.manual_seed(1).initial_seed(), torch.rand(2))
import cdui
print(cdui.params(), cdui.device(), cdui.should_stop())
cdui.log({"loss": 0.5}, step=1)
import atexit
atexit.register(print, "the end")
threading.Thread(target=lambda: print("joined")).start()
sys.exit(7)
`

// spares lists the spares of the control plane's own machine.
func (p *plane) spares() []api.Spare {
	p.t.Helper()
	var st api.ServerStatus
	p.get(api.PathStatus, &st)
	return st.Spares
}

// spareReady waits until a spare stands by that is none of before.
func (p *plane) spareReady(before ...api.Spare) []api.Spare {
	p.t.Helper()
	var all []api.Spare
	eventually(p.t, time.Minute, "a spare is ready", func() bool {
		all = p.spares()
		if len(all) != 1 || !all[0].Ready {
			return false
		}
		return len(before) == 0 || all[0].Since.After(before[0].Since)
	})
	return all
}

// warm tells whether a run was served by a spare.
func (p *plane) warm(id string) bool {
	p.t.Helper()
	var f struct {
		Warm bool `json:"warm"`
	}
	var r api.Run
	if err := json.Unmarshal([]byte(p.cdui("runs", "show", "--json", id)), &r); err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(r.Facts, &f); err != nil {
		p.t.Fatal(err)
	}
	return f.Warm
}

// noSpareLeft checks that no process of a spare of this data folder is there.
func noSpareLeft(t *testing.T, dir string) {
	t.Helper()
	eventually(t, 20*time.Second, "no process of a spare is left", func() bool { return len(sparesOf(dir)) == 0 })
}

// sparesOf lists the processes of spares below a data folder that serve no run.
func sparesOf(dir string) []int {
	serving := map[string]bool{}
	var notes []string
	for _, below := range []string{"", "home/agent/*"} {
		some, _ := filepath.Glob(filepath.Join(dir, below, "agent-runs", "*", wire.NoteFile))
		notes = append(notes, some...)
	}
	for _, path := range notes {
		if note, ok, err := wire.ReadNote(filepath.Dir(path)); ok && err == nil {
			serving[note.Spare] = true
		}
	}
	var out []int
	for _, pid := range withArgs(dir) {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		name := spareName.FindString(string(env) + string(args))
		if name != "" && !serving[name] {
			out = append(out, pid)
		}
	}
	return out
}

var spareName = regexp.MustCompile(`spare-[0-9a-f]{8}-[0-9a-f]{16}`)

// A script that imports torch begins in a spare, sees and does what it would
// have from a start of its own, byte for byte, and gives way to a fresh spare;
// what a spare can't serve starts cold; no spare serves two, and none is left.
// Proves K-04, R-05, P-05.
func TestWarmSparesOfTheControlPlane(t *testing.T) {
	needTorch(t)
	t.Parallel()
	cold, p := newPlane(t, "CDUI_WARM=-1"), newPlane(t, "CDUI_WARM=1")
	script := p.file("look.py", looking)
	args := []string{"--env", "LR=3", "--env", "ODD=a=b c", script, "--", "a", "b c"}
	p.spareReady()

	want, got := cold.ended(cold.runAtRoot(args...)), p.ended(p.runAtRoot(args...))
	if cold.warm(want.ID) || !p.warm(got.ID) {
		t.Fatalf("warm: %t and %t", cold.warm(want.ID), p.warm(got.ID))
	}
	if w, g := string(cold.rawLog(want.ID)), string(p.rawLog(got.ID)); w != g || !strings.HasSuffix(g, "joined\nthe end\n") {
		t.Errorf("it printed\n%s\nand from a start of its own\n%s", g, w)
	}
	if want.Error != "exit code 7" || got.Error != want.Error || got.EndClass != want.EndClass {
		t.Errorf("%q %q, want %q %q", got.Error, got.EndClass, want.Error, want.EndClass)
	}
	if w, g := kinds(cold.events(want.ID)), kinds(p.events(got.ID)); w != g {
		t.Errorf("events %s, want %s", g, w)
	}
	if fin := got.FinalMetrics["loss"]; fin == nil {
		t.Errorf("its metrics are lost: %v", got.FinalMetrics)
	}

	fresh := p.spareReady()
	for _, other := range [][]string{{"--env", "PYTHONHASHSEED=1"}, {"--env", "OMP_NUM_THREADS=2"}, {"--env", "LR=3", "--env", "PYTHONPATH=/opt"}} {
		r := p.ended(p.runAtRoot(append(other, p.file("other.py", "print('ran')"))...))
		if r.Status != run.Succeeded || p.warm(r.ID) {
			t.Errorf("with %v: %s, warm %t", other, r.Status, p.warm(r.ID))
		}
	}
	if p.warm(p.ended(p.run("--", "true")).ID) {
		t.Error("a command is warm")
	}

	// The folder has a module of its own that the spare has from elsewhere.
	dir := shortTemp(t)
	for name, text := range map[string]string{"random.py": "mine = True\n", "main.py": "import random\nprint(random.mine)\n"} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := p.ended(p.runAtRoot(dir + "/main.py")); r.Status != run.Succeeded || p.warm(r.ID) {
		t.Errorf("a shadowed module: %s %s, warm %t", r.Status, r.Error, p.warm(r.ID))
	}

	// Of two at once one spare serves one.
	if now := p.spareReady(); !now[0].Since.Equal(fresh[0].Since) {
		t.Logf("the spare was exchanged meanwhile: %v, %v", fresh, now)
	}
	hold := p.file("hold.py", "import time\nprint('up', flush=True)\ntime.sleep(600)\n")
	a, b := p.runAtRoot(hold), p.runAtRoot(hold)
	p.running(a)
	p.running(b)
	eventually(t, time.Minute, "both print", func() bool { return string(p.rawLog(a)) == "up\n" && string(p.rawLog(b)) == "up\n" })
	if p.warm(a) == p.warm(b) {
		t.Errorf("warm: %t and %t", p.warm(a), p.warm(b))
	}

	// The control plane is killed: runs go on, spares don't.
	p.kill9()
	noSpareLeft(t, p.dir)
	p.start()
	for _, id := range []string{a, b} {
		p.cdui("cancel", "-d", "--force", id)
		if r := p.ended(id); r.Status != run.Cancelled {
			t.Errorf("%s: %s %s", id, r.Status, r.Error)
		}
	}
	p.spareReady()
	p.cdui("stop")
	noSpareLeft(t, p.dir)
	if left := withEnv(got.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// runAtRoot submits in the background from the root folder, which all planes
// have in common, and gives the run's id.
func (p *plane) runAtRoot(args ...string) string {
	p.t.Helper()
	cmd := p.command(append([]string{"run", "--detach", "--json"}, args...)...)
	cmd.Dir = "/"
	out, err := cmd.Output()
	var reply api.SubmitReply
	if err != nil || json.Unmarshal(out, &reply) != nil || reply.RunID == "" {
		p.t.Fatalf("run %v: %v %s", args, err, out)
	}
	return reply.RunID
}

func kinds(events []api.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.Type)
	}
	return strings.Join(out, " ")
}

// Nobody asked for spares: a run that imported torch leaves one behind that
// serves the next, graphs as scripts; a run that did not leaves none.
// Proves K-04.
func TestWarmSparesAfterUse(t *testing.T) {
	needTorch(t)
	t.Parallel()
	p := newPlane(t)
	plain, uses := p.file("plain.py", "print('hi')"), p.file("uses.py", "import torch\nprint(torch.ones(2).sum())")
	graph := p.file("g.json", `{"nodes":[{"id":"s","type":"Start"},{"id":"t","type":"TensorCreate","data":{"params":{"shape":"2"}}},{"id":"p","type":"Print","data":{"params":{"label":"got"}}}],
		"edges":[{"id":"x","source":"s","target":"t","sourceHandle":"trigger","targetHandle":"trigger","type":"trigger"},{"id":"e","source":"t","sourceHandle":"tensor","target":"p","targetHandle":"value"}]}`)
	p.ended(p.runAtRoot(plain))
	if len(p.spares()) > 0 {
		t.Error("a run without torch left a spare")
	}
	for _, program := range []string{uses, graph} {
		first := p.ended(p.runAtRoot(program))
		if p.warm(first.ID) || first.Status != run.Succeeded {
			t.Fatalf("%s: %s %s, warm %t", program, first.Status, first.Error, p.warm(first.ID))
		}
		want := "script"
		if program == graph {
			want = "graph"
		}
		eventually(t, time.Minute, "a spare for a "+want, func() bool {
			all := p.spares()
			return len(all) == 1 && all[0].Ready && all[0].Kind == want
		})
		second := p.ended(p.runAtRoot(program))
		if !p.warm(second.ID) || second.Status != run.Succeeded {
			t.Errorf("%s again: %s %s, warm %t", program, second.Status, second.Error, p.warm(second.ID))
		}
		if w, g := p.rawLog(first.ID), p.rawLog(second.ID); string(w) != string(g) {
			t.Errorf("%q, from a start of its own %q", g, w)
		}
	}
}

// spares lists the spares of the machine's agent.
func (b *box) spares() []stock.Status {
	b.w.t.Helper()
	out, code := b.try("agent", "status", "--json", b.name)
	if code != 0 {
		return nil // it is not up
	}
	var s struct {
		Agents []agent.Status `json:"agents"`
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil || len(s.Agents) != 1 {
		b.w.t.Fatalf("%v: %s", err, out)
	}
	return s.Agents[0].Spares
}

// spareReady waits for a spare for the machine's first card.
func (b *box) spareReady() {
	b.w.t.Helper()
	eventually(b.w.t, time.Minute, "a spare for cuda:0", func() bool {
		all := b.spares()
		return len(all) == 1 && all[0].Ready && all[0].Device == "cuda:0"
	})
}

// An agent with --warm 1 keeps a spare for its first card, whose run sees this
// card alone and gets its secrets; a drain ends it, an undrain brings it back,
// and a killed agent leaves none.
// Proves K-04, ISO-01, ISO-05, P-03.
func TestWarmSparesOfAnAgent(t *testing.T) {
	needTorch(t)
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b := w.box("box1")
		b.start("--token", w.enrollment(b.name), "--warm", "1")
		b.spareReady()
		script := w.script("look.py", `import os, sys, torch
print(os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CUDA_DEVICE_ORDER"], os.environ["CDUI_DEVICE"], os.environ["MARK_BOX"], os.environ["LR"], torch.cuda.is_initialized())
print(sys.argv[1:], os.path.basename(sys.path[0]), os.path.basename(os.getcwd()), sorted(os.listdir(".")))
sys.stdout.flush()
os._exit(0) if len(sys.argv) > 1 else None
import time
time.sleep(600)
`)
		args := []string{"--worker", b.name, "--env", "LR=3"}
		there := func(device string, rest ...string) string {
			return w.run(append(append(append([]string{}, args...), "--devices", device, script), rest...)...)
		}
		warm, cold := w.succeeded(there("cuda:0", "--", "x")), w.succeeded(there("cuda:1", "--", "x"))
		if !w.warm(warm.ID) || w.warm(cold.ID) {
			t.Errorf("warm: %t and %t", w.warm(warm.ID), w.warm(cold.ID))
		}
		got, want := string(w.rawLog(warm.ID)), string(w.rawLog(cold.ID))
		if !strings.HasPrefix(got, "0 PCI_BUS_ID cuda:0 box1 3 False\n") || strings.TrimPrefix(got, "0") != strings.TrimPrefix(want, "1") {
			t.Errorf("it printed %q, and on another card from a start of its own %q", got, want)
		}
		b.spareReady()

		w.cdui("workers", "drain", b.name)
		eventually(t, time.Minute, "the drain ends the spare", func() bool { return len(b.spares()) == 0 && len(sparesOf(b.dir)) == 0 })
		w.cdui("workers", "undrain", b.name)
		b.spareReady()

		hold := there("cuda:0")
		w.running(hold)
		if !w.warm(hold) {
			t.Error("the run after the drain is not warm")
		}
		b.kill9()
		b.start("--warm", "1")
		eventually(t, time.Minute, "the run goes on", func() bool { return w.show(hold).Status == run.Running })
		if left := b.spares(); len(left) > 0 {
			t.Errorf("a spare was started beside a run: %+v", left)
		}
		w.cdui("cancel", "-d", "--force", hold)
		if r := w.ended(hold); r.Status != run.Cancelled {
			t.Errorf("%s %s", r.Status, r.Error)
		}
		b.spareReady()
		b.kill9()
		noSpareLeft(t, b.dir)
	})
}
