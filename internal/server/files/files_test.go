package files_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/blobs"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
	"cdui/internal/server/files"
	"cdui/internal/store"
)

// hashes remembers like the database, and counts what it could tell.
type hashes struct {
	known map[string]store.FileHash
	hits  int
}

func (h *hashes) FileHash(_ context.Context, path string, size int64, modAt time.Time) (string, error) {
	if k := h.known[path]; k.Size == size && k.ModAt.Equal(modAt) {
		h.hits++
		return k.SHA256, nil
	}
	return "", nil
}

func (h *hashes) KeepFileHashes(_ context.Context, list ...store.FileHash) error {
	for _, k := range list {
		h.known[k.Path] = k
	}
	return nil
}

type world struct {
	*files.Keeper
	blobs  *blobs.Store
	hashes *hashes
	data   string
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{data: t.TempDir(), hashes: &hashes{known: map[string]store.FileHash{}}}
	var err error
	if w.blobs, err = blobs.Open(filepath.Join(w.data, "blobs")); err != nil {
		t.Fatal(err)
	}
	w.Keeper = files.New(files.Config{
		Blobs: w.blobs, RunsDir: filepath.Join(w.data, "runs"), DataDir: w.data, Hashes: w.hashes,
		Limits: files.Limits{Folder: 100},
	})
	return w
}

func (w world) write(t *testing.T, name, content string, age time.Duration) {
	t.Helper()
	path := filepath.Join(w.data, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// XFER-02, XFER-03: inputs are listed by content hash, and a hash is computed
// anew when size or time have changed.
func TestInputsAreListedByContent(t *testing.T) {
	w := newWorld(t)
	w.write(t, "models/base.pt", "weights", time.Hour)
	w.write(t, "images/a b.png", "pixels", time.Hour)
	w.write(t, "secret", "outside", time.Hour)
	if err := os.Symlink("/etc/hostname", filepath.Join(w.data, "out")); err != nil {
		t.Fatal(err)
	}
	places := []string{"models/base.pt", "base.pt", "images/a b.png", "models/../models/base.pt", "../x", "/etc/passwd", "out", "images", "nothing"}
	list, err := w.Inputs(t.Context(), "r1", places)
	if err != nil || len(list) != 2 || list[0].Path != "models/base.pt" || list[1].Path != "images/a b.png" || list[0].SHA256 != codeset.Hash([]byte("weights")) {
		t.Fatalf("%+v %v", list, err)
	}
	for _, f := range list {
		if !w.blobs.Has(f.SHA256) || !w.Reads(t.Context(), "r1", f.SHA256) || w.Reads(t.Context(), "r2", f.SHA256) {
			t.Errorf("%s can't be fetched by its run alone", f.Path)
		}
	}
	if w.Reads(t.Context(), "r1", codeset.Hash([]byte("outside"))) {
		t.Error("more can be fetched than the inputs")
	}
	if _, err := w.Inputs(t.Context(), "r1", places); err != nil || w.hashes.hits != 2 {
		t.Errorf("%d hashes were known: %v", w.hashes.hits, err)
	}
	w.write(t, "models/base.pt", "heavier", time.Minute)
	if list, err = w.Inputs(t.Context(), "r1", places); err != nil || list[0].SHA256 != codeset.Hash([]byte("heavier")) {
		t.Errorf("%+v %v", list, err)
	}
	// What was written just now may still change within the clock's grain.
	w.write(t, "models/base.pt", "newer 1", 0)
	if list, err = w.Inputs(t.Context(), "r1", places); err != nil || list[0].SHA256 != codeset.Hash([]byte("newer 1")) || w.hashes.known[filepath.Join(w.data, "models/base.pt")].SHA256 == list[0].SHA256 {
		t.Errorf("%+v %v", list, err)
	}
	w.write(t, "models/large.pt", strings.Repeat("x", 101), time.Hour)
	if _, err := w.Inputs(t.Context(), "r1", []string{"models/large.pt"}); err == nil || !strings.Contains(err.Error(), "models/large.pt") {
		t.Errorf("%v", err)
	}
	if list, err := w.Inputs(t.Context(), "r3", []string{"nothing"}); err != nil || list != nil {
		t.Errorf("%v %v", list, err)
	}
}

func TestFoldersGoWhenNoRunNamesThem(t *testing.T) {
	w := newWorld(t)
	add := func(content string) string {
		m, err := codeset.New([]protocol.File{
			{Path: "own", SHA256: codeset.Hash([]byte(content)), Size: int64(len(content))},
			{Path: "same", SHA256: codeset.Hash([]byte("same")), Size: 4},
		})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []string{content, "same"} {
			if err := w.PutContent(t.Context(), codeset.Hash([]byte(c)), strings.NewReader(c)); err != nil {
				t.Fatal(err)
			}
		}
		reply, err := w.AddCode(t.Context(), raw)
		if err != nil || len(reply.Missing) != 0 {
			t.Fatalf("%+v %v", reply, err)
		}
		return reply.Hash
	}
	needed, gone := add("needed"), add("gone")
	if freed, err := w.Prune(t.Context(), []string{needed}, time.Now()); err != nil || freed != 0 {
		t.Errorf("what came just now went: %d %v", freed, err)
	}
	if _, err := w.Prune(t.Context(), []string{needed, strings.Repeat("0", 64)}, time.Now().Add(25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if w.blobs.Has(gone) || w.blobs.Has(codeset.Hash([]byte("gone"))) {
		t.Error("what nobody names stayed")
	}
	dir := filepath.Join(w.data, "laid out")
	if err := w.Unpack(t.Context(), needed, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"own": "needed", "same": "same"} {
		if raw, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(raw) != want {
			t.Errorf("%s: %q %v", name, raw, err)
		}
	}
}
