package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs"
	"cdui/internal/store"
)

// executor is an Executor that starts nothing: tests play the child.
type executor struct {
	mu       sync.Mutex
	changed  chan struct{}
	sink     execution.Sink
	jobs     map[string]execution.Job
	adopted  []string
	cancels  map[string]time.Duration
	failWith error
	seq      map[string]uint64
}

func newExecutor() *executor {
	return &executor{changed: make(chan struct{}, 1000), jobs: map[string]execution.Job{}, cancels: map[string]time.Duration{}, seq: map[string]uint64{}}
}

func (x *executor) Start(_ context.Context, job execution.Job, sink execution.Sink) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() { x.changed <- struct{}{} }()
	if x.failWith != nil {
		return x.failWith
	}
	x.sink = sink
	x.jobs[job.Row.ID] = job
	x.seq[job.Row.ID] = 0
	return nil
}

func (x *executor) Adopt(_ context.Context, jobs []execution.Job, sink execution.Sink) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sink = sink
	for _, j := range jobs {
		x.jobs[j.Row.ID] = j
		x.seq[j.Row.ID] = j.Row.RecordedSeq
		x.adopted = append(x.adopted, j.Row.ID)
	}
	return nil
}

func (x *executor) Cancel(_ context.Context, id string, grace time.Duration, _ bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancels[id] = grace
	x.changed <- struct{}{}
	return nil
}

func (x *executor) job(id string) (execution.Job, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	j, ok := x.jobs[id]
	return j, ok
}

// send reports the records as the next ones of the run.
func (x *executor) send(t *testing.T, id string, records ...protocol.Record) {
	t.Helper()
	x.mu.Lock()
	job, sink := x.jobs[id], x.sink
	for i := range records {
		x.seq[id]++
		records[i].Seq, records[i].TS = x.seq[id], time.Now().UTC()
	}
	x.mu.Unlock()
	if err := sink.Record(context.Background(), id, job.Row.Attempt, records); err != nil {
		t.Errorf("record %s: %v", id, err)
	}
}

func (x *executor) finish(t *testing.T, id string, status run.Status) {
	t.Helper()
	code := 0
	x.send(t, id, protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: string(status), Exit: protocol.Exit{Code: &code}}})
}

// world is a service over a real store in a folder that survives restarts.
type world struct {
	t    *testing.T
	dir  string
	st   *store.Store
	exec *executor
	// away plays the workers.
	away *executor
	svc  *runs.Service
	wrap func(runs.Store) runs.Store

	mu sync.Mutex
	// told is what the service told of starts and ends: the status of the row.
	told []string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), wrap: func(s runs.Store) runs.Store { return s }}
	w.start()
	t.Cleanup(w.stop)
	return w
}

func (w *world) start() {
	w.t.Helper()
	st, err := store.Open(context.Background(), store.Config{Path: filepath.Join(w.dir, "cdui.db")})
	if err != nil {
		w.t.Fatal(err)
	}
	w.st, w.exec, w.away = st, newExecutor(), newExecutor()
	inv := device.Inventory{{Device: "cpu", Kind: "cpu"}, {Device: "cuda:0", Kind: "cuda"}, {Device: "cuda:1", Kind: "cuda", Index: 1}}
	cat, err := catalog.Builtin()
	if err != nil {
		w.t.Fatal(err)
	}
	w.svc = runs.New(runs.Config{
		Catalog: func(context.Context) *catalog.Catalog { return cat },
		Store:   w.wrap(st), Executor: w.exec, Workers: w.away, Limits: scheduler.Limits{GPU: 1, CPU: 2}, PayloadCap: 1 << 17,
		Devices: func() device.Inventory { return inv }, Grace: 30 * time.Second, Interactive: 2,
		Started: w.tell("started "), Ended: w.tell("ended "),
	})
	if err := w.svc.Load(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tell(what string) func(run.Row) {
	return func(row run.Row) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, what+row.ID+" "+string(row.Status))
	}
}

func (w *world) stop() {
	if w.svc == nil {
		return
	}
	w.svc.Close()
	if err := w.st.Close(); err != nil {
		w.t.Error(err)
	}
	w.svc = nil
}

// restart is a control plane that dies and comes back.
func (w *world) restart() {
	w.stop()
	w.start()
}

