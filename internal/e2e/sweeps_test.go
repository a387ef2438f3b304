package e2e_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/study"
	"cdui/internal/sweep"
)

// sweepOf queues a sweep in the background, from the repository's root, where
// the example finds its data.
func (p *plane) sweepOf(file string, args ...string) api.SweepReply {
	p.t.Helper()
	cmd := p.command(append([]string{"sweep", "run", "--detach", "--json", file}, args...)...)
	cmd.Dir = repo(p.t)
	out, err := cmd.Output()
	var reply api.SweepReply
	if err != nil || json.Unmarshal(out, &reply) != nil || reply.SweepID == "" {
		p.t.Fatalf("sweep run %s: %v: %s", file, err, out)
	}
	return reply
}

func (p *plane) swept(id string) api.Sweep {
	p.t.Helper()
	var w api.Sweep
	p.get("/api/sweeps/"+id, &w)
	return w
}

func (p *plane) study(id string) api.Study {
	p.t.Helper()
	var y api.Study
	p.get("/api/studies/"+id, &y)
	return y
}

// gridFile writes a sweep of three by three commands; each logs a loss that is
// known from its arguments, after a time.
func (p *plane) gridFile(seconds string) string {
	p.t.Helper()
	script := p.file("loss.py", `import cdui, sys, time
a, b = (float(x.split("=")[1]) for x in sys.argv[1:])
time.sleep(`+seconds+`)
cdui.log({"loss": a * 10 + b}, step=1)
`)
	return p.file("grid.yaml", `script: `+filepath.Base(script)+`
name: grid
params:
  - {arg: a, values: [3, 1, 2]}
  - {arg: b, values: [1, 2, 3]}
objective: {metric: loss, direction: minimize}
`)
}

// sweepEnded waits for the end of a sweep.
func (p *plane) sweepEnded(id string) api.Sweep {
	p.t.Helper()
	var w api.Sweep
	eventually(p.t, 3*time.Minute, "sweep "+id+" ends", func() bool {
		w = p.swept(id)
		return w.State == sweep.Finished
	})
	return w
}

// Proves SW-01, F.1: variants of the digits graph train, rank and are exported; the
// same key again is the same sweep. Two by two of them, at length three by three.
func TestASweepOfTheDigits(t *testing.T) {
	needTorch(t)
	p := newPlane(t, "CDUI_RUN_QUEUE_MAX_CONCURRENT_CPU=2")
	side, sizes := 2, "[64, 256]"
	if os.Getenv("CDUI_FAULTS") != "" {
		side, sizes = 3, "[64, 128, 256]"
	}
	all := side * side
	file := p.file("sweep.yaml", `graph: `+filepath.Join(repo(t), "examples", "digits", "graph.json")+`
name: digits
set: [trainer.epochs=1]
seed: 7
seed_variants: true
params:
  - {node: optimizer, param: lr, range: {min: 0.0001, max: 0.01, count: `+strconv.Itoa(side)+`, scale: log}}
  - {node: loader, param: batch_size, values: `+sizes+`}
objective: {metric: train_loss, direction: minimize}
`)
	first := p.sweepOf(file, "--key", "nightly")
	if second := p.sweepOf(file, "--key", "nightly"); !second.Existing || second.SweepID != first.SweepID || len(second.Variants) != all {
		t.Errorf("under the same key: %+v", second)
	}
	if out, code := p.try("sweep", "wait", first.SweepID[:8]); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	w := p.swept(first.SweepID)
	if w.State != sweep.Finished || w.Counts[run.Succeeded] != all || w.Best == nil || w.Best.RunID != w.Variants[0].RunID || w.TotalCombinations != all {
		t.Fatalf("%+v", w.SweepSummary)
	}
	for i, v := range w.Variants {
		loss, _ := (&run.Last{Value: v.Objective}).Float()
		if *v.Rank != i+1 || string(v.FinalMetrics["train_loss"]) != string(v.Objective) || *v.Seed != 7+int64(v.Index) || loss <= 0 {
			t.Errorf("%+v", v)
		}
		if i > 0 {
			if before, _ := (&run.Last{Value: w.Variants[i-1].Objective}).Float(); before > loss {
				t.Errorf("rank %d has %v, the one before %v", i+1, loss, before)
			}
		}
		if row := p.show(v.RunID); row.SweepID != w.SweepID || *row.SweepVariant != v.Index || row.Name != fmt.Sprintf("digits #%d", v.Index+1) {
			t.Errorf("%+v", row.Row)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(p.cdui("sweep", "show", first.SweepID, "--csv"), "\ufeff"))).ReadAll()
	if err != nil || len(rows) != all+1 || !slices.Equal(rows[0], []string{"rank", "variant_index", "domain_index", "run_id", "status", "objective", "optimizer.lr", "loader.batch_size"}) || rows[1][3] != w.Best.RunID {
		t.Errorf("%v, %v", rows, err)
	}
	if table := p.cdui("sweep", "show", first.SweepID); !strings.Contains(table, "RANK") || strings.Count(table, "\n") != all+2 {
		t.Errorf("%s", table)
	}
	var list api.RunList
	p.get("/api/runs?limit=500", &list)
	if list.Total != all {
		t.Errorf("%d runs", list.Total)
	}
}

