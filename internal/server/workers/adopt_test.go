package workers_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/store"
)

// ROLE-05, ROLE-06, ENR-07: what a worker says of itself from moment to moment
// is in memory alone. After a restart the enrolled ones are there, offline, so
// that runs can name them and wait; each is online again once it connects.
func TestAfterARestartWorkersAreOfflineUntilTheyConnect(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	a := p.connect(secret, "box", nil)
	stored := func() store.Worker {
		t.Helper()
		rows, err := p.st.Workers(t.Context())
		if err != nil || len(rows) != 1 {
			t.Fatalf("%+v, %v", rows, err)
		}
		return rows[0]
	}
	eventually(t, "it takes runs", func() bool { return p.worker("box").State == api.WorkerOnline })
	// What it said of itself is kept in the background.
	eventually(t, "its devices are kept", func() bool { return len(stored().Inventory) > 0 })
	before := stored()
	free := int64(4321)
	devices := hello("box", nil).Devices
	devices[1].MemoryFreeMiB = &free
	a.send(&protocol.Heartbeat{Devices: devices})
	eventually(t, "the heartbeat is heard", func() bool {
		d := p.worker("box").Devices
		return d[1].MemoryFreeMiB != nil && *d[1].MemoryFreeMiB == free
	})
	if after := stored(); string(after.Inventory) != string(before.Inventory) {
		t.Errorf("a heartbeat is stored: %s", after.Inventory)
	}
	p.restart()
	w := p.worker("box")
	if w.State != api.WorkerOffline || w.ConnectedAt != nil || len(w.Runs) != 0 || w.Devices[1].MemoryFreeMiB != nil {
		t.Errorf("after a restart %+v", w)
	}
	id := p.submit(on("box"))
	if v := p.view(id); v.Status != run.Queued || v.QueueReasonCode != run.ReasonWorkerOffline {
		t.Errorf("a run that names it is %s, %q", v.Status, v.QueueReason)
	}
	b := p.connect(secret, "box", nil)
	b.assigned(id)
	if w := p.worker("box"); w.State != api.WorkerOnline || w.ConnectedAt == nil {
		t.Errorf("once it is back %+v", w)
	}
}

// DSC-06, W-04, ADP-03, ADP-05, ADP-09: an acknowledgement means that metrics
// and number are on disk. A control plane that stops leaves the run alone, how
// often it may; the next one holds the slots for it, and a worker that was let
// in by the session token is there unlisted until it connects.
func TestARunOfAnUnlistedWorkerIsAdopted(t *testing.T) {
	p := newPlane(t, nil)
	a := p.connect(sessionToken, "mine", nil)
	id := p.submit(map[string]any{"target": map[string]any{"worker": "mine", "devices": []string{"cuda:0"}}})
	as := a.assigned(id)
	points := json.RawMessage(`[{"name":"loss","value":0.5,"step":1},{"name":"loss","value":0.25,"step":2}]`)
	a.report(as, 1, started(), protocol.Record{Type: protocol.Metrics, Points: points})
	a.ackedTo(as, 2)
	for range 2 {
		p.restart()
		v := p.until(id, run.Disconnected)
		if holders := p.svc.Board().DeviceStates("mine")["cuda:0"].Holders; len(holders) != 1 || holders[0].RunID != id || v.Attempt != 1 {
			t.Errorf("the slot is held by %v, attempt %d", holders, v.Attempt)
		}
		if list := p.reg.List(t.Context()); len(list) != 0 {
			t.Errorf("listed %+v", list)
		}
		stored := p.points(id)
		if !slices.Equal(stored, []float64{0.5, 0.25}) {
			t.Errorf("stored of what was acknowledged: %v", stored)
		}
	}
	b := p.dial(dialing{token: sessionToken})
	b.send(hello("mine", func(h *protocol.Hello) { h.HeldRuns = 1 }))
	if w := take[*protocol.Welcome](b); !slices.Equal(w.Runs, []protocol.HeldRun{{RunID: id, Attempt: 1, RecordedSeq: 2}}) {
		t.Errorf("welcome lists %+v", w.Runs)
	}
	b.send(&protocol.RunAlive{Runs: []protocol.AliveRun{alive(as)}})
	p.until(id, run.Running)
	if w := p.worker("mine"); w.State != api.WorkerOnline || !slices.Equal(w.Runs, []string{id}) {
		t.Errorf("once it is back %+v", w)
	}
	// ADP-04: it is told of nothing but the end of its records.
	b.report(as, 3, finished(run.Succeeded))
	b.ackedTo(as, 3)
	p.until(id, run.Succeeded)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.frames {
		if _, again := f.(*protocol.Assign); again {
			t.Error("it was assigned again")
		}
	}
}

// points gives the values of a run's metrics as they are stored.
func (p *plane) points(id string) []float64 {
	p.t.Helper()
	events, err := p.st.Events(context.Background(), id, 0, 100, 1<<20)
	if err != nil {
		p.t.Fatal(err)
	}
	var out []float64
	for _, e := range events {
		var payload struct {
			Points []struct {
				Value float64 `json:"value"`
			} `json:"points"`
		}
		if e.Type != run.EventMetric {
			continue
		}
		if err := json.Unmarshal(e.Payload, &payload); err != nil {
			p.t.Fatal(err)
		}
		for _, point := range payload.Points {
			out = append(out, point.Value)
		}
	}
	return out
}