func command(options map[string]any) api.SubmitRequest {
	if options == nil {
		options = map[string]any{}
	}
	options["command"] = map[string]any{"argv": []string{"true"}, "cwd": "/"}
	raw, err := json.Marshal(options)
	if err != nil {
		panic(err)
	}
	return api.SubmitRequest{Options: raw}
}

func (w *world) submit(options map[string]any) string {
	w.t.Helper()
	replies, err := w.svc.Submit(context.Background(), "", command(options))
	if err != nil {
		w.t.Fatal(err)
	}
	return replies[0].RunID
}

func (w *world) view(id string) api.Run {
	w.t.Helper()
	row, err := w.st.Run(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.svc.View(row)
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func (w *world) untilStarted(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		eventually(w.t, "start of "+id, func() bool { _, ok := w.exec.job(id); return ok })
	}
}

func (w *world) events(id string) []string {
	w.t.Helper()
	events, err := w.st.Events(context.Background(), id, 0, 10_000, 1<<30)
	if err != nil {
		w.t.Fatal(err)
	}
	out := []string{}
	for i, e := range events {
		if e.Cursor != int64(i+1) {
			w.t.Errorf("event %d of %s has cursor %d", i+1, id, e.Cursor)
		}
		out = append(out, e.Type)
	}
	return out
}

func (w *world) used(d string) int {
	return len(w.svc.Board().DeviceStates(scheduler.Local)[d].Holders)
}

// ROLE-04, SCHED-01, SCHED-06, D.2, E: the queue position counts within the run's own key.
func TestFIFOWithACap(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.submit(nil), w.submit(nil), w.submit(nil)
	w.untilStarted(a, b)
	v := w.view(c)
	if v.Status != run.Queued || v.QueueReasonCode != run.ReasonSlotBusy || v.QueuePosition == nil || *v.QueuePosition != 1 || v.StartedAt != nil {
		t.Errorf("third run on a cap of two: %+v", v)
	}
	d := w.submit(nil)
	if v := w.view(d); v.QueueReasonCode != run.ReasonBehind || v.QueueReasonParams["run"] != c {
		t.Errorf("fourth run: %s %v", v.QueueReasonCode, v.QueueReasonParams)
	}
	w.exec.finish(t, a, run.Succeeded)
	w.untilStarted(c)
	if got := w.events(a); !slices.Equal(got, []string{run.EventExecutionStart, run.EventExecutionComplete}) {
		t.Errorf("events %v", got)
	}
	if v := w.view(a); v.Status != run.Succeeded || v.Active || v.FinishedAt == nil || v.Attempt != 1 {
		t.Errorf("ended run: %+v", v)
	}
}

// Proves EVT-01, EVT-04, EVT-08, W-05, D.4, ROLE-04, ROLE-08.
func TestRecordsBecomeEventsMetricsAndFacts(t *testing.T) {
	w := newWorld(t)
	id := w.submit(nil)
	w.untilStarted(id)
	w.exec.send(t, id,
		protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 77, VisibleDevices: []string{"cpu"}, Isolation: "pidns"}},
		protocol.Record{Type: protocol.Event, Event: run.EventNodeStatus, Payload: run.NodeStatus("command", run.NodeRunning, "", "")},
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":0.5,"step":1}]`)},
		protocol.Record{Type: protocol.Artifact, Kind: "file", Path: "/x/m.pt"},
		protocol.Record{Type: protocol.Warning, Kind: "note", Meta: json.RawMessage(`{"n":1}`)},
	)
	if v := w.view(id); v.PID == nil || *v.PID != 77 {
		t.Errorf("pid %v", v.PID)
	}
	// Sent again after a cut, with one more: the first five are dropped.
	w.exec.mu.Lock()
	w.exec.seq[id] = 4
	w.exec.mu.Unlock()
	w.exec.send(t, id,
		protocol.Record{Type: protocol.Warning, Kind: "note", Meta: json.RawMessage(`{"n":1}`)},
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":0.25,"step":2}]`)},
	)
	w.exec.finish(t, id, run.Succeeded)
	warned, err := w.st.Events(context.Background(), id, 4, 1, 1<<20)
	if err != nil || string(warned[0].Payload) != `{"kind":"note","n":1}` {
		t.Errorf("warning %s, %v", warned[0].Payload, err)
	}
	want := []string{
		run.EventExecutionStart, run.EventNodeStatus, run.EventMetric, run.EventArtifact, run.EventRunWarning, run.EventMetric, run.EventExecutionComplete,
	}
	if got := w.events(id); !slices.Equal(got, want) {
		t.Errorf("events\n%v, want\n%v", got, want)
	}
	var facts map[string]any
	if err := json.Unmarshal(w.view(id).Facts, &facts); err != nil || facts["pid"] != 77.0 || facts["isolation"] != "pidns" || facts["exit"] == nil {
		t.Errorf("facts %v, %v", facts, err)
	}
	final, err := w.st.FinalMetrics(context.Background(), id)
	if err != nil || string(final["loss"]) != "0.25" {
		t.Errorf("final metrics %v, %v", final, err)
	}
}

