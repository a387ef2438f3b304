package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// listening counts the TCP ports that somebody listens on in the machine.
func (b *box) listening() int {
	b.w.t.Helper()
	n := 0
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for line := range strings.Lines(sh(b.w.t, "ip", "netns", "exec", b.name, "cat", table)) {
			if f := strings.Fields(line); len(f) > 3 && f[3] == "0A" {
				n++
			}
		}
	}
	return n
}

// agentPID is the agent's own process, which ip has become.
func (b *box) agentPID() int { return b.cmd.Process.Pid }

// ROLE-01, ROLE-03, ROLE-12, ROLE-13, SEC-12, SEC-13, INV-04: the control plane is one process and keeps what lasts.
// An agent dials out, listens nowhere, reads its cards without torch, writes no
// database, and can be thrown away without a loss. Without TLS it is warned of.
func TestAnAgentHoldsNothingThatLasts(t *testing.T) {
	needTorch(t)
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b, _ := w.cardBox("box1", 2)
		b.enroll()
		if n := b.listening(); n != 0 {
			t.Errorf("%d ports are listened on beside the agent", n)
		}
		if _, cards := b.listed(); len(cards) != 2 || cards[0].blank() {
			t.Errorf("cards %+v", cards)
		}
		script := w.script("train.py", `import cdui, torch
print("torch", torch.ones(2).sum().item())
cdui.log({"loss": 0.5}, step=1)
open("m.pt", "w").write("weights")
cdui.artifact("m.pt", kind="checkpoint")
`)
		id := w.runIn(filepath.Dir(script), "--worker", b.name, script)
		w.succeeded(id)
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", b.agentPID()))
		if err != nil {
			t.Fatal(err)
		}
		for _, library := range []string{"libtorch", "libpython", "libcuda", "libnvidia-ml"} {
			if strings.Contains(string(maps), library) {
				t.Errorf("the agent has loaded %s", library)
			}
		}
		err = filepath.Walk(b.home(), func(path string, info os.FileInfo, err error) error {
			if err != nil || !info.Mode().IsRegular() {
				return nil //nolint:nilerr // files come and go
			}
			f, err := os.Open(path)
			if err != nil {
				return nil //nolint:nilerr // gone meanwhile
			}
			defer f.Close()
			head := make([]byte, 15)
			if _, err := f.Read(head); err == nil && string(head) == "SQLite format 3" {
				t.Errorf("the agent keeps a database: %s", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(w.log.String(), "an enrollment came over plain HTTP") || !strings.Contains(w.log.String(), "a worker's token came over plain HTTP") {
			t.Error("nobody was warned of tokens over plain HTTP")
		}

		// The machine burns down.
		b.kill9()
		if err := os.RemoveAll(b.home()); err != nil {
			t.Fatal(err)
		}
		w.kill9()
		w.plane.start()
		var metrics api.Metrics
		w.get("/api/runs/"+id+"/metrics", &metrics)
		var artifacts api.Artifacts
		w.get("/api/runs/"+id+"/artifacts", &artifacts)
		types, points := telling(w.events(id))
		if len(artifacts.Artifacts) != 1 || len(points) != 1 || len(types) == 0 || !strings.Contains(string(w.rawLog(id)), "torch 2.0") {
			t.Fatalf("%d artifacts, %d points, events %v, console %q", len(artifacts.Artifacts), len(points), types, w.rawLog(id))
		}
		if raw, err := os.ReadFile(artifacts.Artifacts[0].Path); err != nil || string(raw) != "weights" {
			t.Errorf("artifact %q, %v", raw, err)
		}
		// One process answers for all of it, and its database is that one's.
		if pids := withEnv("CDUI_HOME=" + w.dir); !slices.Equal(pids, []int{w.cmd.Process.Pid}) {
			t.Errorf("the control plane is the processes %v", pids)
		}
		for _, path := range []string{"/api/workers", "/api/runs", "/api/nodes", "/api/openapi.json"} {
			var any json.RawMessage
			w.get(path, &any)
		}
	})
}

// ISO-01, ISO-02, ROLE-14, ROLE-15: each run has an interpreter of its own, which finds its surroundings set
// before anything is imported. One that crashes, is killed for its memory or
// by a cancel takes nobody along.
func TestAFreshChildForEachRun(t *testing.T) {
	needTorch(t)
	inWorld(t, 4*time.Minute, func(t *testing.T, w *world) {
		w.start()
		b, _ := w.cardBox("box1", 3)
		b.enroll()
		since, agent := *b.row().ConnectedAt, b.agentPID()
		steady, steadyPID, open := b.gated("cuda:2")
		script := w.script("look.py", `import os, sys, builtins
print(hasattr(builtins, "left_behind"), "torch" in sys.modules, os.environ["CUDA_VISIBLE_DEVICES"])
builtins.left_behind = True
import torch
print(torch.cuda.is_initialized())
`)
		var pids []int
		for range 2 {
			id := w.runIn(filepath.Dir(script), "--worker", b.name, "--devices", "cuda:1", script)
			w.succeeded(id)
			pids = append(pids, w.facts(id).PID)
			if log := string(w.rawLog(id)); log != "False False 1\nFalse\n" {
				t.Errorf("a child finds %q", log)
			}
		}
		if pids[0] == pids[1] || pids[0] == 0 {
			t.Errorf("two runs in the processes %v", pids)
		}
		crash := func(what, class string, argv ...string) {
			t.Helper()
			id := w.run(append([]string{"--worker", b.name, "--devices", "cuda:0", "--no-files", "--"}, argv...)...)
			r := w.ended(id)
			if r.Status != run.Failed || string(r.EndClass) != class {
				t.Errorf("%s: %s %s %q", what, r.Status, r.EndClass, r.Error)
			}
		}
		crash("a segmentation fault", "killed", "sh", "-c", "kill -SEGV $$")
		crash("a kill", "killed", "sh", "-c", "kill -9 $$")
		crash("an abort", "killed", "sh", "-c", "kill -ABRT $$")
		stubborn := w.run("--worker", b.name, "--devices", "cuda:0", "--no-files", "--", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
		w.running(stubborn)
		w.cdui("cancel", "-d", "--force", stubborn)
		if r := w.ended(stubborn); r.Status != run.Cancelled {
			t.Errorf("by force: %s %q", r.Status, r.Error)
		}
		if row := b.row(); !row.ConnectedAt.Equal(since) || !alive(agent) || row.State != api.WorkerOnline {
			t.Errorf("the agent: %+v", row)
		}
		if got := w.running(steady); got != steadyPID || !alive(steadyPID) {
			t.Errorf("the run beside them: pid %d, was %d", got, steadyPID)
		}
		open()
		w.succeeded(steady)
		if out, err := exec.Command("kill", "-0", strconv.Itoa(steadyPID)).CombinedOutput(); err == nil {
			t.Errorf("its child is still there: %s", out)
		}
	})
}
