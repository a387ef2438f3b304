package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cdui/internal/agent"
	"cdui/internal/agent/folder"
	"cdui/internal/nvml"
	"cdui/internal/protocol"
	"cdui/internal/shim/proctree"
)

type noCards struct{}

func (noCards) Probe(context.Context) nvml.Reading { return nvml.Reading{} }
func (noCards) Close()                             {}

// worker is a real agent of this process.
type worker struct {
	t    *testing.T
	cfg  agent.Config
	stop context.CancelFunc
	done chan error
	once sync.Once
	err  error
}

type logWriter struct {
	t    *testing.T
	over *atomic.Bool
}

func (w logWriter) Write(p []byte) (int, error) {
	if !w.over.Load() {
		w.t.Logf("agent: %s", bytes.TrimSpace(p))
	}
	return len(p), nil
}

func logWriterOf(t *testing.T) logWriter {
	over := &atomic.Bool{}
	t.Cleanup(func() { over.Store(true) })
	return logWriter{t, over}
}

func config(t *testing.T, p *plane) agent.Config {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("session\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return agent.Config{
		Control: p.http.URL, Name: "box", DataDir: t.TempDir(), SessionTokenFile: token,
		Python: filepath.Join(t.TempDir(), "no-python"), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()},
		Cards: noCards{}, Logger: slog.New(slog.NewTextHandler(logWriterOf(t), nil)),
	}
}

// launch starts an agent and waits until it is there.
func launch(t *testing.T, cfg agent.Config) *worker {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	w := &worker{t: t, cfg: cfg, stop: stop, done: make(chan error, 1)}
	ready := make(chan struct{})
	cfg.Ready = func() { close(ready) }
	go func() { w.done <- agent.Run(ctx, cfg) }()
	select {
	case <-ready:
	case err := <-w.done:
		t.Fatalf("the agent does not start: %v", err)
	case <-time.After(60 * time.Second):
		t.Fatal("the agent does not start within a minute")
	}
	t.Cleanup(func() {
		_ = w.end() // tests that care have asked
		endRuns(t, cfg)
	})
	return w
}

// end stops the agent as SIGTERM does, and gives its error.
func (w *worker) end() error {
	w.stop()
	return w.wait()
}

func (w *worker) wait() error {
	w.t.Helper()
	w.once.Do(func() {
		select {
		case w.err = <-w.done:
		case <-time.After(60 * time.Second):
			w.t.Error("the agent does not end")
		}
	})
	return w.err
}

// endRuns kills what a test left.
func endRuns(t *testing.T, cfg agent.Config) {
	t.Helper()
	entries, _ := os.ReadDir(filepath.Join(folder.Path(cfg.DataDir, cfg.Name), "agent-runs"))
	for _, e := range entries {
		for range 100 {
			left := proctree.ByEnv("CDUI_RUN_ID", func(id string) bool { return id == e.Name() })
			if len(left) == 0 {
				break
			}
			for _, p := range left[e.Name()] {
				proctree.Signal(p, syscall.SIGKILL)
			}
		}
	}
}

var runs atomic.Int64

func newRun() attempt { return attempt{fmt.Sprint(runPrefix, runs.Add(1)), 1} }

func command(key attempt, argv ...string) *protocol.Assign {
	return &protocol.Assign{
		RunID: key.run, Attempt: key.attempt, Kind: protocol.KindCommand, NodeID: "n1", Device: "cpu", Devices: []string{"cpu"},
		GraceS: 10, PayloadCap: 1 << 17, Command: &protocol.Command{Argv: argv, Cwd: "/"},
	}
}

// script is a run whose Python is this binary's childMain.
func script(t *testing.T, key attempt, args ...any) *protocol.Assign {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = fmt.Sprint(a)
	}
	return &protocol.Assign{
		RunID: key.run, Attempt: key.attempt, Kind: protocol.KindScript, NodeID: "n1", Device: "cpu", Devices: []string{"cpu"},
		GraceS: 10, PayloadCap: 1 << 17, Script: &protocol.Script{Path: "/x.py", Args: words, Cwd: "/", Interpreter: exe},
	}
}