// Proves W-05, DSC-10.
func TestAGapInRecordsIsTold(t *testing.T) {
	w := newWorld(t)
	id := w.submit(nil)
	w.untilStarted(id)
	w.exec.mu.Lock()
	w.exec.seq[id] = 3
	w.exec.mu.Unlock()
	w.exec.send(t, id, protocol.Record{Type: protocol.Warning, Kind: "x"})
	w.exec.finish(t, id, run.Succeeded)
	events, err := w.st.Events(context.Background(), id, 0, 10, 1<<20)
	if err != nil || string(events[1].Payload) != `{"kind":"records_lost","from":1,"to":3}` {
		t.Errorf("%s, %v", events[1].Payload, err)
	}
}

// E, D.5, D.4: a run that never started has a stop event and no start.
func TestCancelAtEveryStepFreesTheSlot(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	busy := w.submit(map[string]any{"device": "cuda:0"})
	w.untilStarted(busy)
	queued := w.submit(map[string]any{"device": "cuda:0"})
	reply, err := w.svc.Cancel(ctx, queued, -1, false)
	if err != nil || reply.Status != run.Cancelled || !reply.Cancelled {
		t.Fatalf("waiting run: %+v, %v", reply, err)
	}
	if v := w.view(queued); v.StartedAt != nil || v.EndClass != run.EndCancel {
		t.Errorf("waiting run: %+v", v)
	}
	if got := w.events(queued); !slices.Equal(got, []string{run.EventExecutionStopped}) {
		t.Errorf("events %v", got)
	}
	reply, err = w.svc.Cancel(ctx, busy, 7*time.Second, false)
	if err != nil || reply.Status != run.Running || !reply.Cancelled || reply.GraceS != 7 {
		t.Fatalf("running run: %+v, %v", reply, err)
	}
	eventually(t, "cancel reaches the executor", func() bool {
		w.exec.mu.Lock()
		defer w.exec.mu.Unlock()
		return w.exec.cancels[busy] == 7*time.Second
	})
	if v := w.view(busy); v.StoppingDeadline == nil || v.CancelRequestedAt == nil {
		t.Errorf("stopping run shows no deadline: %+v", v)
	}
	w.exec.finish(t, busy, run.Cancelled)
	if w.used("cuda:0") != 0 {
		t.Error("the slot is still held")
	}
	if reply, err = w.svc.Cancel(ctx, busy, -1, false); err != nil || reply.Cancelled || reply.Status != run.Cancelled {
		t.Errorf("ended run: %+v, %v", reply, err)
	}
	if _, err = w.svc.Cancel(ctx, "ffffffffffffffffffffffffffffffff", -1, false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown run: %v", err)
	}
}

