package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
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

	"cdui/internal/api"
	"cdui/internal/blobs"
	"cdui/internal/catalog"
	"cdui/internal/console"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/execution"
	"cdui/internal/server/feed"
	"cdui/internal/server/files"
	"cdui/internal/server/hooks"
	"cdui/internal/server/httpapi"
	"cdui/internal/server/runs"
	"cdui/internal/server/runs/board"
	"cdui/internal/server/studies"
	"cdui/internal/server/sweeps"
	"cdui/internal/server/tokens"
	"cdui/internal/server/workers"
	"cdui/internal/store"
	"cdui/internal/sweep"
	"cdui/internal/token"
)

const secret = "let me in"

// idle is an executor whose runs do only what the test reports for them.
type idle struct {
	mu       sync.Mutex
	attempts map[string]int
	taken    map[string]bool
	sink     execution.Sink
}

func (x *idle) Start(_ context.Context, job execution.Job, sink execution.Sink) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attempts[job.Row.ID], x.sink = job.Row.Attempt, sink
	return nil
}
func (x *idle) Adopt(context.Context, []execution.Job, execution.Sink) error { return nil }
func (x *idle) Cancel(context.Context, string, time.Duration, bool) error {
	return nil
}

// carrier takes every call of a hook.
type carrier struct{}

func (carrier) Carry(context.Context, api.HookSpec, []byte) error { return nil }

// site is an API over a real store and run service.
type site struct {
	t    *testing.T
	dir  string
	st   *store.Store
	exec *idle
	api  *httpapi.Server
	web  *httptest.Server

	catalog *catalog.Catalog
	pinned  string
	devices []api.Device
	// outcomes are by status and class.
	outcomes map[[2]string]uint64
	peers    *peers
}

func (w *site) Info() api.ServerInfo { return api.ServerInfo{Version: "test", BootID: "b"} }
func (w *site) Status(context.Context) api.ServerStatus {
	return api.ServerStatus{Devices: append([]api.Device{}, w.devices...), Problems: []api.Problem{}}
}
func (w *site) ended() map[httpapi.Outcome]uint64 {
	out := map[httpapi.Outcome]uint64{}
	for k, n := range w.outcomes {
		out[httpapi.Outcome{Status: run.Status(k[0]), Class: run.EndClass(k[1])}] = n
	}
	return out
}

// card is one with two slots that says nothing of its temperature.
func (w *site) card() api.Device {
	mib, watts := int64(1), 70.5
	return api.Device{Device: device.Device{Device: "cuda:0", Kind: "cuda", Name: "T", MemoryTotalMiB: &mib, PowerW: &watts}, Slots: api.Slots{Cap: 2, Used: 1}, Runs: []string{}}
}
func (w *site) Problems(context.Context) []api.Problem   { return []api.Problem{} }
func (w *site) Catalog(context.Context) *catalog.Catalog { return w.catalog }
func (w *site) Graph(name string) (json.RawMessage, error) {
	raw, err := os.ReadFile(filepath.Join(w.dir, name+".json"))
	if err != nil {
		return nil, api.Errorf(api.NotFound, "no graph %q", name)
	}
	return raw, nil
}
func (w *site) Shutdown(bool) int { return 3 }
func (w *site) Console(_ context.Context, id string) httpapi.Console {
	return console.NewReader(filepath.Join(w.dir, id))
}
func (w *site) Pin(id string, pinned bool) error { w.pinned = fmt.Sprint(id, pinned); return nil }
func (w *site) Forget(id string)                 { _ = os.RemoveAll(filepath.Join(w.dir, id)) }

func newSite(t *testing.T) *site { return newSiteWith(t, nil) }