// Proves F.1, SW-01: a sweep of a script is cancelled half way; then what is
// wanting runs again and nothing else. The control plane dies in between.
func TestASweepCancelledHalfWay(t *testing.T) {
	p := newPlane(t, "CDUI_RUN_QUEUE_MAX_CONCURRENT_CPU=2")
	reply := p.sweepOf(p.gridFile("0.4"))
	eventually(t, time.Minute, "three variants have ended", func() bool { return p.swept(reply.SweepID).Counts[run.Succeeded] >= 3 })
	p.kill9()
	p.start()
	var c api.SweepCancelReply
	if err := json.Unmarshal([]byte(p.cdui("sweep", "cancel", "--json", reply.SweepID)), &c); err != nil || c.Cancelled == 0 || c.AlreadyFinished < 3 || c.Cancelled+c.AlreadyFinished != 9 {
		t.Fatalf("%+v, %v", c, err)
	}
	half := p.sweepEnded(reply.SweepID)
	if half.Counts[run.Cancelled] == 0 || half.Counts[run.Succeeded] < 3 || half.Best == nil {
		t.Fatalf("%+v", half.SweepSummary)
	}
	kept := map[int]string{}
	for _, v := range half.Variants {
		if v.Status == run.Succeeded {
			kept[v.Index] = v.RunID
		}
	}
	if out, code := p.try("sweep", "rerun", "--failed", reply.SweepID); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	if out, code := p.try("sweep", "wait", reply.SweepID); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	w := p.swept(reply.SweepID)
	var order []string
	for _, v := range w.Variants {
		order = append(order, string(v.Objective))
		if id, ok := kept[v.Index]; ok && id != v.RunID {
			t.Errorf("variant %d was run again", v.Index)
		}
	}
	if want := []string{"11.0", "12.0", "13.0", "21.0", "22.0", "23.0", "31.0", "32.0", "33.0"}; !slices.Equal(order, want) || w.Best.Index != 3 {
		t.Errorf("%v, best %+v", order, w.Best)
	}
	var all api.RunList
	p.get("/api/runs?limit=500", &all)
	if want := 9 + 9 - len(kept); all.Total != want {
		t.Errorf("%d runs, want %d", all.Total, want)
	}
}

