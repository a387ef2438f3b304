package httpapi_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// D.2: the keys of a row, its page, and how ids and times are written.
func TestARowHasTheKeysOfTheFormat(t *testing.T) {
	w := newSite(t)
	id := w.submit(`,"seed":3`)
	w.report(id, 1,
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":0.5,"step":1},{"name":"loss","value":null,"nonfinite":"nan","step":2}]`)},
		finished(run.Succeeded))
	keys := []string{
		"id", "name", "options", "status", "error", "queue_key", "created_at", "started_at", "finished_at", "git_commit", "git_dirty", "plugin_pins",
		"sweep_id", "sweep_variant", "execution_facts", "worker_id", "devices", "fingerprint_digest", "queue_reason", "queue_reason_code",
		"queue_reason_params", "queue_position", "active", "final_metrics",
	}
	_, raw := w.request("GET", "/api/runs/"+id, "")
	row := object(t, raw)
	for _, key := range append(keys, "last_cursor") {
		if _, ok := row[key]; !ok {
			t.Errorf("the row lacks %s", key)
		}
	}
	if _, ok := row["graph"]; ok {
		t.Error("the row shows the graph")
	}
	if string(row["id"]) != `"`+id+`"` || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		t.Errorf("id %s", row["id"])
	}
	if string(row["final_metrics"]) != `{"loss":0.5}` || string(row["active"]) != "false" || string(row["queue_position"]) != "null" {
		t.Errorf("final metrics %s, active %s, position %s", row["final_metrics"], row["active"], row["queue_position"])
	}
	var created string
	if err := json.Unmarshal(row["created_at"], &created); err != nil {
		t.Fatal(err)
	}
	if at, err := time.Parse(time.RFC3339Nano, created); err != nil || at.Location() != time.UTC {
		t.Errorf("created_at %s, %v", created, err)
	}

	_, raw = w.request("GET", api.PathRuns+"?limit=1", "")
	page := object(t, raw)
	if string(page["total"]) != "1" || string(page["limit"]) != "1" || string(page["offset"]) != "0" {
		t.Errorf("page %s", raw)
	}
	var rows []map[string]json.RawMessage
	if err := json.Unmarshal(page["runs"], &rows); err != nil || len(rows) != 1 {
		t.Fatalf("%s, %v", page["runs"], err)
	}
	for _, key := range keys {
		if _, ok := rows[0][key]; !ok {
			t.Errorf("a row of the list lacks %s", key)
		}
	}
}

func object(t *testing.T, raw []byte) map[string]json.RawMessage {
	t.Helper()
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return doc
}

// D.5: the keys of what is read of a run beside its row, and what a cancel and
// a delete answer.
func TestReadsOfARunHaveTheKeysOfTheFormat(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	w.report(id, 1,
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":0.5,"step":1}]`)},
		protocol.Record{Type: protocol.Artifact, Kind: "checkpoint", Path: "/a.pt"},
		protocol.Record{Type: protocol.Artifact, Kind: "image", Path: "/b.png"},
		finished(run.Succeeded))
	has := func(what string, raw []byte, keys ...string) map[string]json.RawMessage {
		t.Helper()
		doc := object(t, raw)
		for _, key := range keys {
			if _, ok := doc[key]; !ok {
				t.Errorf("%s lacks %s: %s", what, key, raw)
			}
		}
		return doc
	}
	first := func(list json.RawMessage) json.RawMessage {
		t.Helper()
		var all []json.RawMessage
		if err := json.Unmarshal(list, &all); err != nil || len(all) == 0 {
			t.Fatalf("%s, %v", list, err)
		}
		return all[0]
	}
	_, raw := w.request("GET", "/api/runs/"+id+"/events?cursor=1&limit=2", "")
	events := has("events", raw, "run_id", "status", "active", "events", "cursor")
	if string(events["cursor"]) != "3" {
		t.Errorf("a page of two after the first ends at %s", events["cursor"])
	}
	has("an event", first(events["events"]), "cursor", "type", "payload", "ts")
	_, raw = w.request("GET", "/api/runs/"+id+"/metrics", "")
	metrics := has("metrics", raw, "run_id", "names", "metrics")
	has("a metric", first(metrics["metrics"]), "node_id", "name", "step", "value", "ts")
	_, raw = w.request("GET", "/api/runs/"+id+"/artifacts?kind=image", "")
	artifact := has("an artifact", first(has("artifacts", raw, "artifacts")["artifacts"]), "id", "kind", "path", "meta", "created_at", "backend")
	if string(artifact["path"]) != `"/b.png"` {
		t.Errorf("of kind image: %s", raw)
	}
	code, raw := w.post("/api/runs/"+id+"/cancel", "")
	if reply := has("a cancel", raw, "run_id", "status", "cancelled"); code != 200 || string(reply["cancelled"]) != "false" {
		t.Errorf("cancel of an ended run: %d %s", code, raw)
	}
	if code, _ = w.post("/api/runs/"+strings.Repeat("f", 32)+"/cancel", ""); code != 404 {
		t.Errorf("cancel of no run: %d", code)
	}
}

// D.3, D.4, R-02: one terminal event, the last one, and nothing after it, even
// when a child goes on telling.
func TestNothingFollowsTheEnd(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	w.report(id, 1, protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":0.5,"step":1}]`)}, finished(run.Failed))
	_, raw := w.request("GET", "/api/runs/"+id+"/events", "")
	var page api.Events
	if err := json.Unmarshal(raw, &page); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range page.Events {
		types = append(types, e.Type)
	}
	if !slices.Equal(types, []string{run.EventExecutionStart, run.EventMetric, run.EventExecutionError}) {
		t.Errorf("events %v", types)
	}
	if code, _ := w.post("/api/runs/"+id+"/cancel", ""); code != 200 {
		t.Errorf("cancel: %d", code)
	}
	_, raw = w.request("GET", "/api/runs/"+id+"/events?cursor=3", "")
	if err := json.Unmarshal(raw, &page); err != nil || len(page.Events) != 0 || page.Status != run.Failed || page.Active {
		t.Errorf("after the end: %s", raw)
	}
}
