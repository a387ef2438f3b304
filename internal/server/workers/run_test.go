package workers_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/workers"
)

// ROLE-08, ROLE-10, ISO-11: one assignment goes out, and what comes back is the
// run's record, its end and the most memory that it held.
func TestARunOnAWorker(t *testing.T) {
	p := newPlane(t, nil)
	a := p.connect(p.enrolled("box"), "box", nil)
	options := on("box")
	options["device"] = "cuda"
	id := p.submit(options)
	as := a.assigned(id)
	if as.Kind != protocol.KindCommand || as.Device != "cuda:0" || !slices.Equal(as.Devices, []string{"cuda:0"}) || as.Attempt != 1 || as.GraceS != 30 {
		t.Errorf("assignment %+v", as)
	}
	a.report(as, 1, started(), note("one"))
	a.ackedTo(as, 2)
	if v := p.view(id); v.Status != run.Running || v.WorkerID != "box" || v.PID == nil || *v.PID != 7 {
		t.Errorf("running: %+v", v)
	}
	if w := p.worker("box"); w.State != api.WorkerOnline || !slices.Equal(w.Runs, []string{id}) || w.Devices[1].Slots.Used != 1 || w.Devices[1].Slots.Cap != 1 {
		t.Errorf("the worker's row: %+v", w)
	}
	end := finished(run.Succeeded)
	end.Finished.PeakMemory = map[string]protocol.PeakMemory{"cuda:0": {MiB: 512, Exact: true}}
	a.report(as, 3, end)
	a.ackedTo(as, 3)
	if v := p.until(id, run.Succeeded); !strings.Contains(string(v.Facts), `"peak_memory":{"cuda:0":{"mib":512,"exact":true}}`) {
		t.Errorf("facts %s", v.Facts)
	}
	if got := p.log(id); !slices.Equal(got, []string{"execution_start", "run_warning one", "execution_complete"}) {
		t.Errorf("log %v", got)
	}
	if w := p.worker("box"); len(w.Runs) != 0 {
		t.Errorf("it still has %v", w.Runs)
	}
}

// DSC-05, W-04.
func TestAcksComeEvery64RecordsOrAfterASecond(t *testing.T) {
	p := newPlane(t, nil)
	a := p.connect(p.enrolled("box"), "box", nil)
	as := a.assigned(p.submit(on("box")))
	a.report(as, 1, started())
	a.ackedTo(as, 1) // by the clock
	many := make([]protocol.Record, 200)
	for i := range many {
		many[i] = note("n")
	}
	a.report(as, 2, many...)
	a.ackedTo(as, 201)
}

// TestP1ABreakOfTheLinkEndsNoRun: DSC-10, ADP-03, ADP-06, ERR-03: cuts the link in the middle of a run, with and
// without a restart of the control plane meanwhile: the run is disconnected,
// comes back, and no record is lost or doubled.
func TestP1ABreakOfTheLinkEndsNoRun(t *testing.T) {
	for name, restart := range map[string]bool{"the control plane stays": false, "the control plane is restarted": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t, nil)
			secret := p.enrolled("box")
			a := p.connect(secret, "box", nil)
			id := p.submit(on("box"))
			as := a.assigned(id)
			a.report(as, 1, started(), note("one"), note("two"))
			a.ackedTo(as, 3)
			warned := "run_warning worker_disconnected"
			if restart {
				p.restart()
				warned = "run_warning worker_adopted"
			} else {
				a.cut()
			}
			v := p.until(id, run.Disconnected)
			if w := p.worker("box"); w.State != api.WorkerDisconnected || !slices.Equal(w.Runs, []string{id}) || w.ResumeUntil == nil {
				t.Errorf("meanwhile the worker is %+v", w)
			}
			if v.Attempt != 1 || len(p.svc.Board().DeviceStates("box")["cpu"].Holders) != 1 {
				t.Errorf("meanwhile: attempt %d, slots %v", v.Attempt, p.svc.Board().DeviceStates("box"))
			}

			b := p.dial(dialing{token: secret})
			b.send(hello("box", func(h *protocol.Hello) { h.HeldRuns = 1 }))
			w := take[*protocol.Welcome](b)
			if len(w.Runs) != 1 || w.Runs[0] != (protocol.HeldRun{RunID: id, Attempt: 1, RecordedSeq: 3}) {
				t.Errorf("welcome lists %+v", w.Runs)
			}
			b.send(&protocol.RunAlive{Runs: []protocol.AliveRun{alive(as)}})
			p.until(id, run.Running)
			// Two of these were recorded before the cut.
			b.report(as, 2, note("one"), note("two"), note("three"), finished(run.Succeeded))
			b.ackedTo(as, 5)
			p.until(id, run.Succeeded)
			want := []string{
				"execution_start", "run_warning one", "run_warning two", warned, "run_warning worker_reconnected",
				"run_warning three", "execution_complete",
			}
			if got := p.log(id); !slices.Equal(got, want) {
				t.Errorf("log\n%v, want\n%v", got, want)
			}
		})
	}
}