// release lets a holding child end.
func release(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func ascending(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// clean waits until nothing of a run is left on the worker.
func (w *worker) clean(key attempt) {
	w.t.Helper()
	dir := folder.Path(w.cfg.DataDir, w.cfg.Name)
	eventually(w.t, "the folders of "+key.run+" are gone", func() bool {
		_, err1 := os.Stat(filepath.Join(dir, "agent-runs", key.run))
		_, err2 := os.Stat(filepath.Join(dir, "files", key.run))
		return os.IsNotExist(err1) && os.IsNotExist(err2)
	})
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not so within a minute: %s", what)
		}
		<-ticker.C
	}
}

// TestARunFromAssignToTidy: ROLE-11, ROLE-17, CAT-03, EVT-07, FRM-05, ISO-09, W-09.
func TestARunFromAssignToTidy(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	w := launch(t, config(t, p))
	key := newRun()
	p.send(command(key, "sh", "-c", "echo hello; exit 3"))
	end := p.end(key)
	if end.Status != "failed" || end.Exit.Code == nil || *end.Exit.Code != 3 || !strings.Contains(end.OutputTail, "hello") {
		t.Errorf("ended with %+v", end)
	}
	p.started(key)
	if p.twice != 0 || p.gaps != 0 {
		t.Errorf("%d records came twice, %d did not come", p.twice, p.gaps)
	}
	w.clean(key)
	if err := w.end(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	h := p.hellos[0]
	if h.Name != "box" || h.Protocol != protocol.Version || h.MachineID == "" || h.Nonce == "" || h.Catalog == nil || !h.Devices.Has("cpu") || h.Python != nil {
		t.Errorf("hello %+v", h)
	}
	if p.tokens[0] != "session" {
		t.Errorf("token %q", p.tokens[0])
	}
}

// TestCutsCostNothing: P1, DSC-01, DSC-03, DSC-09, W-05.
func TestCutsCostNothing(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	w := launch(t, config(t, p))
	key := newRun()
	file := filepath.Join(t.TempDir(), "go")
	p.send(script(t, key, "until", file))
	pid := p.started(key)
	for range 4 {
		before := p.count(key)
		p.await("some records", func() bool { return len(p.records[key]) > before+20 })
		sessions := len(p.hellos)
		p.cut()
		p.await("a reconnection", func() bool { return len(p.hellos) > sessions && p.peer != nil })
	}
	release(t, file)
	if end := p.end(key); end.Status != "succeeded" {
		t.Errorf("ended with %+v", end)
	}
	if got := p.counts(key); !slices.Equal(got, ascending(len(got))) || len(got) < 80 {
		t.Errorf("counted %v", got)
	}
	if p.gaps != 0 || p.started(key) != pid {
		t.Errorf("%d gaps, pid %d and then %d", p.gaps, pid, p.started(key))
	}
	for i, list := range p.alive[1:] {
		if len(list) != 1 || list[0].RunID != key.run || list[0].Attempt != 1 {
			t.Errorf("run_alive %d lists %+v", i+1, list)
		}
	}
	for _, h := range p.hellos {
		if h.Nonce != p.hellos[0].Nonce {
			t.Error("the nonce changed in the life of a process")
		}
	}
	w.clean(key)
}

// TestCreditBoundsWhatIsOnTheWay: W-03, DSC-09.
func TestCreditBoundsWhatIsOnTheWay(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.deaf = true
	launch(t, config(t, p))
	key, quiet := newRun(), newRun()
	p.send(script(t, key, "flood", 3000, 10))
	p.await("a full credit", func() bool { return len(p.records[key]) >= protocol.CreditRecords })
	// Another run has a credit of its own.
	p.send(command(quiet, "true"))
	p.end(quiet)
	p.mu.Lock()
	if n := len(p.records[key]); n != protocol.CreditRecords {
		t.Errorf("%d records are on the way", n)
	}
	p.deaf = false
	me, last := p.peer, p.last(key)
	p.mu.Unlock()
	me.send(t, &protocol.Ack{RunID: key.run, Attempt: 1, Seq: last})
	p.end(key)
	if got := p.counts(key); !slices.Equal(got, ascending(3000)) || p.twice != 0 || p.gaps != 0 {
		t.Errorf("%d numbers, %d twice, %d gaps", len(got), p.twice, p.gaps)
	}
}

// TestUnacknowledgedRecordsComeAgainInOrder: DSC-09, DSC-10.
func TestUnacknowledgedRecordsComeAgainInOrder(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.deaf = true
	w := launch(t, config(t, p))
	key := newRun()
	p.send(script(t, key, "flood", 500, 2000))
	p.end(key)
	// The control plane loses what it had not acknowledged.
	p.change(func() { delete(p.records, key); p.held[key], p.deaf = true, false })
	p.cut()
	p.end(key)
	if got := p.counts(key); !slices.Equal(got, ascending(500)) || p.gaps != 0 {
		t.Errorf("%d numbers, %d gaps", len(got), p.gaps)
	}
	w.clean(key)
}

// TestHeartbeatsGoFirst: W-03, DSC-14, FRM-15.
func TestHeartbeatsGoFirst(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.heartbeat = time.Second
	launch(t, config(t, p))
	key := newRun()
	p.send(script(t, key, "flood", 10_000, 200))
	p.await("heartbeats amid the flood", func() bool {
		listed := 0
		for _, b := range p.beats {
			if slices.Contains(b.Runs, key.run) {
				listed++
			}
		}
		return listed >= 2 || listed >= 1 && p.finished(key) != nil
	})
	p.end(key)
	if p.gaps != 0 {
		t.Errorf("%d gaps", p.gaps)
	}
}

// TestAPeerThatKnowsOnlySingleRecords: PRO-02, W-01.
func TestAPeerThatKnowsOnlySingleRecords(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.caps = protocol.Capabilities{protocol.CapAck}
	launch(t, config(t, p))
	key := newRun()
	p.send(script(t, key, "count", 5, 0))
	p.end(key)
	if got := p.counts(key); !slices.Equal(got, ascending(5)) || p.singles != len(p.records[key]) {
		t.Errorf("counted %v, %d of %d came singly", got, p.singles, len(p.records[key]))
	}
}

// TestOneRecordThatNobodyTakes: P2, W-03.
func TestOneRecordThatNobodyTakes(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.poison = 7
	w := launch(t, config(t, p))
	key := newRun()
	p.send(script(t, key, "count", 10, 0))
	if end := p.end(key); end.Status != "succeeded" {
		t.Errorf("ended with %+v", end)
	}
	if p.gaps != 1 {
		t.Errorf("%d gaps, want the poisoned record alone", p.gaps)
	}
	w.clean(key)
}

// TestDrainAndRefusals: ISO-03, DRN-02, DRN-03, W-09.
func TestDrainAndRefusals(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	w := launch(t, config(t, p))
	file := filepath.Join(t.TempDir(), "go")
	key := newRun()
	p.send(script(t, key, "hold", file))
	p.started(key)

	second := attempt{key.run, 2}
	p.send(script(t, second, "hold", file))
	if end := p.end(second); end.Status != "failed" || end.Code != protocol.RefuseAlreadyRunning {
		t.Errorf("a second copy: %+v", end)
	}
	p.send(script(t, key, "hold", file)) // the same order again changes nothing

	card := newRun()
	a := command(card, "true")
	a.Devices = []string{"cuda:3"}
	p.send(a)
	if end := p.end(card); end.Code != protocol.RefuseDeviceNotOffered || !strings.Contains(end.Error, "cuda:3") || !strings.Contains(end.Error, "cpu") {
		t.Errorf("a device that is not offered: %+v", end)
	}
	graph := newRun()
	p.send(&protocol.Assign{
		RunID: graph.run, Attempt: 1, Kind: protocol.KindGraph, Devices: []string{"cpu"}, Graph: &protocol.Graph{Prepared: []byte(`{}`)},
	})
	if end := p.end(graph); end.Code != protocol.RefuseNoTorch {
		t.Errorf("a graph without torch: %+v", end)
	}

	p.send(&protocol.Drain{On: true})
	late := newRun()
	p.send(command(late, "true"))
	if end := p.end(late); end.Code != protocol.RefuseDraining {
		t.Errorf("during drain: %+v", end)
	}
	p.send(&protocol.Drain{On: false})
	again := newRun()
	p.send(command(again, "true"))
	if end := p.end(again); end.Status != "succeeded" {
		t.Errorf("after drain: %+v", end)
	}

	release(t, file)
	if end := p.end(key); end.Status != "succeeded" {
		t.Errorf("the run that was there all the time: %+v", end)
	}
	w.clean(key)
}

// TestDrainIsSaidAgain: W-09.
func TestDrainIsSaidAgain(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.drained = true
	launch(t, config(t, p))
	key := newRun()
	p.send(command(key, "true"))
	if end := p.end(key); end.Code != protocol.RefuseDraining {
		t.Errorf("got %+v", end)
	}
	p.change(func() { p.drained = false })
	p.cut()
	p.await("a reconnection", func() bool { return len(p.hellos) == 2 && p.peer != nil })
	key = newRun()
	p.send(command(key, "true"))
	if end := p.end(key); end.Status != "succeeded" {
		t.Errorf("got %+v", end)
	}
}

// TestCancel: CAN-01, FRM-11, K-07.
func TestCancel(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	launch(t, config(t, p))
	soft, hard := newRun(), newRun()
	p.send(command(soft, "sh", "-c", "trap 'echo saved; exit 0' TERM; while :; do sleep 0.05; done"))
	p.send(command(hard, "sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"))
	p.started(soft)
	p.started(hard)
	p.send(&protocol.Cancel{RunID: soft.run, Attempt: 1})
	if end := p.end(soft); end.Status != "cancelled" {
		t.Errorf("asked: %+v", end)
	}
	p.send(&protocol.Cancel{RunID: hard.run, Attempt: 1})
	zero := protocol.Seconds(0)
	p.send(&protocol.Cancel{RunID: hard.run, Attempt: 1, GraceS: &zero})
	if end := p.end(hard); end.Status != "cancelled" {
		t.Errorf("at once: %+v", end)
	}
}

// TestStopLeavesRunsGoing: CAN-04, P-03.
func TestStopLeavesRunsGoing(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg := config(t, p)
	w := launch(t, cfg)
	file := filepath.Join(t.TempDir(), "go")
	key := newRun()
	p.send(script(t, key, "hold", file))
	pid := p.started(key)

	s, err := agent.Query(t.Context(), cfg.DataDir, cfg.Name)
	if err != nil || !s.Connected || len(s.Runs) != 1 || s.Runs[0].RunID != key.run || s.PID != os.Getpid() {
		t.Errorf("status %+v, %v", s, err)
	}
	if _, err := folder.Open(cfg.DataDir, cfg.Name); !errors.Is(err, folder.ErrBusy) {
		t.Errorf("a second agent on the folder: %v", err)
	}
	left, err := agent.Stop(t.Context(), cfg.DataDir, cfg.Name, false)
	if err != nil || left != 1 {
		t.Errorf("stop: %d left, %v", left, err)
	}
	if err := w.wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if _, err := agent.Query(t.Context(), cfg.DataDir, cfg.Name); !errors.Is(err, agent.ErrNotRunning) {
		t.Errorf("status of a stopped agent: %v", err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the run went with its agent: %v", err)
	}

	again := launch(t, cfg)
	p.await("the run to be listed", func() bool {
		last := p.alive[len(p.alive)-1]
		return len(p.alive) == 2 && len(last) == 1 && last[0].RunID == key.run && last[0].State == protocol.AliveRunning
	})
	if _, err := agent.Stop(t.Context(), cfg.DataDir, cfg.Name, true); err != nil {
		t.Errorf("stop with runs: %v", err)
	}
	if end := p.end(key); end.Status != "cancelled" {
		t.Errorf("ended with %+v", end)
	}
	if err := again.wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	again.clean(key)
}
