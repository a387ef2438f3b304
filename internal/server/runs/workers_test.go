package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler/fleet"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs/board"
)

func on(worker string, devices ...string) map[string]any {
	target := map[string]any{"worker": worker}
	if len(devices) > 0 {
		target["devices"] = devices
	}
	return map[string]any{"target": target}
}

func online(devices ...string) board.Worker {
	state := offline(devices...)
	state.Connected = true
	return state
}

func offline(devices ...string) board.Worker {
	var inv device.Inventory
	for _, d := range devices {
		inv = append(inv, device.Device{Device: d, Kind: device.Kind(d), Index: device.Index(d)})
	}
	return board.Worker{Machine: fleet.Machine{Inventory: inv}}
}

func (w *world) untilAway(id string) execution.Job {
	w.t.Helper()
	eventually(w.t, "start of "+id+" on a worker", func() bool { _, ok := w.away.job(id); return ok })
	job, _ := w.away.job(id)
	return job
}

func lost(code string) execution.Link {
	return execution.Link{Code: code, Worker: "box", Text: "the connection closed", Reason: &protocol.Problem{Code: protocol.CauseConnectionClosed, Text: "closed"}}
}

// ROLE-19, LANE-05: a placement is a worker, its devices and their slots.
func TestAWorkersRunIsPlacedThere(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetWorker("box", online("cpu", "cuda:0", "cuda:1"))
	options := on("box")
	options["device"] = "cuda"
	a, b, c := w.submit(options), w.submit(options), w.submit(options)
	job := w.untilAway(a)
	if job.Row.WorkerID != "box" || !slices.Equal(job.Row.Devices, []string{"cuda:0"}) || job.Row.Options.Device != "cuda:0" {
		t.Errorf("the first is on %s %v, told %s", job.Row.WorkerID, job.Row.Devices, job.Row.Options.Device)
	}
	if job := w.untilAway(b); !slices.Equal(job.Row.Devices, []string{"cuda:1"}) {
		t.Errorf("the second is on %v", job.Row.Devices)
	}
	v := w.view(c)
	if v.QueueKey != "box/cuda" || v.QueueReasonCode != run.ReasonSlotBusy || v.WorkerID != "" || v.Options.Device != "cuda" {
		t.Errorf("the third: key %s, %s, worker %q, device %s", v.QueueKey, v.QueueReason, v.WorkerID, v.Options.Device)
	}
	w.away.finish(t, a, run.Succeeded)
	if job := w.untilAway(c); !slices.Equal(job.Row.Devices, []string{"cuda:0"}) {
		t.Errorf("the third then is on %v", job.Row.Devices)
	}
	if v := w.view(c); v.WorkerID != "box" || !slices.Equal(v.Devices, []string{"cuda:0"}) {
		t.Errorf("its row names %s %v", v.WorkerID, v.Devices)
	}
	if holders := w.svc.Board().DeviceStates("box")["cuda:0"].Holders; len(holders) != 1 || holders[0].RunID != c {
		t.Errorf("box/cuda:0 is held by %v", holders)
	}
}