func TestHoldReleaseAndAfter(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	held := w.submit(map[string]any{"hold": true})
	other := w.submit(nil)
	w.untilStarted(other)
	if v := w.view(held); v.QueueReasonCode != run.ReasonHeld || v.QueuePosition != nil {
		t.Errorf("held run: %+v", v)
	}
	after := w.submit(map[string]any{"after": []any{map[string]any{"run": other}}})
	never := w.submit(map[string]any{"after": []any{map[string]any{"run": other, "condition": "failed"}}})
	if v := w.view(after); v.QueueReasonCode != run.ReasonAfter {
		t.Errorf("dependent run: %+v", v)
	}
	if _, err := w.svc.Release(ctx, held); err != nil {
		t.Fatal(err)
	}
	w.untilStarted(held)
	w.exec.finish(t, other, run.Succeeded)
	w.untilStarted(after)
	eventually(t, "the run that can never start says so", func() bool {
		return w.view(never).QueueReasonParams["never"] == true
	})
	if _, err := w.svc.Hold(ctx, after); api.CodeOf(err) != api.Conflict {
		t.Errorf("holding a running run: %v", err)
	}
	w.exec.finish(t, after, run.Failed)
	if _, err := w.svc.Release(ctx, never); err != nil {
		t.Fatal(err)
	}
	w.untilStarted(never)
	late := w.submit(map[string]any{"after": []any{map[string]any{"run": other}}})
	w.exec.finish(t, held, run.Succeeded)
	w.untilStarted(late)
}

// Proves R-01.
func TestTheSameKeyGivesTheFirstRun(t *testing.T) {
	w := newWorld(t)
	first := w.submit(map[string]any{"key": "nightly"})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			replies, err := w.svc.Submit(context.Background(), "", command(map[string]any{"key": "nightly"}))
			if err != nil || replies[0].RunID != first || !replies[0].Existing {
				t.Errorf("%+v, %v", replies, err)
			}
		})
	}
	wg.Wait()
	if _, total, err := w.st.List(context.Background(), store.Filter{Limit: 10}); err != nil || total != 1 {
		t.Errorf("%d rows, %v", total, err)
	}
}

// Proves R-01.
func TestBulkIsAllOrNone(t *testing.T) {
	w := newWorld(t)
	_, err := w.svc.Submit(context.Background(), "", command(nil), command(map[string]any{"device": "cuda:9"}))
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.Invalid || e.Params["index"] != 1 {
		t.Fatalf("%v", err)
	}
	if _, total, err := w.st.List(context.Background(), store.Filter{Limit: 10}); err != nil || total != 0 {
		t.Errorf("%d rows were left, %v", total, err)
	}
	replies, err := w.svc.Submit(context.Background(), "", slices.Repeat([]api.SubmitRequest{command(map[string]any{"hold": true})}, 1000)...)
	if err != nil || len(replies) != 1000 {
		t.Fatal(len(replies), err)
	}
}

// Proves D.1, REF-01, REF-03, REF-10, E.
func TestRefusalsLeaveNoRow(t *testing.T) {
	w := newWorld(t)
	for name, req := range map[string]api.SubmitRequest{
		"no graph":       {Options: json.RawMessage(`{}`)},
		"bad option":     {Options: json.RawMessage(`{"colour":1}`)},
		"no such card":   command(map[string]any{"device": "cuda:7"}),
		"no worker":      command(map[string]any{"target": map[string]any{"worker": "gpu-bx"}}),
		"graph twice":    {Graph: json.RawMessage(`{"nodes":[{"id":"a","type":"Script"}]}`), Options: json.RawMessage(`{"command":{"argv":["x"],"cwd":"/"}}`)},
		"long name":      {Options: json.RawMessage(`{"command":{"argv":["x"],"cwd":"/"}}`), Name: new(fmt.Sprintf("%065d", 1))},
		"interactive":    command(map[string]any{"lane": "interactive"}),
		"any, two cards": command(map[string]any{"target": map[string]any{"worker": "any", "devices": []string{"cuda:0", "cuda:1"}}}),
	} {
		if _, err := w.svc.Submit(context.Background(), "", req); err == nil {
			t.Errorf("%s was taken", name)
		} else if api.CodeOf(err) == api.Internal {
			t.Errorf("%s: %v has no code", name, err)
		}
	}
	if _, total, err := w.st.List(context.Background(), store.Filter{Limit: 10}); err != nil || total != 0 {
		t.Errorf("%d rows were left, %v", total, err)
	}
}

// Proves R-03.
func TestARunThatCannotStartFailsWithItsReason(t *testing.T) {
	w := newWorld(t)
	w.exec.failWith = errors.New("no room for its folder")
	id := w.submit(nil)
	eventually(t, "end", func() bool { return w.view(id).Status == run.Failed })
	if v := w.view(id); v.Error != "no room for its folder" || v.EndClass != run.EndServer || w.used("cpu") != 0 {
		t.Errorf("%+v", v)
	}
}