// SEC-02, SEC-03, SEC-04: the credential may come in a header or in the
// address; it is a worker's own, or from this machine the session token.
func TestWhereACredentialMayStand(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	for name, c := range map[string]struct {
		dialing
		says string
	}{
		"a worker's, header":        {dialing{token: secret}, "box"},
		"a worker's, address":       {dialing{query: secret}, "box"},
		"the session's, header":     {dialing{token: sessionToken}, "mine"},
		"the session's, address":    {dialing{query: sessionToken}, "mine"},
		"a header before the other": {dialing{token: secret, query: "nonsense"}, "box"},
	} {
		a := p.dial(c.dialing)
		a.send(hello(c.says, nil))
		if w := take[*protocol.Welcome](a); w.WorkerID != c.says {
			t.Errorf("%s: welcomed as %q", name, w.WorkerID)
		}
	}
	if code := p.dial(dialing{query: "nonsense"}).ended(); code != protocol.CloseUnauthorized {
		t.Errorf("nonsense in the address: closed with %d", code)
	}
}

// SEC-11, ISO-07, C.9: a worker gets the graph as it was submitted, with secret
// values and with the devices of its nodes, which mean the run's own there. The
// database holds no secret.
func TestAGraphReachesItsWorkerUnchanged(t *testing.T) {
	p := newPlane(t, nil)
	p.catalog = withSecret(t)
	p.restart()
	types, err := p.catalog.Hashes()
	if err != nil {
		t.Fatal(err)
	}
	a := p.connect(p.enrolled("box"), "box", func(h *protocol.Hello) {
		h.Catalog = &protocol.Catalog{Hash: "h", Types: types}
	})
	graph := json.RawMessage(`{"nodes":[{"id":"s","type":"Start","data":{"params":{}}},
	 {"id":"v","type":"Vault","data":{"params":{"key":"hunter2-value"}}},
	 {"id":"l","type":"ModelLoader","data":{"params":{"path":"m.pt","device":"cuda"}}}],
	 "edges":[{"id":"t","source":"s","target":"v","type":"trigger"},{"id":"u","source":"s","target":"l","type":"trigger"}]}`)
	replies, err := p.svc.Submit(context.Background(), "", api.SubmitRequest{
		Graph: graph, Options: json.RawMessage(`{"target":{"worker":"box","devices":["cuda:0"]}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	as := a.assigned(replies[0].RunID)
	var prepared struct {
		Nodes []struct {
			ID     string         `json:"id"`
			Params map[string]any `json:"params"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(as.Graph.Prepared, &prepared); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]any{}
	for _, n := range prepared.Nodes {
		got[n.ID] = n.Params
	}
	if got["v"]["key"] != "hunter2-value" || got["l"]["device"] != "cuda" || !slices.Equal(as.Devices, []string{"cuda:0"}) {
		t.Errorf("assigned %s on %v", as.Graph.Prepared, as.Devices)
	}
	a.report(as, 1, started(), finished(run.Succeeded))
	a.ackedTo(as, 2)
	p.until(as.RunID, run.Succeeded)
	files, err := filepath.Glob(filepath.Join(p.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if raw, err := os.ReadFile(f); err != nil || strings.Contains(string(raw), "hunter2") {
			t.Errorf("%s holds the secret, or can't be read: %v", f, err)
		}
	}
}

// withSecret is the built-in catalogue with a type that has a secret param.
func withSecret(t *testing.T) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	cat, problems := cat.With([]catalog.Definition{{
		NodeName: "Vault", Category: "test", Params: []catalog.Param{{Name: "key", ParamType: catalog.ParamSecret}},
	}}, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return cat
}

// CAT-06, REF-06: a worker that is known to lack node types of a graph is refused at
// submit; one that turns out to lack them when it connects is not given the run.
func TestAWorkerMustKnowTheNodesOfItsGraph(t *testing.T) {
	p := newPlane(t, nil)
	graph := json.RawMessage(`{"nodes":[{"id":"s","type":"Start","data":{"params":{}}},{"id":"c","type":"TensorCreate","data":{"params":{"shape":"2,2"}}}],
	 "edges":[{"id":"t","source":"s","target":"c","type":"trigger"}]}`)
	submit := func() (string, error) {
		replies, err := p.svc.Submit(context.Background(), "", api.SubmitRequest{Graph: graph, Options: json.RawMessage(`{"target":{"worker":"box"}}`)})
		if err != nil {
			return "", err
		}
		return replies[0].RunID, nil
	}
	secret := p.enrolled("box")
	waits, err := submit()
	if err != nil {
		t.Fatal(err)
	}
	lacks := func(h *protocol.Hello) {
		h.Catalog = &protocol.Catalog{Hash: "of its own", Types: map[string]string{"Start": "x"}}
	}
	a := p.connect(secret, "box", lacks)
	v := p.until(waits, run.Failed)
	if v.EndClass != run.EndBadGraph || !strings.Contains(v.Error, "TensorCreate") {
		t.Errorf("%s %q", v.EndClass, v.Error)
	}
	eventually(t, "it is known to lack types", func() bool { return p.worker("box").Degraded })
	_, err = submit()
	if api.CodeOf(err) != api.Invalid || !strings.Contains(err.Error(), "worker box doesn't know the node types TensorCreate") {
		t.Errorf("submitted: %v", err)
	}
	a.cut()
}
