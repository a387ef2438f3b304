package run_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"cdui/internal/run"
)

// payloads reads the 1,000 random payloads that runtime/tests/make_payloads.py
// wrote in Python's bytes; pytest holds the file to the script.
func payloads(t *testing.T) [][]byte {
	t.Helper()
	b, err := os.ReadFile("testdata/payloads.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	if len(lines) != 1000 {
		t.Fatalf("payloads.jsonl has %d lines, want 1000", len(lines))
	}
	return lines
}

// Proves EVT-03, W-07.
func TestCanonicalBytesArePythons(t *testing.T) {
	for i, line := range payloads(t) {
		got, err := run.Canonical(line)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if !bytes.Equal(got, line) {
			t.Errorf("line %d became\n%s\nwant\n%s", i+1, got, line)
		}
		var spaced bytes.Buffer
		if err := json.Indent(&spaced, line, "", "  "); err != nil {
			t.Fatal(err)
		}
		if got, err = run.Canonical(spaced.Bytes()); err != nil || !bytes.Equal(got, line) {
			t.Errorf("line %d, indented, became\n%s\nwant\n%s (%v)", i+1, got, line, err)
		}
	}
}

// TestEVT9_CappingTwiceChangesNothingMore: the shim and the control plane cap
// with the same function, so the second one finds nothing left to do.
func TestEVT9_CappingTwiceChangesNothingMore(t *testing.T) {
	for i, line := range payloads(t) {
		for _, limit := range []int{-1, 0, 60, 150, 400, 1000, 131072} {
			once := run.CapPayload(line, limit)
			if limit <= 0 || len(line) <= limit {
				if !bytes.Equal(once, line) {
					t.Errorf("line %d, limit %d: changed to %s", i+1, limit, once)
				}
			}
			if !json.Valid(once) {
				t.Errorf("line %d, limit %d: no JSON: %s", i+1, limit, once)
			}
			if again, err := run.Canonical(once); err != nil || !bytes.Equal(again, once) {
				t.Errorf("line %d, limit %d: not canonical: %s (%v)", i+1, limit, once, err)
			}
			if twice := run.CapPayload(once, limit); !bytes.Equal(once, twice) {
				t.Errorf("line %d, limit %d: capped once to\n%s\nand again to\n%s", i+1, limit, once, twice)
			}
		}
	}
}
