package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"cdui/internal/api"
	"cdui/internal/graph"
	"cdui/internal/store"
)

// seeds are real graph files: those that ship, and those that findings are
// tested with.
func seeds(t *testing.T) [][]byte {
	t.Helper()
	var out [][]byte
	for _, pattern := range []string{"../../graph/testdata/findings/*.json", "../../../examples/*/graph.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var wrapped struct {
				Graph json.RawMessage `json:"graph"`
			}
			if json.Unmarshal(raw, &wrapped) == nil && len(wrapped.Graph) > 0 {
				raw = wrapped.Graph
			}
			out = append(out, raw)
		}
	}
	if len(out) < 10 {
		t.Fatalf("%d seeds", len(out))
	}
	return out
}

// mutate damages a graph: bytes, or values of one kind in the place of another.
func mutate(r *rand.Rand, raw []byte) []byte {
	out := bytes.Clone(raw)
	for range 1 + r.Intn(6) {
		if len(out) < 2 {
			break
		}
		at := r.Intn(len(out) - 1)
		switch r.Intn(5) {
		case 0:
			out[at] = byte(r.Intn(256))
		case 1:
			to := min(len(out), at+r.Intn(40))
			out = append(out[:at:at], out[to:]...)
		case 2:
			to := min(len(out), at+r.Intn(60))
			out = append(out[:to:to], append(bytes.Clone(out[at:to]), out[to:]...)...)
		case 3:
			for _, swap := range [][2]string{{`"id"`, `"type"`}, {"[", "{"}, {`"data"`, `"edges"`}, {"true", "1e999"}, {`"params"`, `"nodes"`}} {
				if r.Intn(3) == 0 {
					out = bytes.Replace(out, []byte(swap[0]), []byte(swap[1]), 1)
				}
			}
		case 4:
			out = bytes.Replace(out, []byte(":"), []byte([]string{":null,\"x\":", ":[],\"y\":", ":{\"a\":1},\"z\":"}[r.Intn(3)]), 1+r.Intn(3))
		}
	}
	return out
}

// Damaged graphs cost a finding or a refusal: never a panic, never a row that is
// half there.
func TestDamagedGraphsLeaveNothingHalfDone(t *testing.T) {
	w := newSite(t)
	r := rand.New(rand.NewSource(20260301))
	files := seeds(t)
	accepted := 0
	for i := range 10_000 {
		raw := mutate(r, files[r.Intn(len(files))])
		graph.Inspect(raw, w.catalog)
		graph.Prepare(raw, w.catalog)
		if i%10 > 0 {
			continue
		}
		body := append(append([]byte(`{"options":{"hold":true},"graph":`), raw...), '}')
		code, reply := w.post(api.PathRuns, string(body))
		switch {
		case code == 200:
			accepted++
		case code != 400 && code != 422:
			t.Fatalf("%d %s for %s", code, reply, raw)
		}
	}
	_, total, err := w.st.List(context.Background(), store.Filter{Limit: 1})
	if err != nil || total != accepted || accepted == 0 {
		t.Errorf("%d rows for %d accepted graphs, %v", total, accepted, err)
	}
	report, err := w.st.Check(context.Background())
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("%v, %v", report.Findings, err)
	}
}