// TestP1BeyondTheGrace: CAN-05, DSC-13, ERR-03, ERR-04, ERR-06: the run is interrupted, its slots are free, and what
// the worker reports later is kept beside the row.
func TestP1BeyondTheGrace(t *testing.T) {
	for name, c := range map[string]struct {
		restart     bool
		code, cause string
	}{
		"after a cut":     {false, protocol.CodeWorkerUnreachable, protocol.CauseNoReconnect},
		"after a restart": {true, protocol.CodeWorkerLostAfterRestart, protocol.CauseNoReconnectAfterRestart},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t, func(c *workers.Config) { c.ResumeGrace = 300 * time.Millisecond })
			secret := p.enrolled("box")
			a := p.connect(secret, "box", nil)
			id := p.submit(on("box"))
			as := a.assigned(id)
			a.report(as, 1, started())
			a.ackedTo(as, 1)
			a.cut()
			if c.restart {
				p.restart()
			}
			v := p.until(id, run.Interrupted)
			var facts struct {
				Reason string `json:"error_reason"`
				Params struct {
					Worker string           `json:"worker"`
					Reason protocol.Problem `json:"reason"`
				} `json:"error_params"`
				Late *protocol.Finished
			}
			if err := json.Unmarshal(v.Facts, &facts); err != nil || facts.Reason != c.code || facts.Params.Worker != "box" || v.EndClass != run.EndWorkerLost {
				t.Errorf("facts %s, %v", v.Facts, err)
			}
			if r := facts.Params.Reason; r.Code != c.cause || r.Params["seconds"] != 0.3 || r.Text == "" {
				t.Errorf("the cause is %+v", r)
			}
			if w := p.worker("box"); w.State != api.WorkerOffline || len(p.svc.Board().DeviceStates("box")["cpu"].Holders) != 0 {
				t.Errorf("the worker is %s, its slots %v", w.State, p.svc.Board().DeviceStates("box"))
			}
			before := p.log(id)

			b := p.connect(secret, "box", nil, alive(as))
			if cancel := take[*protocol.Cancel](b); cancel.RunID != id || cancel.GraceS == nil || *cancel.GraceS != 0 {
				t.Errorf("the stray is told %+v", cancel)
			}
			b.report(as, 2, note("late"), finished(run.Succeeded))
			b.ackedTo(as, 3)
			if v := p.view(id); !strings.Contains(string(v.Facts), `"late_result"`) || v.Status != run.Interrupted {
				t.Errorf("late: %s, %s", v.Status, v.Facts)
			}
			if got := p.log(id); !slices.Equal(got, before) {
				t.Errorf("events follow the end: %v", got)
			}
		})
	}
}