// Proves SW-02, SWP-09, F.2: a study of five repetitions, whose control plane
// dies and comes back in the middle: none runs twice, and the mean is theirs.
func TestAStudyThroughADeadControlPlane(t *testing.T) {
	p := newPlane(t, "CDUI_RUN_QUEUE_MAX_CONCURRENT_CPU=2")
	ledger := filepath.Join(filepath.Dir(p.dir), "begun")
	script := p.file("rep.py", `import cdui, os, time
with open(os.environ["LEDGER"], "a") as f: f.write(str(os.getpid()) + "\n")
time.sleep(1)
cdui.log({"loss": float(os.environ["CDUI_SEED"]), "one": 1.0}, step=1)
`)
	var reply api.StudyReply
	out := p.cdui("study", "run", script, "-n", "5", "--seed", "3", "--detach", "--json", "--name", "rep", "-e", "LEDGER="+ledger, "--key", "once")
	if err := json.Unmarshal([]byte(out), &reply); err != nil || len(reply.List) != 5 {
		t.Fatalf("%v: %s", err, out)
	}
	for range 3 {
		done := p.study(reply.StudyID).Counts[study.Scored]
		p.kill9()
		p.start()
		eventually(t, time.Minute, "another repetition is scored", func() bool {
			n := p.study(reply.StudyID).Counts[study.Scored]
			return n > done || n == 5
		})
	}
	if out, code := p.try("study", "wait", reply.StudyID); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	y := p.study(reply.StudyID)
	if y.State != api.StudyFinished || y.Counts[study.Scored] != 5 || y.FinishedAt == nil {
		t.Fatalf("%+v", y)
	}
	for i, rep := range y.List {
		row := p.show(rep.Attempts[0].RunID)
		if len(rep.Attempts) != 1 || rep.Seed != 3+int64(i) || *row.Options.Seed != rep.Seed || row.Name != fmt.Sprintf("rep #%d", i+1) {
			t.Errorf("%+v", rep)
		}
	}
	raw, err := os.ReadFile(ledger)
	if n := strings.Count(string(raw), "\n"); err != nil || n != 5 {
		t.Errorf("%d programs were started: %v", n, err)
	}
	for _, m := range y.Metrics {
		if m.N != 5 || m.SD == nil || m.Name == "one" && (*m.Mean != 1 || *m.SD != 0) || m.Name == "loss" && *m.Mean != 5 {
			t.Errorf("%+v", m)
		}
	}
	if text := p.cdui("study", "show", reply.StudyID[:8]); !strings.Contains(text, "MEAN") || !strings.Contains(text, "5 scored") {
		t.Errorf("%s", text)
	}
	var all api.RunList
	p.get("/api/runs?limit=500", &all)
	if all.Total != 5 {
		t.Errorf("%d runs", all.Total)
	}
}

// Proves SWP-08, F.2: budgets stop the runs, and a resume with more of it
// finishes what was stopped.
func TestAStudysBudgets(t *testing.T) {
	p := newPlane(t, "CDUI_RUN_QUEUE_MAX_CONCURRENT_CPU=2", "CDUI_CANCEL_GRACE_S=1")
	marker := filepath.Join(filepath.Dir(p.dir), "fast")
	out, code := p.try("study", "run", "-n", "2", "--max-active", "1", "--", "sh", "-c", "test -e "+marker+" || exec sleep 600")
	if code != 1 || !strings.Contains(out, "max_active_seconds") {
		t.Fatalf("exit %d: %s", code, out)
	}
	id := strings.TrimSpace(p.cdui("study", "ls", "-q"))
	if y := p.study(id); y.Counts[study.Cancelled] != 2 || y.Stopped != study.ByActiveTime || y.ActiveSeconds < 1 {
		t.Errorf("%+v", y)
	}
	if out, code := p.try("study", "resume", id); code != 1 || !strings.Contains(out, "used up") {
		t.Errorf("exit %d: %s", code, out)
	}
	if err := os.WriteFile(marker, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p.cdui("study", "resume", id, "--max-active", "10m")
	if out, code := p.try("study", "wait", id); code != 0 {
		t.Errorf("exit %d: %s", code, out)
	}
	if y := p.study(id); y.Counts[study.Scored] != 2 || len(y.List[0].Attempts) != 2 || !y.List[0].Attempts[0].Void {
		t.Errorf("%+v", y)
	}
}

// Proves SWP-01, SWP-03, SWP-04, SWP-06: variants with seeds spread over two
// workers, one of which is away when they are queued and comes back; each tells
// where it ran. A repetition that its worker loses is repeated.
func TestSweepsAndStudiesOnWorkers(t *testing.T) {
	inWorld(t, 5*time.Minute, func(t *testing.T, w *world) {
		w.start()
		one, two := w.box("box1"), w.box("box2")
		one.enroll()
		two.enroll()
		folder := filepath.Join(shortTemp(t), "proj")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"job.py": "import cdui, os, sys, time\ntime.sleep(1)\ncdui.log({'loss': float(sys.argv[2])}, step=1)\nprint(os.environ['MARK_BOX'])\n",
			"grid.yaml": "script: job.py\nseed: 5\nseed_variants: true\nparams:\n- {arg: --lr, values: [4, 3, 2, 1]}\nobjective: {metric: loss, direction: minimize}\n" +
				"options: {target: {worker: any}, device: cuda}\n",
		} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		queue := func(args ...string) api.SweepReply {
			t.Helper()
			cmd := w.command(append([]string{"sweep", "run", "-d", "--json", "grid.yaml"}, args...)...)
			cmd.Dir = folder
			out, err := cmd.Output()
			var reply api.SweepReply
			if err != nil || json.Unmarshal(out, &reply) != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return reply
		}
		any := queue()
		got := w.sweepEnded(any.SweepID)
		boxes := map[string]int{}
		for _, v := range got.Variants {
			boxes[v.WorkerID]++
			if v.Status != run.Succeeded || v.QueueKey != "any/cuda" || len(v.Devices) != 1 || !strings.HasPrefix(v.Devices[0], "cuda:") || v.Seed == nil {
				t.Errorf("%+v\n%s", v, w.rawLog(v.RunID))
			}
		}
		if got.Best.Index != 3 || len(boxes) != 2 || boxes[""] > 0 {
			t.Errorf("best %+v, on %v", got.Best, boxes)
		}
		// A worker that is away makes its variants wait, and refuses none.
		two.kill9()
		eventually(t, time.Minute, "box2 is away", func() bool { return two.row().State != api.WorkerOnline })
		named := queue("--worker", "box2", "--devices", "cuda:1")
		for _, v := range w.swept(named.SweepID).Variants {
			if v.Status != run.Queued || v.QueueKey != "box2/cuda:1" {
				t.Errorf("%+v", v)
			}
		}
		two.start()
		if got := w.sweepEnded(named.SweepID); got.Counts[run.Succeeded] != 4 || got.Variants[0].WorkerID != "box2" || !slices.Equal(got.Variants[0].Devices, []string{"cuda:1"}) {
			t.Errorf("%+v", got)
		}
		w.lostRepetition(t, one)
	})
}

