package runs_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"cdui/internal/protocol"
	"cdui/internal/run"
)

func pair(w *world, devices ...string) string {
	return w.submit(map[string]any{"target": map[string]any{"devices": devices}})
}

// SET-01, SET-02, SET-06, ROLE-20: a set waits for all of its cards, holds all of them
// while it runs on the first, and frees all of them at once.
func TestASetHoldsAllOfItsCards(t *testing.T) {
	w := newWorld(t)
	single := w.submit(map[string]any{"device": "cuda:0"})
	w.untilStarted(single)
	set := pair(w, "cuda:1", "cuda:0")
	if v := w.view(set); v.Status != run.Queued || v.QueueReasonCode != run.ReasonSetWait || w.used("cuda:1") != 0 {
		t.Errorf("%s with %d on cuda:1: %s", v.Status, w.used("cuda:1"), v.QueueReasonCode)
	}
	w.exec.finish(t, single, run.Succeeded)
	w.untilStarted(set)
	job, _ := w.exec.job(set)
	if job.Row.Options.Device != "cuda:1" || !slices.Equal(job.Row.Devices, []string{"cuda:1", "cuda:0"}) {
		t.Errorf("it runs on %s of %v", job.Row.Options.Device, job.Row.Devices)
	}
	if w.used("cuda:0") != 1 || w.used("cuda:1") != 1 {
		t.Errorf("it holds %d and %d slots", w.used("cuda:0"), w.used("cuda:1"))
	}
	w.exec.finish(t, set, run.Succeeded)
	if w.used("cuda:0") != 0 || w.used("cuda:1") != 0 {
		t.Errorf("it left %d and %d slots taken", w.used("cuda:0"), w.used("cuda:1"))
	}
}

// SCHED-08, SET-03: a set at its turn keeps a card free for itself; when it is
// cancelled, who waited for that card starts without any other event.
func TestCancellingAHeadOffersTheNext(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	busy := w.submit(map[string]any{"device": "cuda:1"})
	w.untilStarted(busy)
	first, second := pair(w, "cuda:0", "cuda:1"), pair(w, "cuda:0", "cuda:1")
	behind := w.submit(map[string]any{"device": "cuda:0"})
	if v := w.view(behind); v.Status != run.Queued || w.used("cuda:0") != 0 {
		t.Fatalf("%s: the waiting set reserves nothing", v.Status)
	}
	if _, err := w.svc.Cancel(ctx, first, -1, false); err != nil {
		t.Fatal(err)
	}
	if v := w.view(second); v.QueuePosition == nil || *v.QueuePosition != 1 {
		t.Errorf("the next set is at %v", v.QueuePosition)
	}
	if _, err := w.svc.Cancel(ctx, second, -1, false); err != nil {
		t.Fatal(err)
	}
	w.untilStarted(behind)
}

// EVT-01, EVT-04, STO-01: each of a child's reports is stored once and where it
// belongs, and an event that tells of a row comes after that row.
func TestEachKindOfReportHasItsPlace(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	id := w.submit(nil)
	w.untilStarted(id)
	w.exec.send(t, id,
		protocol.Record{Type: protocol.Event, Event: run.EventNodeStatus, Payload: json.RawMessage(`{"node_id":"n","status":"running"}`)},
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":0.5,"step":1,"node_id":"n"}]`)},
		protocol.Record{Type: protocol.Artifact, Kind: "checkpoint", Path: "/models/a.pt", Meta: json.RawMessage(`{"epoch":1}`), NodeID: "n"},
		protocol.Record{Type: protocol.Warning, Kind: "odd", Meta: json.RawMessage(`{"why":"so"}`), NodeID: "n"},
	)
	events, err := w.st.Events(ctx, id, 1, 10, 1<<20)
	if err != nil || len(events) != 4 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	artifacts, err := w.st.Artifacts(ctx, id, "")
	if err != nil || len(artifacts) != 1 || artifacts[0].Kind != "checkpoint" || artifacts[0].Path != "/models/a.pt" || artifacts[0].NodeID != "n" {
		t.Fatalf("%+v, %v", artifacts, err)
	}
	var told struct {
		ID int64 `json:"artifact_id"`
	}
	if err := json.Unmarshal(events[2].Payload, &told); err != nil || told.ID != artifacts[0].ID {
		t.Errorf("the event tells of artifact %d, the row is %d", told.ID, artifacts[0].ID)
	}
	for i, want := range []string{
		`{"node_id":"n","status":"running"}`,
		`{"points":[{"name":"loss","value":0.5,"step":1,"node_id":"n"}]}`, "",
		`{"kind":"odd","why":"so","node_id":"n"}`,
	} {
		if want != "" && string(events[i].Payload) != want {
			t.Errorf("event %d is %s, want %s", i, events[i].Payload, want)
		}
	}
	w.exec.finish(t, id, run.Succeeded)
}

// ISO-09, ERR-09: what a child saw of the machine is in the facts, and the end
// of a run without target bears no code.
func TestALocalRunsEndAndFacts(t *testing.T) {
	w := newWorld(t)
	id := w.submit(map[string]any{"device": "cuda:1"})
	w.untilStarted(id)
	w.exec.send(t, id, protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{
		PID: 7, VisibleDevices: []string{"cuda:1"}, DeviceAliases: map[string]string{"cuda:0": "cuda:1"},
	}})
	w.exec.send(t, id, protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: string(run.Failed), Error: "boom", EndClass: string(run.EndUserCode)}})
	var facts struct {
		Visible []string          `json:"visible_devices"`
		Aliases map[string]string `json:"device_aliases"`
	}
	v := w.view(id)
	if err := json.Unmarshal(v.Facts, &facts); err != nil || !slices.Equal(facts.Visible, []string{"cuda:1"}) || facts.Aliases["cuda:0"] != "cuda:1" {
		t.Errorf("facts %s, %v", v.Facts, err)
	}
	events, err := w.st.Events(context.Background(), id, 1, 10, 1<<20)
	if err != nil || len(events) != 1 || string(events[0].Payload) != `{"error":"boom"}` {
		t.Errorf("%+v, %v", events, err)
	}
}