// Proves REF-01, REF-02, REF-03, REF-04, REF-05, REF-08, REF-09, REF-10, MEM-07,
// TGT-01, TGT-02, S1: what could never start is refused with what is missing,
// and leaves no row.
func TestSubmitsForWorkersThatCanNeverStart(t *testing.T) {
	w := newWorld(t)
	refused := func(options map[string]any, want string) {
		t.Helper()
		_, err := w.svc.Submit(context.Background(), "", command(options))
		if api.CodeOf(err) != api.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", options, err, want)
		}
	}
	refused(on("box"), "no workers are enrolled")
	w.svc.Board().SetWorker("box", offline("cpu", "cuda:0"))
	w.svc.Board().SetWorker("new", board.Worker{})
	refused(on("nope"), "there are box, new")
	refused(on("box", "cuda:3"), "box has no cuda:3; it offers cpu, cuda:0")
	refused(on("any", "cuda:1"), "no machine that this control plane knows offers cuda:1")
	with := on("box")
	with["record_outputs"] = true
	refused(with, "can't record outputs")
	quick := on("box")
	quick["lane"] = "interactive"
	if _, err := w.svc.Submit(context.Background(), "", command(quick)); err == nil || !strings.Contains(err.Error(), "interactive lane") {
		t.Errorf("the interactive lane: %v", err)
	}
	refused(map[string]any{"target": map[string]any{"memory_gib": 2}}, "memory_gib is for workers")
	refused(map[string]any{"target": map[string]any{"worker": "local", "memory_source": "estimate"}}, "memory_gib is for workers")
	refused(map[string]any{"target": map[string]any{"worker": "box", "speed": 3}}, `unknown key "speed"; supported: worker, devices, pool, memory_gib, memory_source, wait`)
	refused(map[string]any{"target": map[string]any{"pool": "one-shot"}, "record_outputs": true}, "one-shot workers are gone when their run has ended")
	refused(map[string]any{"target": map[string]any{"pool": "one-shot"}}, "starts no one-shot workers")
	eight := on("any", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7")
	if _, err := w.svc.Submit(context.Background(), "", slices.Repeat([]api.SubmitRequest{command(eight)}, 600)...); err == nil ||
		!strings.Contains(err.Error(), "offers cuda:0,cuda:1,cuda:2,cuda:3,cuda:4,cuda:5,cuda:6,cuda:7") {
		t.Errorf("600 sets that nobody has: %v", err)
	}
	sharedBox(w)
	refused(map[string]any{"target": map[string]any{"worker": "box", "memory_gib": 10}, "device": "cuda:0"},
		"it asks for 10.5 GiB with what CUDA itself takes, and the largest, box/cuda:0, has 9.8 GiB")
	w.svc.Board().SetWorker("box", offline("cpu", "cuda:0"))
	if rows, err := w.st.Active(context.Background()); err != nil || len(rows) != 0 {
		t.Errorf("%d rows are left, %v", len(rows), err)
	}
	auto := on("new")
	auto["device"] = "auto"
	refused(auto, "has not told its devices yet")

	// REF-07: what could start later waits.
	offline, unseen := w.submit(on("box", "cuda:0")), w.submit(on("new", "cuda:7"))
	for _, id := range []string{offline, unseen} {
		if v := w.view(id); v.QueueReasonCode != run.ReasonWorkerOffline {
			t.Errorf("%s waits for %q", id, v.QueueReason)
		}
	}
	state := online("cpu", "cuda:0")
	state.Draining = true
	w.svc.Board().SetWorker("box", state)
	if v := w.view(offline); v.QueueReason != "worker box is draining" {
		t.Errorf("waits for %q", v.QueueReason)
	}
	w.svc.Board().SetWorker("box", online("cpu", "cuda:0"))
	w.untilAway(offline)
}

// ROLE-02, ROLE-09, LANE-01, LANE-02, LANE-04: a worker takes what was meant
// for workers. Everything else executes on the control plane's machine, even
// where it waits while the worker is idle; the interactive lane never leaves it.
func TestAWorkerIsNeverTakenUnasked(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetWorker("box", online("cpu", "cuda:0"))
	named := on("local")
	named["device"] = "cpu"
	plain, local, waits := w.submit(nil), w.submit(named), w.submit(nil)
	w.untilStarted(plain, local)
	live := w.submitGraph(`{"lane":"interactive"}`)
	w.untilStarted(live)
	if v := w.view(waits); v.Status != run.Queued || v.QueueKey != "cpu" || v.QueueReasonCode != run.ReasonSlotBusy {
		t.Errorf("beside an idle worker: %s, key %s, %s", v.Status, v.QueueKey, v.QueueReason)
	}
	for _, id := range []string{plain, local, waits, live} {
		if _, there := w.away.job(id); there || w.view(id).WorkerID != "" {
			t.Errorf("run %s went to a worker", id)
		}
	}
	for _, worker := range []string{"box", "any"} {
		_, err := w.svc.Submit(context.Background(), "", api.SubmitRequest{
			Graph: json.RawMessage(secretGraph), Options: json.RawMessage(`{"lane":"interactive","target":{"worker":"` + worker + `"}}`),
		})
		if api.CodeOf(err) != api.Invalid || !strings.Contains(err.Error(), "interactive lane") {
			t.Errorf("interactive on %s: %v", worker, err)
		}
	}
}

// ROLE-07, LANE-05: the placement decides who executes a run.
func TestAnyTakesTheServerLast(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetWorker("box", online("cpu"))
	ids := []string{w.submit(on("any")), w.submit(on("any")), w.submit(on("any"))}
	w.untilAway(ids[0])
	w.untilAway(ids[1])
	w.untilStarted(ids[2])
	if v := w.view(ids[2]); v.WorkerID != "" || v.QueueKey != "any/cpu" || !slices.Equal(v.Devices, []string{"cpu"}) {
		t.Errorf("on the server: %q %s %v", v.WorkerID, v.QueueKey, v.Devices)
	}
}

