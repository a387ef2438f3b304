package httpapi_test

import (
	"encoding/json"
	"testing"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// CAT-08, CAT-09: what a run was executed with and made of is read over the API.
func TestFingerprintAndProvenanceAreRead(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	if code, raw := w.request("GET", "/api/runs/"+id+"/fingerprint", ""); code != 404 {
		t.Errorf("before it is told: %d %s", code, raw)
	}
	w.report(id, 1,
		protocol.Record{Type: protocol.RunFacts, Facts: json.RawMessage(`{"fingerprint":{"b":2,"a":1}}`)},
		protocol.Record{Type: protocol.RunFacts, Facts: json.RawMessage(`{"node_source":{"name":"Linear","sha256":"s"}}`)},
		finished(run.Succeeded))
	var found api.Fingerprint
	code, raw := w.request("GET", "/api/runs/"+id[:8]+"/fingerprint", "")
	digest, doc, _ := run.Fingerprint(json.RawMessage(`{"a":1,"b":2}`))
	if err := json.Unmarshal(raw, &found); err != nil || code != 200 || found.RunID != id || found.Digest != digest ||
		found.Source != "run" || string(found.Document) != string(doc) {
		t.Errorf("%d %s, %v", code, raw, err)
	}
	var made api.Provenance
	code, raw = w.request("GET", "/api/runs/"+id+"/provenance", "")
	if err := json.Unmarshal(raw, &made); err != nil || code != 200 || len(made.Sources) != 1 || string(made.Sources[0]) != `{"name":"Linear","sha256":"s"}` {
		t.Errorf("%d %s, %v", code, raw, err)
	}
	for _, part := range []string{"fingerprint", "provenance"} {
		if code, raw := w.request("GET", "/api/runs/nothing/"+part, ""); code != 404 {
			t.Errorf("of no run: %d %s", code, raw)
		}
	}
	if code, raw = w.request("GET", "/api/runs/"+w.submit("")+"/provenance", ""); code != 200 || !json.Valid(raw) {
		t.Errorf("without sources: %d %s", code, raw)
	}
}
