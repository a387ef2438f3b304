package server

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/blobs"
	"cdui/internal/catalog"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/files"
	"cdui/internal/server/workers/assign"
	"cdui/internal/store"
)

// nothingKnown remembers no hash.
type nothingKnown struct{}

func (nothingKnown) FileHash(context.Context, string, int64, time.Time) (string, error) {
	return "", nil
}
func (nothingKnown) KeepFileHashes(context.Context, ...store.FileHash) error { return nil }

// XFER-01, XFER-02: the files that a graph reads go along to a worker that takes
// them, up to the limit; one that doesn't gets none, and neither does a graph
// that reads none.
func TestTheFilesOfAGraphGoAlong(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	contents, err := blobs.Open(filepath.Join(data, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	builtin, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	s := shipper{
		files: files.New(files.Config{
			Blobs: contents, RunsDir: filepath.Join(data, "runs"), DataDir: data, Hashes: nothingKnown{}, Limits: files.Limits{Folder: 10},
		}),
		catalog: func(context.Context) *catalog.Catalog { return builtin },
	}
	for name, content := range map[string]string{"images/cat.png": "pixels", "images/large.png": strings.Repeat("x", 11)} {
		full := filepath.Join(data, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reader := func(path string) json.RawMessage {
		return json.RawMessage(`{"nodes":[{"id":"s","type":"Start"},{"id":"r","type":"ImageReader","data":{"params":{"path":"` + path + `"}}}],
			"edges":[{"source":"s","target":"r","type":"trigger"}]}`)
	}
	able := protocol.Capabilities{protocol.CapTransfer}
	for _, c := range []struct {
		name  string
		graph json.RawMessage
		caps  protocol.Capabilities
		sent  string
		err   string
	}{
		{"read", reader("cat.png"), able, "pixels", ""},
		{"a worker that takes none", reader("cat.png"), nil, "", ""},
		{"not here", reader("nothing.png"), able, "", ""},
		{"the worker's own", reader("/srv/cat.png"), able, "", ""},
		{"beyond the limit", reader("large.png"), able, "", "images/large.png"},
	} {
		a := &protocol.Assign{RunID: "r1", Graph: &protocol.Graph{}}
		err := s.Ship(t.Context(), execution.Job{Row: run.Row{ID: "r1", Graph: c.graph}}, assign.Destination{Name: "box", Capabilities: c.caps}, a)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if c.sent == "" {
			if err != nil || a.Storage != nil {
				t.Errorf("%s: %+v, %v", c.name, a.Storage, err)
			}
			continue
		}
		if err != nil || a.Storage == nil || a.Storage.Backend != protocol.BackendTransfer || len(a.Storage.Inputs) != 1 ||
			a.Storage.Inputs[0].SHA256 != codeset.Hash([]byte(c.sent)) || a.Storage.Inputs[0].Path != "images/cat.png" {
			t.Errorf("%s: %+v, %v", c.name, a.Storage, err)
		}
	}
}