// DSC-07, DSC-11, ERR-01, ERR-04.
func TestLinkLostAndBack(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetWorker("box", online("cuda:0"))
	id := w.submit(on("box", "cuda:0"))
	job := w.untilAway(id)
	ctx := context.Background()
	eventually(t, "running", func() bool { return w.view(id).Status == run.Running })
	if err := w.svc.LinkLost(ctx, id, job.Row.Attempt, lost(protocol.CodeWorkerDisconnected)); err != nil {
		t.Fatal(err)
	}
	w.svc.Board().SetWorker("box", offline("cuda:0"))
	if v := w.view(id); v.Status != run.Disconnected || !v.Active || len(w.svc.Board().DeviceStates("box")["cuda:0"].Holders) != 1 {
		t.Errorf("out of sight: %s, held by %v", v.Status, w.svc.Board().DeviceStates("box"))
	}
	if row, err := w.st.Run(ctx, id); err != nil || row.Status != run.Disconnected {
		t.Errorf("stored as %s, %v", row.Status, err)
	}
	if err := w.svc.LinkBack(ctx, id, job.Row.Attempt, lost(protocol.CodeWorkerReconnected)); err != nil {
		t.Fatal(err)
	}
	if err := w.svc.LinkBack(ctx, id, job.Row.Attempt, lost(protocol.CodeWorkerReconnected)); err != nil {
		t.Errorf("back twice: %v", err)
	}
	if err := w.svc.LinkLost(ctx, id, 7, lost(protocol.CodeWorkerDisconnected)); !errors.Is(err, execution.ErrGone) {
		t.Errorf("another attempt: %v", err)
	}
	w.away.finish(t, id, run.Succeeded)
	want := []string{run.EventExecutionStart, run.EventRunWarning, run.EventRunWarning, run.EventExecutionComplete}
	if got := w.events(id); !slices.Equal(got, want) {
		t.Errorf("events %v", got)
	}
	stored, err := w.st.Events(ctx, id, 1, 2, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var warned struct {
		Kind, Code, Text string
		Params           struct {
			Worker string
			Reason protocol.Problem
		}
	}
	if err := json.Unmarshal(stored[0].Payload, &warned); err != nil || warned.Kind != "worker_disconnected" || warned.Code != warned.Kind ||
		warned.Params.Worker != "box" || warned.Params.Reason.Code != protocol.CauseConnectionClosed || warned.Text == "" {
		t.Errorf("warning %s, %v", stored[0].Payload, err)
	}
}

// TestR04 holds R-04: the cancel of a run that is out of sight: the order waits, the
// slots stay held, and the end is cancelled whoever brings it.
func TestR04CancelOfADisconnectedRun(t *testing.T) {
	for name, end := range map[string]func(w *world, id string, attempt int) error{
		"the grace runs out": func(w *world, id string, attempt int) error {
			return w.svc.Lost(context.Background(), id, attempt, execution.Loss{EndClass: run.EndWorkerLost, Text: "away", Code: protocol.CodeWorkerUnreachable})
		},
		"force gives up at once": func(w *world, id string, _ int) error {
			reply, err := w.svc.Cancel(context.Background(), id, time.Second, true)
			if err == nil && reply.Status != run.Cancelled {
				return fmt.Errorf("replied %+v", reply)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.svc.Board().SetWorker("box", online("cuda:0"))
			id, next := w.submit(on("box", "cuda:0")), w.submit(on("box", "cuda:0"))
			job := w.untilAway(id)
			eventually(t, "running", func() bool { return w.view(id).Status == run.Running })
			if err := w.svc.LinkLost(context.Background(), id, 1, lost(protocol.CodeWorkerDisconnected)); err != nil {
				t.Fatal(err)
			}
			reply, err := w.svc.Cancel(context.Background(), id, time.Second, false)
			if err != nil || !reply.Cancelled || reply.Status != run.Disconnected {
				t.Fatalf("cancel: %+v, %v", reply, err)
			}
			if v := w.view(id); v.StoppingDeadline != nil || v.CancelRequestedAt == nil || len(w.svc.Board().DeviceStates("box")["cuda:0"].Holders) != 1 {
				t.Errorf("waits to be cancelled: %+v", v)
			}
			if err := end(w, id, job.Row.Attempt); err != nil {
				t.Fatal(err)
			}
			if v := w.view(id); v.Status != run.Cancelled || v.EndClass != run.EndCancel {
				t.Errorf("ended %s, %s", v.Status, v.EndClass)
			}
			w.untilAway(next)
		})
	}
}

// ADP-01, ADP-03, W-05.
func TestAWorkersRunsSurviveARestart(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetWorker("box", online("cpu", "cuda:0"))
	options := on("box")
	options["device"] = "cuda"
	id, next := w.submit(options), w.submit(options)
	w.untilAway(id)
	eventually(t, "running", func() bool { return w.view(id).Status == run.Running })
	w.restart()
	job, ok := w.away.job(id)
	if !ok || job.Row.WorkerID != "box" || !slices.Equal(w.away.adopted, []string{id}) || len(w.exec.adopted) != 0 {
		t.Fatalf("adopted %v by the workers, %v here", w.away.adopted, w.exec.adopted)
	}
	if err := w.svc.LinkLost(context.Background(), id, 1, lost(protocol.CodeWorkerAdopted)); err != nil {
		t.Fatal(err)
	}
	w.svc.Board().SetWorker("box", online("cpu", "cuda:0"))
	if v := w.view(next); v.QueueReasonCode != run.ReasonSlotBusy {
		t.Errorf("the slot of an adopted run is free: %+v", v)
	}
	// It came back without the run, which had never reported.
	if err := w.svc.NeverStarted(context.Background(), id, 1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "second attempt", func() bool { return w.view(id).Attempt == 2 })
	if v := w.view(id); v.WorkerID != "box" || v.Status != run.Running {
		t.Errorf("placed again: %+v", v)
	}
}

func TestPlacedInVainGoesBackInLine(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetWorker("box", online("cpu"))
	w.away.mu.Lock()
	w.away.failWith = fmt.Errorf("box: %w", execution.ErrNotNow)
	w.away.mu.Unlock()
	id := w.submit(on("box"))
	eventually(t, "a second try", func() bool { return w.view(id).Attempt >= 2 })
	w.svc.Board().SetWorker("box", offline("cpu"))
	eventually(t, "waiting", func() bool {
		v := w.view(id)
		return v.Status == run.Queued && v.QueueReasonCode == run.ReasonWorkerOffline && v.WorkerID == ""
	})
}

// ENR-06, ERR-07: such a run has the code on its last event alone.
func TestRemoveWorkerFailsWhatWaitsForIt(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetWorker("box", board.Worker{})
	id, other := w.submit(on("box")), w.submit(on("any"))
	if err := w.svc.RemoveWorker(context.Background(), "box"); err != nil {
		t.Fatal(err)
	}
	if v := w.view(id); v.Status != run.Failed || !strings.Contains(v.Error, "box was removed") || strings.Contains(string(v.Facts), "worker_removed") {
		t.Errorf("%s, %q, facts %s", v.Status, v.Error, v.Facts)
	}
	events, err := w.st.Events(context.Background(), id, 0, 10, 1<<20)
	if err != nil || len(events) != 1 || !strings.Contains(string(events[0].Payload), `"code":"worker_removed"`) {
		t.Errorf("events %+v, %v", events, err)
	}
	w.untilStarted(other)
}

func TestRemoveWorkerFailsWhatIsOnItsWayThere(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetWorker("box", online("cpu"))
	w.away.mu.Lock()
	w.away.failWith = fmt.Errorf("box: %w", execution.ErrNotNow)
	w.away.mu.Unlock()
	id := w.submit(on("box"))
	eventually(t, "a second try", func() bool { return w.view(id).Attempt >= 2 })
	if err := w.svc.RemoveWorker(context.Background(), "box"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "failed", func() bool { return w.view(id).Status == run.Failed })
	if v := w.view(id); v.EndClass != run.EndWorkerLost || !strings.Contains(v.Error, "box was removed") {
		t.Errorf("%s, %q", v.EndClass, v.Error)
	}
}

// DSC-13, ERR-06.
func TestLateResultsAreKeptBesideTheRow(t *testing.T) {
	w := newWorld(t)
	w.svc.Board().SetWorker("box", online("cpu"))
	id := w.submit(on("box"))
	w.untilAway(id)
	ctx := context.Background()
	if err := w.svc.Lost(ctx, id, 1, execution.Loss{EndClass: run.EndWorkerLost, Text: "away", Code: protocol.CodeWorkerUnreachable, Params: map[string]any{"worker": "box"}}); err != nil {
		t.Fatal(err)
	}
	before := w.events(id)
	code := 0
	f := protocol.Finished{Status: "succeeded", Exit: protocol.Exit{Code: &code}}
	for _, from := range []struct {
		worker  string
		attempt int
	}{{"other", 1}, {"box", 2}} {
		if err := w.svc.Late(ctx, from.worker, id, from.attempt, f); err != nil {
			t.Error(err)
		}
		if strings.Contains(string(w.view(id).Facts), "late_result") {
			t.Errorf("%+v wrote a late result", from)
		}
	}
	if err := w.svc.Late(ctx, "box", id, 1, f); err != nil {
		t.Fatal(err)
	}
	var facts struct {
		ErrorReason string            `json:"error_reason"`
		ErrorParams map[string]any    `json:"error_params"`
		Late        protocol.Finished `json:"late_result"`
	}
	v := w.view(id)
	if err := json.Unmarshal(v.Facts, &facts); err != nil || facts.Late.Status != "succeeded" ||
		facts.ErrorReason != protocol.CodeWorkerUnreachable || facts.ErrorParams["worker"] != "box" {
		t.Errorf("facts %s, %v", v.Facts, err)
	}
	if v.Status != run.Interrupted || !slices.Equal(before, w.events(id)) {
		t.Errorf("the late result changed the run: %s, %v", v.Status, w.events(id))
	}
}
