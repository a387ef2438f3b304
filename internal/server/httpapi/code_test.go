package httpapi_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/files"
)

// peers are workers w1 and w2 with the tokens "token of w1" and "token of w2".
type peers struct {
	keeper *files.Keeper
	// holds maps runs to their workers, code to the folders that they need.
	holds, code map[string]string
}

func (p *peers) Worker(_ context.Context, token string) (string, bool) {
	name, ok := strings.CutPrefix(token, "token of ")
	return name, ok
}

func (p *peers) Holds(_ context.Context, worker, runID string) bool { return p.holds[runID] == worker }

func (p *peers) MayRead(ctx context.Context, worker, sum string) bool {
	for id, w := range p.holds {
		if w == worker && p.keeper.Names(ctx, p.code[id], sum) {
			return true
		}
	}
	return false
}

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// folder announces a folder of these files.
func (w *site) folder(contents map[string]string) (int, api.CodeReply) {
	w.t.Helper()
	var list []protocol.File
	for name, content := range contents {
		list = append(list, protocol.File{Path: protocol.Path(name), SHA256: sumOf(content), Size: int64(len(content))})
	}
	m, err := codeset.New(list)
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := m.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	code, body := w.post(api.PathCode, string(raw))
	var reply api.CodeReply
	if code == 200 {
		if err := json.Unmarshal(body, &reply); err != nil {
			w.t.Fatal(err)
		}
	}
	return code, reply
}

func blobPath(sum string) string { return strings.Replace(api.PathBlob, "{sha256}", sum, 1) }

func as(worker string) []string { return []string{api.HeaderToken, "token of " + worker} }

// ST-01: a script brings its folder along.
func TestAFolderComesAlong(t *testing.T) {
	w := newSite(t)
	contents := map[string]string{"train.py": "import data.mod\n", "data/mod.py": "x = 1\n", "same.py": "x = 1\n"}
	code, reply := w.folder(contents)
	if code != 200 || len(reply.Missing) != 2 || reply.Files != 3 || reply.Bytes != 28 {
		t.Fatalf("%d %+v", code, reply)
	}
	submit := func(root, path string) (int, string) {
		code, body := w.post(api.PathRuns, fmt.Sprintf(`{"options":{"script":{"path":%q},"hold":true},"code":{"hash":%q,"root":%q}}`, path, reply.Hash, root))
		return code, string(body)
	}
	if code, body := submit("/p", "/p/train.py"); code != 409 || !strings.Contains(body, sumOf("x = 1\n")) {
		t.Errorf("submitted before its contents: %d %s", code, body)
	}
	for _, content := range []string{"import data.mod\n", "x = 1\n"} {
		if code, body := w.request("PUT", blobPath(sumOf(content)), content, api.HeaderToken, secret); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
	if code, again := w.folder(contents); code != 200 || len(again.Missing) != 0 || again.Hash != reply.Hash {
		t.Errorf("%d %+v", code, again)
	}
	for _, c := range []struct {
		root, path string
		status     int
		says       string
	}{
		{"/p", "/p/train.py", 200, "run_id"},
		{"/p", "/p/data/mod.py", 200, "run_id"},
		{"/p", "/q/train.py", 400, "does not lie in the folder"},
		{"/p", "/p/../q/train.py", 400, "does not lie in the folder"},
		{"", "/p/train.py", 400, "does not lie in the folder"},
		{"/p", "/p/nothing.py", 400, "not among the files"},
	} {
		if code, body := submit(c.root, c.path); code != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s in %s: %d %s", c.path, c.root, code, body)
		}
	}
	if code, body := w.post(api.PathRuns, `{"options":{"command":{"argv":["x"],"cwd":"/p"}},"code":{"hash":"`+sumOf("no list")+`","root":"/p"}}`); code != 409 {
		t.Errorf("unknown folder: %d %s", code, body)
	}
	if code, body := w.post(api.PathRuns, `{"options":{"command":{"argv":["x"],"cwd":"/p"}},"code":{"hash":"`+sumOf("x = 1\n")+`","root":"/p"}}`); code != 400 {
		t.Errorf("a content as a list: %d %s", code, body)
	}
	// A copy needs the same folder.
	_, body := submit("/p", "/p/train.py")
	var sent api.SubmitReply
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	code, raw := w.post("/api/runs/"+sent.RunID+"/rerun", "")
	if err := json.Unmarshal(raw, &sent); err != nil || code != 200 {
		t.Fatalf("%d %s", code, raw)
	}
	if _, raw := w.request("GET", "/api/runs/"+sent.RunID, ""); !strings.Contains(string(raw), `"code":{"hash":"`+reply.Hash+`","root":"/p","files":3,"bytes":28}`) {
		t.Errorf("%s", raw)
	}
}

