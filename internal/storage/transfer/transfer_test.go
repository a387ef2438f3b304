package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cdui/internal/agent"
	"cdui/internal/agent/prepare"
	"cdui/internal/api"
	"cdui/internal/blobs"
	"cdui/internal/codeset"
	"cdui/internal/console"
	"cdui/internal/protocol"
	"cdui/internal/storage/transfer"
)

// plane plays a control plane that has some contents. fault may answer a
// request in its place.
type plane struct {
	t        *testing.T
	contents map[string]string

	mu        sync.Mutex
	fault     func(w http.ResponseWriter, r *http.Request) bool
	requests  []string
	artifacts map[string]string
	sources   map[string]string
	log       []byte
}

func newPlane(t *testing.T) (*plane, string) {
	p := &plane{t: t, contents: map[string]string{}, artifacts: map[string]string{}, sources: map[string]string{}}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	return p, web.URL
}

func (p *plane) add(content string) string {
	sum := codeset.Hash([]byte(content))
	p.contents[sum] = content
	return sum
}

func refuse(w http.ResponseWriter, code api.Code) bool {
	w.WriteHeader(code.Status())
	_ = json.NewEncoder(w).Encode(api.ErrorBody{Error: api.Errorf(code, "refused as %s", code)})
	return true
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r.Method+" "+r.URL.Path+r.Header.Get("Range"))
	fault := p.fault
	p.mu.Unlock()
	if r.Header.Get(api.HeaderToken) != "worker token" {
		refuse(w, api.Unauthorized)
		return
	}
	if fault != nil && fault(w, r) {
		return
	}
	switch {
	case r.Method == http.MethodGet:
		content, ok := p.contents[strings.TrimPrefix(r.URL.Path, "/api/blobs/")]
		if !ok {
			refuse(w, api.Unauthorized)
			return
		}
		w.Header().Set("ETag", `"`+strings.TrimPrefix(r.URL.Path, "/api/blobs/")+`"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	case r.Method == http.MethodPut && r.URL.Path == "/api/runs/r1/log":
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			p.mu.Lock()
			p.log = raw
			p.mu.Unlock()
			fmt.Fprint(w, "{}")
		}
	case r.Method == http.MethodPost && r.URL.Path == "/api/runs/r1/artifacts/upload":
		raw, err := io.ReadAll(r.Body)
		switch {
		case err != nil:
		case codeset.Hash(raw) != r.Header.Get(api.HeaderSHA256):
			refuse(w, api.Invalid)
		default:
			p.mu.Lock()
			p.artifacts[r.URL.Query().Get("path")] = string(raw)
			p.sources[r.URL.Query().Get("path")] = r.URL.Query().Get("source")
			p.mu.Unlock()
			fmt.Fprint(w, "{}")
		}
	default:
		refuse(w, api.NotFound)
	}
}

func (p *plane) count(prefix string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, r := range p.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func driver(t *testing.T, at string) agent.Storage {
	t.Helper()
	cache, err := blobs.Open(filepath.Join(t.TempDir(), "agent-cache"))
	if err != nil {
		t.Fatal(err)
	}
	return transfer.NewDriver(agent.Upstream{URL: at, Token: func() (string, error) { return "worker token", nil }}, cache, nil)
}

func job(t *testing.T) agent.Job {
	t.Helper()
	dir := t.TempDir()
	folders := prepare.Under(dir)
	for _, f := range []string{folders.Data, folders.Checkpoints} {
		if err := os.MkdirAll(f, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return agent.Job{RunID: "r1", Attempt: 1, Dir: dir, Folders: folders}
}

// code is an assignment with a folder of these files.
func (p *plane) code(files map[string]string) *protocol.Assign {
	p.t.Helper()
	var list []protocol.File
	for name, content := range files {
		list = append(list, protocol.File{Path: protocol.Path(name), SHA256: p.add(content), Size: int64(len(content))})
	}
	list = append(list, protocol.File{Path: "link", Link: "train.py"})
	m, err := codeset.New(list)
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := m.Code()
	if err != nil {
		p.t.Fatal(err)
	}
	return &protocol.Assign{Code: &c}
}

func laidOut(t *testing.T, j agent.Job, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if raw, err := os.ReadFile(filepath.Join(j.Folders.Code, name)); err != nil || string(raw) != content {
			t.Errorf("%q: %.40q %v", name, raw, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(j.Folders.Code, "link")); err != nil || string(raw) != files["train.py"] {
		t.Errorf("link: %q %v", raw, err)
	}
}

// XFER-04, XFER-05: only what the cache lacks is fetched, and each run gets a
// folder of its own.
func TestCodeComesOnceAndIsLaidOut(t *testing.T) {
	p, at := newPlane(t)
	d := driver(t, at)
	files := map[string]string{"train.py": "import a.b", "a/b.py": "", "odd\xff\n😀": "x", strings.Repeat("n", 255): "y", "big": strings.Repeat("0123456789", 300_000)}
	a := p.code(files)
	for range 2 {
		j := job(t)
		if err := d.Fetch(t.Context(), j, a); err != nil {
			t.Fatal(err)
		}
		laidOut(t, j, files)
	}
	if n := p.count("GET"); n != len(files) {
		t.Errorf("%d requests for %d contents", n, len(files))
	}
}

// Connections that break after some bytes cost no byte twice.
func TestAFetchGoesOnWhereItBroke(t *testing.T) {
	p, at := newPlane(t)
	d := driver(t, at)
	content := strings.Repeat("0123456789", 100_000)
	a := p.code(map[string]string{"train.py": "x", "big": content})
	sum := codeset.Hash([]byte(content))
	served := 0
	p.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, sum) {
			return false
		}
		from := 0
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
			w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		}
		n := min(150_000, len(content)-from)
		_, _ = io.WriteString(w, content[from:from+n])
		served += n
		if from+n < len(content) {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		return true
	}
	j := job(t)
	if err := d.Fetch(t.Context(), j, a); err != nil {
		t.Fatal(err)
	}
	laidOut(t, j, map[string]string{"train.py": "x", "big": content})
	if served != len(content) {
		t.Errorf("%d bytes were served for %d", served, len(content))
	}
}

func TestWrongContentsAreNeverLaidOut(t *testing.T) {
	for name, answer := range map[string]string{"other": "evil!", "more": "right and more", "less": "righ"} {
		p, at := newPlane(t)
		cache, err := blobs.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		c := transfer.New(transfer.Config{URL: at, Cache: cache, Tries: 2, Token: func() (string, error) { return "worker token", nil }})
		j := job(t)
		a := p.code(map[string]string{"train.py": "right"})
		p.contents[codeset.Hash([]byte("right"))] = answer
		if err := c.Code(t.Context(), *a.Code, j.Folders.Code); err == nil {
			t.Errorf("%s was taken", name)
		}
		if _, err := os.Stat(j.Folders.Code); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was laid out", name)
		}
		// The right one is taken afterwards.
		p.contents[codeset.Hash([]byte("right"))] = "right"
		if err := c.Code(t.Context(), *a.Code, j.Folders.Code); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatCantHelpIsNotTriedAgain(t *testing.T) {
	p, at := newPlane(t)
	d, j := driver(t, at), job(t)
	a := p.code(map[string]string{"train.py": "x"})
	delete(p.contents, codeset.Hash([]byte("x")))
	if err := d.Fetch(t.Context(), j, a); !errors.Is(err, agent.ErrLasting) || p.count("GET") != 1 {
		t.Errorf("%v after %d tries", err, p.count("GET"))
	}
	hostile := *a.Code
	hostile.Files = append([]protocol.File{{Path: "../x", SHA256: codeset.Hash(nil)}}, hostile.Files...)
	if err := d.Fetch(t.Context(), j, &protocol.Assign{Code: &hostile}); !errors.Is(err, agent.ErrLasting) {
		t.Error(err)
	}
	hostile.Files = hostile.Files[2:]
	if err := d.Fetch(t.Context(), j, &protocol.Assign{Code: &hostile}); !errors.Is(err, agent.ErrLasting) || !strings.Contains(err.Error(), "hash") {
		t.Error(err)
	}
	// A full disk over there may be mended.
	left := 2
	p.fault = func(w http.ResponseWriter, _ *http.Request) bool {
		left--
		return left >= 0 && refuse(w, api.StorageFull)
	}
	p.add("x")
	if err := d.Fetch(t.Context(), j, a); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.fault = func(http.ResponseWriter, *http.Request) bool { cancel(); panic(http.ErrAbortHandler) }
	if err := d.Fetch(ctx, j, p.code(map[string]string{"train.py": "other"})); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestADamagedCacheIsMended(t *testing.T) {
	p, at := newPlane(t)
	dir := t.TempDir()
	cache, err := blobs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := transfer.New(transfer.Config{URL: at, Cache: cache, Token: func() (string, error) { return "worker token", nil }})
	a := p.code(map[string]string{"train.py": "right"})
	sum := codeset.Hash([]byte("right"))
	if err := os.MkdirAll(filepath.Join(dir, sum[:2]), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, sum[:2], sum), []byte("\x00\x00\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := job(t)
	if err := c.Code(t.Context(), *a.Code, j.Folders.Code); err != nil {
		t.Fatal(err)
	}
	laidOut(t, j, map[string]string{"train.py": "right"})
}

// XFER-02: inputs are listed by their hash.
func TestInputsAreLaidOutAsData(t *testing.T) {
	p, at := newPlane(t)
	d, j := driver(t, at), job(t)
	content := "image"
	a := &protocol.Assign{Storage: &protocol.Storage{Backend: protocol.BackendTransfer, Inputs: []protocol.File{{Path: "images/a b.png", SHA256: p.add(content), Size: 5}}}}
	if err := d.Fetch(t.Context(), j, a); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(j.Folders.Data, "images/a b.png")); err != nil || string(raw) != content {
		t.Errorf("%q %v", raw, err)
	}
	var unfit *prepare.Unfit
	if err := d.Fetch(t.Context(), j, &protocol.Assign{Storage: &protocol.Storage{Backend: protocol.BackendS3}}); !errors.As(err, &unfit) {
		t.Error(err)
	}
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// XFER-06, R-07: what a run wrote and printed comes back.
func TestResultsComeBackBeforeTheEnd(t *testing.T) {
	p, at := newPlane(t)
	d, j := driver(t, at), job(t)
	runDir, elsewhere := t.TempDir(), t.TempDir()
	long := strings.Repeat("n", 255)
	want := map[string]string{
		"out/model.pt": "weights", "out/with space/new\nline": "1", "out/😀": "2", "out/bad\xff": "3", long: "4",
		"checkpoints/last.pt": "5", "files" + elsewhere + "/plot.png": "6",
	}
	write(t, j.Folders.Code+"/out/model.pt", "weights")
	write(t, j.Folders.Code+"/out/with space/new\nline", "1")
	write(t, j.Folders.Code+"/out/😀", "2")
	write(t, j.Folders.Code+"/out/bad\xff", "3")
	if err := os.Symlink("/etc/passwd", j.Folders.Code+"/out/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".", j.Folders.Code+"/out/loop"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		j.Folders.Code + "/out", j.Folders.Code + "/out", // twice
		write(t, filepath.Join(j.Folders.Code, long), "4"),
		write(t, filepath.Join(j.Folders.Checkpoints, "last.pt"), "5"),
		write(t, filepath.Join(elsewhere, "plot.png"), "6"),
		filepath.Join(elsewhere, "never made"), "relative.pt",
	} {
		d.Wrote(j, protocol.Record{Type: protocol.Artifact, Path: path})
	}
	w := console.Create(runDir, console.Options{})
	w.Write([]byte("epoch 1\n"), time.Unix(1, 0))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	j.Console = console.NewReader(runDir)
	failures := 2
	p.fault = func(http.ResponseWriter, *http.Request) bool {
		if failures--; failures >= 0 {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	for range 2 { // again is no harm
		if err := driver(t, at).Bring(t.Context(), j); err != nil { // another process, too
			t.Fatal(err)
		}
	}
	if len(p.artifacts) != len(want) {
		t.Errorf("%d artifacts came: %q", len(p.artifacts), p.artifacts)
	}
	for path, content := range want {
		if p.artifacts[path] != content {
			t.Errorf("%q came as %q", path, p.artifacts[path])
		}
	}
	if p.sources["out/model.pt"] != j.Folders.Code+"/out/model.pt" {
		t.Errorf("%q", p.sources["out/model.pt"])
	}
	here := t.TempDir()
	if err := console.Import(t.Context(), here, bytes.NewReader(p.log), api.MaxLogBytes); err != nil {
		t.Fatal(err)
	}
	if raw, _, err := console.NewReader(here).Tail(100); err != nil || string(raw) != "epoch 1\n" {
		t.Errorf("%q %v", raw, err)
	}
}

func TestAnUploadThatIsRefusedForGoodSaysSo(t *testing.T) {
	p, at := newPlane(t)
	d, j := driver(t, at), job(t)
	d.Wrote(j, protocol.Record{Path: write(t, filepath.Join(j.Folders.Code, "big"), strings.Repeat("x", 1<<20))})
	for code, lasting := range map[api.Code]bool{api.Unauthorized: true, api.TooLarge: true} {
		p.fault = func(w http.ResponseWriter, _ *http.Request) bool { return refuse(w, code) }
		if err := d.Bring(t.Context(), j); errors.Is(err, agent.ErrLasting) != lasting || !strings.Contains(err.Error(), "big") {
			t.Errorf("%s: %v", code, err)
		}
	}
	// A place that is taken is no reason to lose a run.
	p.fault = func(w http.ResponseWriter, _ *http.Request) bool { return refuse(w, api.Conflict) }
	if err := d.Bring(t.Context(), j); err != nil {
		t.Error(err)
	}
}