// lostRepetition removes a worker under a study's runs, so that they are lost,
// and looks that each is repeated and none of the lost ones scored. SW-02.
func (w *world) lostRepetition(t *testing.T, b *box) {
	t.Helper()
	marker := filepath.Join(b.dir, "fast")
	out := w.cdui("study", "run", "-n", "2", "-d", "--json", "--worker", b.name, "--no-files", "--", "sh", "-c", "test -e "+marker+" || exec sleep 600")
	var reply api.StudyReply
	if err := json.Unmarshal([]byte(out), &reply); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, rep := range reply.List {
		w.running(rep.Attempts[0].RunID)
		if a := w.study(reply.StudyID).List[rep.Index].Attempts[0]; a.WorkerID != b.name || !slices.Equal(a.Devices, []string{"cpu"}) || a.QueueKey != b.name+"/cpu" {
			t.Errorf("%+v", a)
		}
	}
	if err := os.WriteFile(marker, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// The agent is away, and its runs end with their shims.
	b.kill9()
	for _, rep := range reply.List {
		for _, pid := range withArgs(rep.Attempts[0].RunID) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	b.start()
	eventually(t, 2*time.Minute, "the study ends", func() bool { return w.study(reply.StudyID).State == api.StudyFinished })
	y := w.study(reply.StudyID)
	for _, rep := range y.List {
		if len(rep.Attempts) != 2 || !rep.Attempts[0].Lost || rep.Outcome != study.Scored {
			t.Errorf("%+v", rep)
		}
	}
}

// Proves F.1: before rows are pruned, sweeps keep how their runs ended, though
// nobody has looked at them.
func TestPrunedRowsLeaveTheirResults(t *testing.T) {
	p := newPlane(t)
	reply := p.sweepOf(p.gridFile("0"))
	eventually(t, time.Minute, "all runs have ended", func() bool {
		var list api.RunList
		p.get("/api/runs?status=queued&status=running", &list)
		return list.Total == 0
	})
	p.kill9()
	p.env = append(p.env, "CDUI_RUN_RETENTION_KEEP_LAST=0")
	p.start()
	eventually(t, time.Minute, "the rows are pruned", func() bool {
		var list api.RunList
		p.get("/api/runs", &list)
		return list.Total == 0
	})
	w := p.swept(reply.SweepID)
	if w.State != sweep.Finished || w.Counts[run.Succeeded] != 9 || w.Counts[sweep.Missing] != 0 || string(w.Best.Objective) != "11.0" || w.Variants[0].RunExists || w.FinishedAt == nil {
		t.Errorf("%+v", w.SweepSummary)
	}
}