// ST-02: path tricks in lists, and contents that are not their hash's.
func TestHostileContentsAreRefused(t *testing.T) {
	w := newSite(t)
	for name, c := range map[string]struct {
		sum, body string
		token     string
		status    int
	}{
		"wrong bytes":  {sumOf("a"), "b", secret, 400},
		"no hash":      {"..%2f..%2fpasswd", "b", secret, 400},
		"upper case":   {strings.ToUpper(sumOf("a")), "a", secret, 400},
		"too large":    {sumOf("a"), strings.Repeat("a", 1<<18+1), secret, 413},
		"no token":     {sumOf("a"), "a", "", 403},
		"worker token": {sumOf("a"), "a", "token of w1", 403},
	} {
		if code, body := w.request("PUT", blobPath(c.sum), c.body, api.HeaderToken, c.token); code != c.status {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	for name, raw := range map[string]string{
		"path trick": `{"version":1,"files":[{"path":"../x","sha256":"` + sumOf("") + `","size":0}]}`,
		"link trick": `{"version":1,"files":[{"path":"a","link":"../x","size":0},{"path":"a/b","sha256":"` + sumOf("") + `","size":0}]}`,
		"garbage":    `{`,
	} {
		if code, body := w.post(api.PathCode, raw); code != 422 {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if code, _ := w.folder(map[string]string{"big": strings.Repeat("x", 1<<18+1)}); code != 413 {
		t.Errorf("a large file: %d", code)
	}
	many := map[string]string{}
	for i := range 5 {
		many[fmt.Sprint(i)] = strings.Repeat(fmt.Sprint(i), 1<<18)
	}
	if code, _ := w.folder(many); code != 413 {
		t.Errorf("a large folder: %d", code)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, "blobs", "parts", "*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// A sender that goes away in the middle leaves nothing, and may come again.
func TestACutUploadLeavesNothing(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	w.peers.holds[id] = "w1"
	content := strings.Repeat("checkpoint", 5000)
	target, err := url.Parse(w.web.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"PUT " + blobPath(sumOf(content)), "POST /api/runs/" + id + "/artifacts/upload?path=last.pt"} {
		conn, err := net.Dial("tcp", target.Host)
		if err != nil {
			t.Fatal(err)
		}
		token := secret
		if strings.HasPrefix(to, "POST") {
			token = "token of w1"
		}
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
			to, api.HeaderToken, token, api.HeaderSHA256, sumOf(content), len(content), content[:len(content)/2])
		conn.Close()
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		parts, _ := filepath.Glob(filepath.Join(w.dir, "blobs", "parts", "*"))
		incoming, _ := filepath.Glob(filepath.Join(w.dir, "runs", id, "incoming", "*"))
		if len(parts)+len(incoming) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("left %v %v", parts, incoming)
		}
		<-time.After(5 * time.Millisecond)
	}
	if code, body := w.request("PUT", blobPath(sumOf(content)), content, api.HeaderToken, secret); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.upload("w1", id, "last.pt", content, sumOf(content)); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}

func (w *site) upload(worker, id, path, content, sum string) (int, []byte) {
	return w.request("POST", "/api/runs/"+id+"/artifacts/upload?"+url.Values{"path": {path}}.Encode(), content, append(as(worker), api.HeaderSHA256, sum)...)
}

// XFER-04: the download route serves a worker with its token, and what its runs
// need alone.
func TestAWorkerReadsOnlyWhatItsRunsNeed(t *testing.T) {
	w := newSite(t)
	_, mine := w.folder(map[string]string{"a": "mine", "b": "both"})
	_, other := w.folder(map[string]string{"a": "other", "b": "both"})
	for _, content := range []string{"mine", "both", "other"} {
		w.request("PUT", blobPath(sumOf(content)), content, api.HeaderToken, secret)
	}
	w.peers.holds["r1"], w.peers.code["r1"] = "w1", mine.Hash
	w.peers.holds["r2"], w.peers.code["r2"] = "w2", other.Hash
	for _, c := range []struct {
		sum, worker string
		status      int
	}{
		{sumOf("mine"), "w1", 200},
		{sumOf("both"), "w1", 200},
		{mine.Hash, "w1", 200},
		{sumOf("other"), "w1", 403},
		{other.Hash, "w1", 403},
		{sumOf("nothing"), "w1", 403},
		{"..%2f..%2ftoken", "w1", 403},
		{sumOf("other"), "w2", 200},
		{sumOf("mine"), "w3", 403},
	} {
		if code, body := w.request("GET", blobPath(c.sum), "", as(c.worker)...); code != c.status {
			t.Errorf("%s reads %.12s: %d %s", c.worker, c.sum, code, body)
		}
	}
	delete(w.peers.holds, "r1")
	if code, _ := w.request("GET", blobPath(sumOf("mine")), "", as("w1")...); code != 403 {
		t.Errorf("read after its run: %d", code)
	}
	if code, _ := w.request("GET", blobPath(sumOf("other")), "", append(as("w2"), "Origin", "http://localhost")...); code != 200 {
		// From this machine, as anybody may read.
		t.Errorf("with an Origin: %d", code)
	}
	if code, body := w.request("GET", blobPath(sumOf("other")), "", append(as("w2"), "Range", "bytes=2-")...); code != 206 || string(body) != "her" {
		t.Errorf("the rest: %d %q", code, body)
	}
	for _, path := range []string{"/api/runs", api.PathShutdown, api.PathCode} {
		if code, _ := w.request("POST", path, "{}", as("w1")...); code != 403 {
			t.Errorf("a worker's token at POST %s: %d", path, code)
		}
	}
}

// XFER-06, XFER-07, ST-02: files go to the run's own folder, their rows say so,
// and no name leads elsewhere.
func TestArtifactsAndLogsComeBackOfOwnRunsAlone(t *testing.T) {
	w := newSite(t)
	id, ended := w.submit(""), w.submit("")
	w.peers.holds[id], w.peers.holds[ended] = "w1", "w1"
	w.report(ended, 1, finished(run.Succeeded))
	dir := filepath.Join(w.dir, "runs", id, "artifacts")
	for _, name := range []string{"model.pt", "out/with space/é\n😀.png", "bad\xff\xfe.bin", strings.Repeat("n", 255), "-rf", "a/b/c/d"} {
		content := "content of " + name
		for range 2 { // again is fine
			if code, body := w.upload("w1", id, name, content, sumOf(content)); code != 200 {
				t.Errorf("%q: %d %s", name, code, body)
			}
		}
		if raw, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(raw) != content {
			t.Errorf("%q: %q %v", name, raw, err)
		}
	}
	if code, body := w.upload("w1", id, "model.pt", "newer", sumOf("newer")); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "model.pt")); err != nil || string(raw) != "newer" {
		t.Errorf("%q %v", raw, err)
	}
	w.report(id, 1,
		protocol.Record{Type: protocol.Artifact, Kind: "model", Path: "/on/the/worker/model.pt"},
		protocol.Record{Type: protocol.Artifact, Kind: "file", Path: "/on/the/worker/out"},
		protocol.Record{Type: protocol.Artifact, Kind: "file", Path: "/on/the/worker/never came"})
	for path, source := range map[string]string{"model.pt": "/on/the/worker/model.pt", "out/deep/x": "/on/the/worker/out/deep/x"} {
		query := url.Values{"path": {path}, "source": {source}}.Encode()
		if code, body := w.request("POST", "/api/runs/"+id+"/artifacts/upload?"+query, "newer", append(as("w1"), api.HeaderSHA256, sumOf("newer"))...); code != 200 {
			t.Errorf("%q: %d %s", path, code, body)
		}
	}
	_, raw := w.request("GET", "/api/runs/"+id+"/artifacts", "")
	var rows api.Artifacts
	if err := json.Unmarshal(raw, &rows); err != nil || len(rows.Artifacts) != 3 {
		t.Fatalf("%v %s", err, raw)
	}
	for i, want := range []string{filepath.Join(dir, "model.pt"), filepath.Join(dir, "out"), "/on/the/worker/never came"} {
		if a := rows.Artifacts[i]; a.Path != want || (a.Backend == "transfer") != (i < 2) {
			t.Errorf("%+v, want %s", a, want)
		}
	}
	if err := os.Symlink("/", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		worker, id, path, content, sum string
		status                         int
	}{
		"another's run": {"w2", id, "x", "x", sumOf("x"), 403},
		"no run":        {"w1", strings.Repeat("0", 32), "x", "x", sumOf("x"), 403},
		"trick in id":   {"w1", "..%2f" + id, "x", "x", sumOf("x"), 403},
		"ended":         {"w1", ended, "x", "x", sumOf("x"), 409},
		"up":            {"w1", id, "../../../token", "x", sumOf("x"), 400},
		"absolute":      {"w1", id, "/etc/passwd", "x", sumOf("x"), 400},
		"zero byte":     {"w1", id, "a\x00b", "x", sumOf("x"), 400},
		"no path":       {"w1", id, "", "x", sumOf("x"), 400},
		"wrong hash":    {"w1", id, "y", "x", sumOf("y"), 400},
		"no hash":       {"w1", id, "y", "x", "", 400},
		"below a file":  {"w1", id, "model.pt/x", "x", sumOf("x"), 409},
		"over a folder": {"w1", id, "a/b", "x", sumOf("x"), 409},
		"too large":     {"w1", id, "y", strings.Repeat("x", 1<<19+1), sumOf("x"), 413},
	} {
		if code, body := w.upload(c.worker, c.id, c.path, c.content, c.sum); code != c.status {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if code, _ := w.upload("w1", id, "link/tmp/x", "x", sumOf("x")); code == 200 {
		t.Error("written through a link")
	}
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	if err := out.WriteHeader(&tar.Header{Name: "output.log", Size: 5, Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(out, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	put := func(worker, id, body string) int {
		code, _ := w.request("PUT", "/api/runs/"+id+"/log", body, as(worker)...)
		return code
	}
	if a, b, c, d := put("w1", id, archive.String()), put("w1", id, archive.String()), put("w2", id, archive.String()), put("w1", id, "garbage"); a != 200 || b != 200 || c != 403 || d != 400 {
		t.Errorf("%d %d %d %d", a, b, c, d)
	}
	if raw, err := os.ReadFile(filepath.Join(w.dir, "runs", id, "output.log")); err != nil || string(raw) != "hello" {
		t.Errorf("%q %v", raw, err)
	}
	if res, err := http.Get(w.web.URL + "/api/runs/" + id + "/artifacts/upload"); err != nil || res.StatusCode == 200 {
		t.Errorf("%v", err)
	} else {
		res.Body.Close()
	}
}
