package files_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
	"cdui/internal/server/files"
)

// XFER-07, XFER-08, ST-02: what a node writes by name goes to its place in the
// data folder and stays; everything else is the run's and goes with it.
func TestFilesOfWritersGoToTheirPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Keeper = files.New(files.Config{
		Blobs: w.blobs, RunsDir: filepath.Join(w.data, "runs"), DataDir: w.data, Hashes: w.hashes, Limits: files.Limits{Artifact: 100},
		Writes: func(_ context.Context, runID, place string) bool {
			return runID == "r1" && (place == "models/a/m.pt" || place == "out/x.pt" || place == "../x" || strings.HasSuffix(place, "big.pt"))
		},
	})
	send := func(runID, place, content string) error {
		_, err := w.SaveArtifact(t.Context(), runID, api.ArtifactUpload{
			Path: protocol.Path(place), Source: "/there/" + place, SHA256: codeset.Hash([]byte(content)), Size: int64(len(content)),
		}, strings.NewReader(content))
		return err
	}
	read := func(parts ...string) string {
		b, err := os.ReadFile(filepath.Join(append([]string{w.data}, parts...)...))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	for _, content := range []string{"first", "first", "second"} { // again, and once more with other bytes
		if err := send("r1", "models/a/m.pt", content); err != nil || read("models/a/m.pt") != content {
			t.Errorf("%s: %v", read("models/a/m.pt"), err)
		}
	}
	if err := send("r1", "models/interrupted/1.pt", "mine"); err != nil || read("runs/r1/artifacts/models/interrupted/1.pt") != "mine" {
		t.Errorf("a checkpoint of its own: %v", err)
	}
	if err := send("r2", "models/a/m.pt", "theirs"); err != nil || read("models/a/m.pt") != "second" || read("runs/r2/artifacts/models/a/m.pt") != "theirs" {
		t.Errorf("a run that doesn't write there: %v", err)
	}
	brought, err := w.Brought("r1")
	if err != nil || brought["/there/models/a/m.pt"] != filepath.Join(w.data, "models/a/m.pt") ||
		brought["/there/models/interrupted/1.pt"] != filepath.Join(w.data, "runs/r1/artifacts/models/interrupted/1.pt") {
		t.Errorf("%v, %v", brought, err)
	}
	// A folder that leads out of the data folder is nobody's place.
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(w.data, "out")); err != nil {
		t.Fatal(err)
	}
	if err := send("r1", "out/x.pt", "x"); err == nil {
		t.Error("it was written through a link that leads out")
	}
	if err := send("r1", "../x", "x"); err == nil {
		t.Error("it was written above the data folder")
	}
	if err := send("r1", "models/big.pt", strings.Repeat("x", 101)); err == nil {
		t.Error("the limit of artifacts doesn't hold there")
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("outside: %v", left)
	}
	if left, err := os.ReadDir(filepath.Join(w.data, ".incoming")); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.RemoveAll(filepath.Join(w.data, "runs", "r1")); err != nil || read("models/a/m.pt") != "second" {
		t.Errorf("it went with its run: %v", err)
	}
}