// W-05: another attempt's records are refused.
func TestLostAndNeverStarted(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	lost, again := w.submit(nil), w.submit(nil)
	w.untilStarted(lost, again)
	if err := w.exec.sink.Lost(ctx, lost, 1, execution.Loss{EndClass: run.EndKilled, Text: "supervisor killed"}); err != nil {
		t.Fatal(err)
	}
	if v := w.view(lost); v.Status != run.Interrupted || v.EndClass != run.EndKilled {
		t.Errorf("%+v", v)
	}
	if err := w.exec.sink.Lost(ctx, again, 7, execution.Loss{}); !errors.Is(err, execution.ErrGone) {
		t.Errorf("report of another attempt: %v", err)
	}
	w.exec.mu.Lock()
	delete(w.exec.jobs, again)
	w.exec.mu.Unlock()
	if err := w.exec.sink.NeverStarted(ctx, again, 1); err != nil {
		t.Fatal(err)
	}
	w.untilStarted(again)
	if v := w.view(again); v.Attempt != 2 || v.Status != run.Running {
		t.Errorf("%+v", v)
	}
	w.exec.finish(t, again, run.Succeeded)
	if got := w.events(again); !slices.Equal(got, []string{run.EventExecutionStart, run.EventRunWarning, run.EventExecutionComplete}) {
		t.Errorf("events %v", got)
	}
}

// Proves P-05, W-05, ADP-02.
func TestRestartKeepsTheQueueAndAdoptsTheRunning(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	running := w.submit(map[string]any{"device": "cuda:0"})
	w.untilStarted(running)
	w.exec.send(t, running,
		protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 5}},
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":1,"step":1}]`)})
	first, second := w.submit(map[string]any{"device": "cuda:0"}), w.submit(map[string]any{"device": "cuda:0"})
	held := w.submit(map[string]any{"hold": true})
	if _, err := w.svc.Cancel(ctx, running, time.Second, false); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if !slices.Equal(w.exec.adopted, []string{running}) {
		t.Fatalf("adopted %v", w.exec.adopted)
	}
	eventually(t, "the cancel is repeated", func() bool {
		w.exec.mu.Lock()
		defer w.exec.mu.Unlock()
		_, ok := w.exec.cancels[running]
		return ok
	})
	if v := w.view(running); v.Status != run.Running || w.used("cuda:0") != 1 || v.PID == nil || *v.PID != 5 {
		t.Errorf("adopted run: %+v", v)
	}
	if a, b, c := w.view(first), w.view(second), w.view(held); *a.QueuePosition != 1 || *b.QueuePosition != 2 || c.QueueReasonCode != run.ReasonHeld {
		t.Errorf("queue after restart: %v %v %v", a.QueuePosition, b.QueuePosition, c.QueueReasonCode)
	}
	// The shim sends again what was not acknowledged, then goes on.
	w.exec.mu.Lock()
	w.exec.seq[running] = 1
	w.exec.mu.Unlock()
	w.exec.send(t, running,
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":1,"step":1}]`)},
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":2,"step":2}]`)})
	w.exec.finish(t, running, run.Cancelled)
	w.untilStarted(first)
	want := []string{run.EventExecutionStart, run.EventMetric, run.EventMetric, run.EventExecutionStopped}
	if got := w.events(running); !slices.Equal(got, want) {
		t.Errorf("events %v", got)
	}
	report, err := w.st.Check(ctx)
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// Proves P-04.
func TestAStuckProcessKeepsItsSlotClosed(t *testing.T) {
	w := newWorld(t)
	id := w.submit(map[string]any{"device": "cuda:0"})
	w.untilStarted(id)
	next := w.submit(map[string]any{"device": "cuda:0"})
	w.exec.send(t, id, protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{
		Status: string(run.Failed), EndClass: string(run.EndKilled), Code: protocol.CodeProcessStuck, Error: "process 7 is stuck",
	}})
	if v := w.view(id); v.Status != run.Failed || w.used("cuda:0") != 1 {
		t.Errorf("%s, %d holders", v.Status, w.used("cuda:0"))
	}
	if v := w.view(next); v.Status != run.Queued || v.QueueReasonCode != run.ReasonSlotBusy {
		t.Errorf("the next run: %s %s", v.Status, v.QueueReason)
	}
}
