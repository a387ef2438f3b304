package workers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cdui/internal/protocol"
	"cdui/internal/run"
)

// factsOf reads where a run's fingerprint came from.
func factsOf(t *testing.T, raw json.RawMessage) (source string, numeric json.RawMessage) {
	t.Helper()
	var f struct {
		Source  string          `json:"fingerprint_source"`
		Numeric json.RawMessage `json:"numeric"`
		Doc     json.RawMessage `json:"fingerprint"`
		Node    json.RawMessage `json:"node_source"`
	}
	if err := json.Unmarshal(raw, &f); err != nil || f.Doc != nil || f.Node != nil {
		t.Fatalf("%s, %v", raw, err)
	}
	return f.Source, f.Numeric
}

// CAT-07, CAT-08, CAT-09, FRM-06: a run begins with what its worker told of its
// environment and ends with what its own child did; the digests are computed
// here.
func TestARunKnowsWhatItWasExecutedWith(t *testing.T) {
	p := newPlane(t, nil)
	own := json.RawMessage(`{"python":{"version":"3.11.2"},"cores":8}`)
	a := p.connect(p.enrolled("box"), "box", func(h *protocol.Hello) {
		h.Fingerprint = own
		h.Capabilities = append(h.Capabilities, protocol.CapRunFacts)
	})
	digest, canonical, _ := run.Fingerprint(own)
	as := a.assigned(p.submit(on("box")))
	if as.FingerprintDigest != digest {
		t.Errorf("the assignment names %q, not %q", as.FingerprintDigest, digest)
	}
	eventually(t, "document of the worker", func() bool {
		doc, err := p.st.Fingerprint(t.Context(), digest)
		return err == nil && string(doc) == string(canonical)
	})
	v := p.view(as.RunID)
	if source, _ := factsOf(t, v.Facts); v.FingerprintDigest != digest || source != "worker" {
		t.Errorf("placed: %q from %q", v.FingerprintDigest, source)
	}
	if rows, err := p.st.Workers(t.Context()); err != nil || rows[0].FingerprintDigest != digest {
		t.Errorf("%+v, %v", rows, err)
	}
	theirs, theirDoc, _ := run.Fingerprint(json.RawMessage(`{"a":{"y":1,"x":2}}`))
	facts := func(format string, args ...any) protocol.Record {
		return protocol.Record{Type: protocol.RunFacts, Facts: json.RawMessage(fmt.Sprintf(format, args...))}
	}
	a.report(as, 1, started(),
		facts(`{"fingerprint":{"a":{"y":1,"x":2}},"numeric":{"threads":4}}`),
		facts(`{"node_source":{"name":"Linear","source":"class Linear"}}`),
		facts(`{"node_source":{"name":"Adam","source":"class Adam"}}`),
		// None of these is what it says, and none does harm.
		facts(`{"fingerprint":[1],"node_source":{"name":""}}`), facts(`{"node_source":"Adam"}`),
		facts(`{"node_source":{"name":%q}}`, strings.Repeat("x", 300)), facts(`"fingerprint"`),
	)
	a.ackedTo(as, 8)
	a.report(as, 9, finished(run.Succeeded))
	v = p.until(as.RunID, run.Succeeded)
	source, numeric := factsOf(t, v.Facts)
	if v.FingerprintDigest != theirs || source != "worker-run" || string(numeric) != `{"threads":4}` {
		t.Errorf("ended: %q from %q, numeric %s", v.FingerprintDigest, source, numeric)
	}
	if doc, err := p.st.Fingerprint(t.Context(), theirs); err != nil || string(doc) != string(theirDoc) {
		t.Errorf("%s, %v", doc, err)
	}
	sources, err := p.st.Sources(t.Context(), as.RunID)
	if err != nil || len(sources) != 2 || sources[0].Name != "Adam" || sources[1].Name != "Linear" {
		t.Errorf("%+v, %v", sources, err)
	}
}

// CAT-08: facts that come with the very end count too.
func TestAFingerprintMayComeWithTheEnd(t *testing.T) {
	p := newPlane(t, nil)
	a := p.connect(p.enrolled("box"), "box", nil)
	as := a.assigned(p.submit(on("box")))
	digest, _, _ := run.Fingerprint(json.RawMessage(`{"a":1}`))
	a.report(as, 1, started(), protocol.Record{Type: protocol.RunFacts, Facts: json.RawMessage(`{"fingerprint":{"a":1}}`)}, finished(run.Succeeded))
	v := p.until(as.RunID, run.Succeeded)
	if source, _ := factsOf(t, v.Facts); v.FingerprintDigest != digest || source != "worker-run" {
		t.Errorf("%q from %q", v.FingerprintDigest, source)
	}
}
