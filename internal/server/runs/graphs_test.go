package runs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"cdui/internal/api"
	"cdui/internal/run"
)

const secretGraph = `{"nodes":[{"id":"start","type":"Start"},{"id":"x","type":"Mystery","data":{"params":{"key":"hunter2-value"}}}],
 "edges":[{"source":"start","target":"x","sourceHandle":"trigger","type":"trigger"}],"settings":{"device":"cpu","seed":7}}`

func (w *world) submitGraph(options string) string {
	w.t.Helper()
	replies, err := w.svc.Submit(context.Background(), "", api.SubmitRequest{Graph: json.RawMessage(secretGraph), Options: json.RawMessage(options), Cwd: "/tmp"})
	if err != nil {
		w.t.Fatal(err)
	}
	return replies[0].RunID
}

// onDisk tells whether any file of the world holds text.
func (w *world) onDisk(text string) bool {
	w.t.Helper()
	found := false
	err := filepath.Walk(w.dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		found = found || bytes.Contains(raw, []byte(text))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// A.10, A.1: the snapshot is scrubbed and keeps of the settings the device alone.
func TestSecretsAreNeverOnDisk(t *testing.T) {
	w := newWorld(t)
	id := w.submitGraph(`{}`)
	w.untilStarted(id)
	job, _ := w.exec.job(id)
	if !bytes.Contains(job.Row.Graph, []byte("hunter2-value")) {
		t.Errorf("the executor was not handed the secret: %s", job.Row.Graph)
	}
	stored, err := w.st.Graph(context.Background(), id)
	if err != nil || bytes.Contains(stored, []byte("hunter2")) || bytes.Contains(stored, []byte(`"seed"`)) {
		t.Errorf("stored graph %s, %v", stored, err)
	}
	if w.onDisk("hunter2-value") {
		t.Error("the secret is on disk")
	}
	w.exec.finish(t, id, run.Succeeded)
}

// P-05, A.10: the vault does not survive a restart.
func TestWaitingRunsWithSecretsEndWithARestart(t *testing.T) {
	w := newWorld(t)
	held := w.submitGraph(`{"hold":true}`)
	plain := w.submit(map[string]any{"hold": true})
	w.restart()
	if v := w.view(held); v.Status != run.Interrupted || v.EndClass != run.EndServer || v.Error == "" || v.StartedAt != nil {
		t.Errorf("with secrets: %s %s %q", v.Status, v.EndClass, v.Error)
	}
	if v := w.view(plain); v.Status != run.Queued {
		t.Errorf("without: %s", v.Status)
	}
	if got := w.events(held); len(got) != 1 || got[0] != run.EventExecutionStopped {
		t.Errorf("events %v", got)
	}
}

// R-08, E, P-05: two at once, no slot taken, refusals immediate.
func TestTheInteractiveLaneStartsAtOnceOrNotAtAll(t *testing.T) {
	w := newWorld(t)
	a, b := w.submitGraph(`{"lane":"interactive"}`), w.submitGraph(`{"lane":"interactive"}`)
	w.untilStarted(a, b)
	_, err := w.svc.Submit(context.Background(), "", api.SubmitRequest{Graph: json.RawMessage(secretGraph), Options: json.RawMessage(`{"lane":"interactive"}`)})
	if api.CodeOf(err) != api.Unavailable {
		t.Errorf("a third one: %v", err)
	}
	if w.used("cpu") != 0 {
		t.Error("the interactive lane took a slot")
	}
	w.exec.finish(t, a, run.Succeeded)
	w.restart()
	if v := w.view(b); v.Status != run.Interrupted {
		t.Errorf("after a restart: %s", v.Status)
	}
	if len(w.exec.adopted) != 0 {
		t.Errorf("adopted %v", w.exec.adopted)
	}
}

// Proves C.9.
func TestAGraphForAnotherMachinesCardRunsOnTheCPU(t *testing.T) {
	w := newWorld(t)
	graph := json.RawMessage(`{"nodes":[{"id":"s","type":"Start"}],"edges":[],"settings":{"device":"cuda:7"}}`)
	replies, err := w.svc.Submit(context.Background(), "", api.SubmitRequest{Graph: graph})
	if err != nil || replies[0].QueueKey != "cpu" {
		t.Errorf("%+v, %v", replies, err)
	}
}
