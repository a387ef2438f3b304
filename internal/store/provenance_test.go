package store_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"cdui/internal/run"
	"cdui/internal/store"
)

// CAT-07, CAT-09: documents are kept once; sources belong to their run and go
// with it.
func TestWhatRunsWereExecutedWithIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	ctx := t.Context()
	first := store.Fingerprint{Digest: "d1", Document: json.RawMessage(`{"a":1}`)}
	if err := s.KeepFingerprint(ctx, first); err != nil {
		t.Fatal(err)
	}
	apply(t, s, store.Change{Insert: newRow(1)}, store.Change{Insert: newRow(2)})
	digest := "d1"
	for range 2 { // the second time, as when records come again
		apply(t, s, store.Change{
			RunID: runID(1), Patch: &store.Patch{FingerprintDigest: &digest}, Fingerprint: &first,
			Sources: []store.Source{{Name: "Linear", Record: json.RawMessage(`{"v":1}`)}, {Name: "Adam", Record: json.RawMessage(`{}`)}},
		})
	}
	apply(t, s, store.Change{RunID: runID(1), Sources: []store.Source{{Name: "Linear", Record: json.RawMessage(`{"v":2}`)}}},
		store.Change{RunID: runID(2), Sources: []store.Source{{Name: "Linear", Record: json.RawMessage(`{"v":3}`)}}})
	shut(t, s)
	s = open(t, path)
	if doc, err := s.Fingerprint(ctx, "d1"); string(doc) != `{"a":1}` || err != nil {
		t.Errorf("%s, %v", doc, err)
	}
	if doc, err := s.Fingerprint(ctx, "d2"); doc != nil || err != nil {
		t.Errorf("%s, %v", doc, err)
	}
	sources, err := s.Sources(ctx, runID(1))
	if err != nil || len(sources) != 2 || sources[0].Name != "Adam" || string(sources[1].Record) != `{"v":2}` {
		t.Errorf("%+v, %v", sources, err)
	}
	status := run.Succeeded
	apply(t, s, store.Change{RunID: runID(1), Patch: &store.Patch{Status: &status}, End: true})
	if err := s.Delete(ctx, runID(1)); err != nil {
		t.Fatal(err)
	}
	if sources, err := s.Sources(ctx, runID(1)); len(sources) != 0 || err != nil {
		t.Errorf("%+v, %v", sources, err)
	}
	if sources, err := s.Sources(ctx, runID(2)); len(sources) != 1 || err != nil {
		t.Errorf("%+v, %v", sources, err)
	}
}