func newSiteWith(t *testing.T, tunnels httpapi.Tunnels) *site {
	w := &site{t: t, dir: t.TempDir(), exec: &idle{attempts: map[string]int{}, taken: map[string]bool{}}}
	st, err := store.Open(context.Background(), store.Config{Path: filepath.Join(w.dir, "cdui.db")})
	if err != nil {
		t.Fatal(err)
	}
	hub := &feed.Hub{}
	svc := runs.New(runs.Config{
		Catalog: w.Catalog,
		Store:   st, Executor: w.exec, Limits: scheduler.Limits{GPU: 1, CPU: 2}, PayloadCap: 1 << 17, Interactive: 2, Notify: hub.Notify,
		Devices: func() device.Inventory { return device.Inventory{{Device: "cpu", Kind: "cpu"}} }, Grace: time.Second,
	})
	w.st = st
	if w.catalog, err = catalog.Builtin(); err != nil {
		t.Fatal(err)
	}
	contents, err := blobs.Open(filepath.Join(w.dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	keeper := files.New(files.Config{
		Blobs: contents, RunsDir: filepath.Join(w.dir, "runs"),
		Limits: files.Limits{Folder: 1 << 20, File: 1 << 18, Artifact: 1 << 19},
	})
	w.peers = &peers{keeper: keeper, holds: map[string]string{}, code: map[string]string{}}
	users, err := tokens.Open(context.Background(), st)
	if err != nil {
		t.Fatal(err)
	}
	registry := workers.New(workers.Config{
		Store: st, Catalog: w.Catalog, Version: "test", TokenHash: token.Hash(secret), URL: "http://127.0.0.1:8000",
	})
	if err := registry.Load(context.Background(), placer{svc.Board(), svc}); err != nil {
		t.Fatal(err)
	}
	swept := sweeps.New(sweeps.Config{Submitter: svc, Ledger: st, Runs: st, Catalog: w.Catalog, Limits: sweep.Limits{Runs: 32, Params: 4, Domain: 32}})
	studied := studies.New(studies.Config{Submitter: svc, Ledger: st, Runs: st, Sweeps: swept, Catalog: w.Catalog})
	called := hooks.New(hooks.Config{Store: st, Carrier: carrier{}})
	w.api = httpapi.New(httpapi.Config{
		Sweeps: swept, Studies: studied, Outcomes: w.ended, Hooks: called,
		Tunnels: tunnels, Files: keeper, Peers: w.peers, Workers: registry, Tokens: users,
		Runs: svc, Host: w, Store: st, Feed: hub, TokenHash: token.Hash(secret), AllowedHosts: []string{"lab.example"},
		Listen: "127.0.0.1:8000", BodyCap: 1 << 20, ResponseCap: 1 << 20,
	})
	if err := svc.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.web = httptest.NewServer(w.api)
	t.Cleanup(func() {
		w.api.Close()
		w.web.Close()
		registry.Close()
		svc.Close()
		called.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// request sends one request; header pairs follow the body.
func (w *site) request(method, path, body string, header ...string) (int, []byte) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.web.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, raw
}

func (w *site) post(path, body string) (int, []byte) {
	w.t.Helper()
	return w.request("POST", path, body, api.HeaderToken, secret)
}

func (w *site) submit(options string) string {
	w.t.Helper()
	code, raw := w.post(api.PathRuns, `{"options":{"command":{"argv":["true"],"cwd":"/"}`+options+`}}`)
	var reply api.SubmitReply
	if err := json.Unmarshal(raw, &reply); err != nil || code != 200 || !run.ValidID(reply.RunID) {
		w.t.Fatalf("submit: %d %s", code, raw)
	}
	return reply.RunID
}

// report hands records to the run service as its executor would.
func (w *site) report(id string, first uint64, records ...protocol.Record) {
	w.t.Helper()
	var sink execution.Sink
	var attempt int
	deadline := time.Now().Add(time.Minute)
	for sink == nil && time.Now().Before(deadline) {
		w.exec.mu.Lock()
		if a, ok := w.exec.attempts[id]; ok {
			sink, attempt = w.exec.sink, a
		}
		w.exec.mu.Unlock()
	}
	if sink == nil {
		w.t.Fatalf("run %s did not start", id)
	}
	for i := range records {
		records[i].Seq, records[i].TS = first+uint64(i), time.Now().UTC()
	}
	if err := sink.Record(context.Background(), id, attempt, records); err != nil {
		w.t.Fatal(err)
	}
}

func finished(status run.Status) protocol.Record {
	return protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: string(status)}}
}

// Proves S-05, D.1.
func TestWhoMayCall(t *testing.T) {
	w := newSite(t)
	remote := func(method, path string, header ...string) int {
		req := httptest.NewRequest(method, "http://127.0.0.1:8000"+path, nil)
		req.RemoteAddr = "192.0.2.7:4711"
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, req)
		return rec.Code
	}
	local := func(method, path string, header ...string) int {
		code, _ := w.request(method, path, "{}", header...)
		return code
	}
	for name, c := range map[string]struct{ got, want int }{
		"read from loopback":            {local("GET", api.PathRuns), 200},
		"write without token":           {local("POST", api.PathRuns), 403},
		"write with a wrong token":      {local("POST", api.PathRuns, api.HeaderToken, "x"), 403},
		"write with the token":          {local("POST", api.PathShutdown, api.HeaderToken, secret), 200},
		"bearer token":                  {local("POST", api.PathShutdown, "Authorization", "Bearer "+secret), 200},
		"read from elsewhere":           {remote("GET", api.PathRuns), 403},
		"read from elsewhere, token":    {remote("GET", api.PathRuns, api.HeaderToken, secret), 200},
		"foreign host":                  {local("GET", api.PathRuns, "Host", "evil.example"), 421},
		"allowed host":                  {local("GET", api.PathRuns, "Host", "lab.example:8000"), 200},
		"localhost":                     {local("GET", api.PathRuns, "Host", "localhost:8000"), 200},
		"foreign page":                  {local("POST", api.PathShutdown, api.HeaderToken, secret, "Origin", "http://evil.example"), 403},
		"own page":                      {local("POST", api.PathShutdown, api.HeaderToken, secret, "Origin", "http://localhost:8000"), 200},
		"a page without a name of ours": {local("GET", api.PathRuns, "Origin", "null"), 403},
		"no such route":                 {local("GET", "/api/nothing"), 404},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
}

// Proves D.1, D.2, D.5, S-05.
func TestBadRequestsGetOneSentenceAndACode(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		text               string
	}{
		"not JSON":       {"POST", api.PathRuns, "hello", 422, "not the JSON"},
		"no graph":       {"POST", api.PathRuns, "{}", 422, "no graph"},
		"two documents":  {"POST", api.PathRuns, "{} {}", 422, "more than one"},
		"empty graph":    {"POST", api.PathRuns, `{"graph":{"nodes":[]}}`, 400, "no nodes"},
		"unknown option": {"POST", api.PathRuns, `{"options":{"gpu":1}}`, 400, "supported: after"},
		"large body":     {"POST", api.PathRuns, `{"name":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "larger than 1048576 bytes"},
		"empty bulk":     {"POST", api.PathRunsBulk, `{"runs":[]}`, 400, "1 to 1000"},
		"unknown run":    {"GET", "/api/runs/ffff", "", 404, `no run "ffff"`},
		"cursor":         {"GET", "/api/runs/" + id + "/events?cursor=-1", "", 400, "cursor"},
		"wait":           {"GET", "/api/runs/" + id + "/events?wait=61", "", 400, "wait"},
		"limit":          {"GET", "/api/runs?limit=501", "", 400, "limit"},
		"status":         {"GET", "/api/runs?status=done", "", 400, "unknown"},
		"format":         {"GET", "/api/runs/" + id + "/metrics?format=xml", "", 400, "json or csv"},
		"log offset":     {"GET", "/api/runs/" + id + "/log?offset=x", "", 400, "offset"},
		"delete active":  {"DELETE", "/api/runs/" + id, "", 409, "cancel it first"},
		"backup path":    {"POST", api.PathDBBackup, `{"path":"x.db"}`, 400, "absolute"},
		"grace":          {"POST", "/api/runs/" + id + "/cancel", `{"grace_s":-1}`, 400, "grace_s"},
	} {
		code, raw := w.request(c.method, c.path, c.body, api.HeaderToken, secret)
		var body api.ErrorBody
		if err := json.Unmarshal(raw, &body); err != nil || code != c.status || body.Error == nil || body.Error.Code == "" || !strings.Contains(body.Error.Message, c.text) {
			t.Errorf("%s: %d %s", name, code, raw)
		}
	}
}

func TestAPrefixNamesARun(t *testing.T) {
	w := newSite(t)
	seen := map[byte]string{}
	var shared string
	for shared == "" {
		id := w.submit(`,"hold":true`)
		if seen[id[0]] != "" {
			shared = id[:1]
		}
		seen[id[0]] = id
	}
	if code, raw := w.request("GET", "/api/runs/"+shared, ""); code != 409 || !strings.Contains(string(raw), "candidates") {
		t.Errorf("shared prefix: %d %s", code, raw)
	}
	id := seen[shared[0]]
	if code, raw := w.request("GET", "/api/runs/"+id[:12], ""); code != 200 || !strings.Contains(string(raw), id) {
		t.Errorf("prefix: %d %s", code, raw)
	}
}

// Proves D.5.
func TestALongPollWakesForAnEventAndForTheEnd(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	w.report(id, 1, protocol.Record{Type: protocol.Warning, Kind: "a"})
	type answer struct {
		page api.Events
		err  error
	}
	poll := func(cursor int64) chan answer {
		out := make(chan answer, 1)
		go func() {
			res, err := http.Get(fmt.Sprintf("%s/api/runs/%s/events?cursor=%d&wait=60", w.web.URL, id, cursor))
			var a answer
			if a.err = err; err == nil {
				a.err = json.NewDecoder(res.Body).Decode(&a.page)
				res.Body.Close()
			}
			out <- a
		}()
		return out
	}
	parked := poll(2)
	w.report(id, 2, protocol.Record{Type: protocol.Warning, Kind: "b"})
	if a := <-parked; a.err != nil || len(a.page.Events) == 0 || a.page.Cursor < 3 {
		t.Fatalf("%+v", a)
	}
	parked = poll(3)
	w.report(id, 3, finished(run.Succeeded))
	if a := <-parked; a.err != nil || len(a.page.Events) != 1 || a.page.Events[0].Type != run.EventExecutionComplete {
		t.Fatalf("%+v", a)
	}
	if a := <-poll(4); a.err != nil || a.page.Active || len(a.page.Events) != 0 || a.page.Cursor != 4 {
		t.Errorf("after the end: %+v", a)
	}
}

// R-06, D.5: ordered by name and step; CSV with a BOM, guarded against formulas.
func TestD4_MetricsThatAreNoOrdinaryNumbers(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	w.report(id, 1,
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":null,"nonfinite":"nan","step":1},{"name":"loss","value":null,"nonfinite":"-inf","step":2}]`)},
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":-0.0,"step":3},{"name":"n","value":9007199254740993,"step":1},{"name":"=evil()","value":1,"step":null}]`)},
		protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":0.25,"step":4}]`)},
	)
	code, raw := w.request("GET", "/api/runs/"+id+"/metrics", "")
	var m api.Metrics
	if err := json.Unmarshal(raw, &m); err != nil || code != 200 {
		t.Fatalf("%d %v %s", code, err, raw)
	}
	for _, want := range []string{
		`"name":"loss","step":1,"value":null,"nonfinite":"nan"`, `"value":null,"nonfinite":"-inf"`,
		`"step":3,"value":-0.0`, `"value":9007199254740993`, `"step":4,"value":0.25`,
	} {
		if !bytes.Contains(raw, []byte(want)) {
			t.Errorf("JSON lacks %s in %s", want, raw)
		}
	}
	_, raw = w.request("GET", "/api/runs/"+id+"/metrics?format=csv", "")
	lines := strings.Split(strings.TrimPrefix(string(raw), "\ufeff"), "\n")
	if lines[0] != "run_id,node_id,name,step,value,ts" || !strings.HasPrefix(string(raw), "\ufeff") || strings.Contains(string(raw), "\r") {
		t.Errorf("CSV frame: %q", raw)
	}
	for i, want := range []string{",'=evil(),,1,", ",loss,1,nan,", ",loss,2,-inf,", ",loss,3,-0.0,", ",loss,4,0.25,", ",n,1,9007199254740993,"} {
		if !strings.Contains(lines[i+1], want) {
			t.Errorf("CSV line %d is %s, want %s in it", i+1, lines[i+1], want)
		}
	}
	if code, raw = w.request("GET", "/api/runs/"+id, ""); code != 200 || !bytes.Contains(raw, []byte(`"loss":0.25`)) {
		t.Errorf("final metrics: %d %s", code, raw)
	}
}