// TestW05WhatTheWorkerDoesNotList: an assignment that got lost is made again as
// the next attempt; a run that had reported is interrupted at once.
func TestW05WhatTheWorkerDoesNotList(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	a := p.connect(secret, "box", nil)
	fresh := p.submit(on("box"))
	a.assigned(fresh)
	reported := p.submit(on("box"))
	as := a.assigned(reported)
	a.report(as, 1, started())
	a.ackedTo(as, 1)
	a.cut()
	p.until(fresh, run.Disconnected)
	b := p.connect(secret, "box", func(h *protocol.Hello) { h.Nonce = "after a reboot" })
	again := take[*protocol.Assign](b)
	if again.RunID != fresh || again.Attempt != 2 {
		t.Errorf("assigned %s, attempt %d", again.RunID, again.Attempt)
	}
	v := p.until(reported, run.Interrupted)
	if !strings.Contains(string(v.Facts), protocol.CodeWorkerGone) {
		t.Errorf("facts %s", v.Facts)
	}
	// The first attempt turns up after all: it is a stray.
	b.send(&protocol.Frames{Runs: []protocol.RunRecords{{RunID: fresh, Attempt: 1, Records: []json.RawMessage{record(t, 1, started())}}}})
	if cancel := take[*protocol.Cancel](b); cancel.RunID != fresh || cancel.Attempt != 1 {
		t.Errorf("the old copy is told %+v", cancel)
	}
}

// R-04, ROLE-10: a cancel is forwarded, and said again to a worker that was
// away.
func TestCancelReachesAWorkerThatIsAway(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	a := p.connect(secret, "box", nil)
	id := p.submit(on("box"))
	as := a.assigned(id)
	if _, err := p.svc.Cancel(context.Background(), id, 5*time.Second, false); err != nil {
		t.Fatal(err)
	}
	if c := take[*protocol.Cancel](a); c.RunID != id || c.Attempt != 1 || *c.GraceS != 5 {
		t.Errorf("told %+v", c)
	}
	a.report(as, 1, started())
	a.ackedTo(as, 1)
	a.cut()
	p.until(id, run.Disconnected)
	for range 2 { // in this life of the control plane, and in the next
		b := p.connect(secret, "box", nil, alive(as))
		if c := take[*protocol.Cancel](b); c.RunID != id {
			t.Errorf("told again %+v", c)
		}
		b.cut()
		p.until(id, run.Disconnected)
		p.restart()
	}
	b := p.connect(secret, "box", nil, alive(as))
	b.report(as, 2, finished(run.Cancelled))
	b.ackedTo(as, 2)
	p.until(id, run.Cancelled)
}

func TestAnAssignmentThatIsTurnedDownForNowGoesBackInLine(t *testing.T) {
	p := newPlane(t, nil)
	a := p.connect(p.enrolled("box"), "box", nil)
	id := p.submit(on("box"))
	as := a.assigned(id)
	refuse := protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: "failed", Code: protocol.RefuseDraining, Error: "draining"}}
	a.send(&protocol.Heartbeat{Draining: true, Devices: hello("box", nil).Devices})
	a.report(as, 1, refuse)
	v := p.until(id, run.Queued)
	if v.QueueReasonCode != run.ReasonWorkerDraining {
		t.Errorf("waits for %s", v.QueueReason)
	}
	a.send(&protocol.Heartbeat{Devices: hello("box", nil).Devices})
	as = a.assigned(id)
	if as.Attempt != 2 {
		t.Errorf("attempt %d", as.Attempt)
	}
	a.report(as, 1, protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: "failed", Code: protocol.RefuseDeviceNotOffered, Error: "no such card"}})
	if v := p.until(id, run.Failed); v.Error != "no such card" {
		t.Errorf("failed with %q", v.Error)
	}
}

func TestAnAssignmentBeyondOneFrameTravelsInParts(t *testing.T) {
	p := newPlane(t, nil)
	a := p.connect(p.enrolled("box"), "box", nil)
	big := strings.Repeat("x", protocol.MaxFrameBytes+100)
	graph, err := json.Marshal(map[string]any{
		"nodes": []any{
			map[string]any{"id": "s", "type": "Start", "data": map[string]any{}},
			map[string]any{"id": "t", "type": "TextInput", "data": map[string]any{"params": map[string]any{"value": big}}},
		},
		"edges": []any{map[string]any{"id": "e", "source": "s", "target": "t", "type": "trigger"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	replies, err := p.svc.Submit(context.Background(), "", api.SubmitRequest{Graph: graph, Options: json.RawMessage(`{"target":{"worker":"box"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	as := a.assigned(replies[0].RunID)
	if as.Kind != protocol.KindGraph || !strings.Contains(string(as.Graph.Prepared), big) {
		t.Errorf("a graph of %d bytes arrived", len(as.Graph.Prepared))
	}
}