// Proves R-07.
func TestTheLogIsByteExact(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	if err := os.MkdirAll(filepath.Join(w.dir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	out := console.Create(filepath.Join(w.dir, id), console.Options{})
	raw := bytes.Repeat([]byte{0, 1, 2, '\r', '\n', 0xff, 27, '['}, 300_000)
	out.Write(raw, time.Now())
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	w.report(id, 1, finished(run.Succeeded))
	if code, got := w.request("GET", "/api/runs/"+id+"/log", ""); code != 200 || !bytes.Equal(got, raw) {
		t.Errorf("%d: %d bytes of %d", code, len(got), len(raw))
	}
	if _, got := w.request("GET", "/api/runs/"+id+"/log?offset=5&limit=3", ""); !bytes.Equal(got, raw[5:8]) {
		t.Errorf("piece %q", got)
	}
	res, err := http.Get(w.web.URL + "/api/runs/" + id + fmt.Sprintf("/log?offset=%d&wait=60", len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.Header.Get(api.HeaderLogEnded) != "true" || res.Header.Get(api.HeaderLogSize) != fmt.Sprint(len(raw)) {
		t.Errorf("at the end: %v", res.Header)
	}
	if _, got := w.request("GET", "/api/runs/"+id+"/log/index", ""); !bytes.Contains(got, []byte(`"offset":0`)) {
		t.Errorf("index %s", got)
	}
}

func TestRerunCopiesAndChanges(t *testing.T) {
	w := newSite(t)
	id := w.submit(`,"key":"once","tags":["a"]`)
	code, raw := w.post("/api/runs/"+id+"/rerun", `{"args":["--lr","1"],"options":{"tags":["b"]},"name":"again"}`)
	var reply api.SubmitReply
	if err := json.Unmarshal(raw, &reply); err != nil || code != 200 || reply.RunID == id {
		t.Fatalf("%d %s", code, raw)
	}
	row, err := w.st.Run(context.Background(), reply.RunID)
	if err != nil || row.RerunOf != id || row.Name != "again" || row.Options.Key != "" || row.Options.Tags[0] != "b" {
		t.Errorf("%+v, %v", row, err)
	}
	if got := strings.Join(row.Options.Command.Argv, " "); got != "true --lr 1" {
		t.Errorf("argv %q", got)
	}
}

func TestDeleteRemovesARunWithItsFiles(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	w.report(id, 1, finished(run.Succeeded))
	if err := os.MkdirAll(filepath.Join(w.dir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	if code, raw := w.request("DELETE", "/api/runs/"+id, "", api.HeaderToken, secret); code != 200 {
		t.Fatalf("%d %s", code, raw)
	}
	if code, _ := w.request("GET", "/api/runs/"+id, ""); code != 404 {
		t.Errorf("after delete: %d", code)
	}
	if _, err := os.Stat(filepath.Join(w.dir, id)); !os.IsNotExist(err) {
		t.Errorf("files are left: %v", err)
	}
}

func TestPinsReachTheHost(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	if code, raw := w.post("/api/runs/"+id[:10]+"/pin", ""); code != 200 || w.pinned != id+"true" {
		t.Errorf("%d %s: %s", code, raw, w.pinned)
	}
	if code, raw := w.request("DELETE", "/api/runs/"+id+"/pin", "", api.HeaderToken, secret); code != 200 || w.pinned != id+"false" {
		t.Errorf("%d %s: %s", code, raw, w.pinned)
	}
}

// placer is what the registry tells of its workers.
type placer struct {
	*board.Board
	*runs.Service
}
