package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/scheduler"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs"
	"cdui/internal/server/runs/board"
	"cdui/internal/server/workers"
	"cdui/internal/server/workers/assign"
	"cdui/internal/store"
	"cdui/internal/token"
)

const (
	release      = "1.0.0"
	sessionToken = "the control plane's own"
	machineID    = "this machine"
)

// nobody executes nothing on the control plane's own machine.
type nobody struct{}

func (nobody) Start(context.Context, execution.Job, execution.Sink) error {
	return errors.New("not here")
}
func (nobody) Adopt(context.Context, []execution.Job, execution.Sink) error { return nil }
func (nobody) Cancel(context.Context, string, time.Duration, bool) error    { return nil }

// plane is a control plane's side of workers over a real store and real
// WebSockets, in a folder that survives restarts.
type plane struct {
	t      testing.TB
	dir    string
	change func(*workers.Config)
	// catalog is what the next start knows; nil are the built-in types.
	catalog *catalog.Catalog
	// cpus is how many runs a machine's processor takes at a time.
	cpus int
	// notify, if there, is told of each commit of a run.
	notify func(runID string)

	st  *store.Store
	reg *workers.Registry
	svc *runs.Service
	web *httptest.Server
}

func newPlane(t testing.TB, change func(*workers.Config)) *plane {
	p := &plane{t: t, dir: t.TempDir(), change: change, cpus: 2}
	p.start()
	t.Cleanup(p.stop)
	return p
}

func (p *plane) start() {
	p.t.Helper()
	var err error
	if p.st, err = store.Open(context.Background(), store.Config{Path: filepath.Join(p.dir, "cdui.db")}); err != nil {
		p.t.Fatal(err)
	}
	cat := p.catalog
	if cat == nil {
		if cat, err = catalog.Builtin(); err != nil {
			p.t.Fatal(err)
		}
	}
	current := func(context.Context) *catalog.Catalog { return cat }
	cfg := workers.Config{
		Store: p.st, Catalog: current, Version: release, MachineID: machineID, TokenHash: token.Hash(sessionToken),
		Heartbeat: 10 * time.Second, Grace: 30 * time.Second, Assign: assign.Builder{Catalog: current, PayloadCap: 1 << 17}, URL: "http://lab:8000",
	}
	if p.change != nil {
		p.change(&cfg)
	}
	p.reg = workers.New(cfg)
	p.svc = runs.New(runs.Config{
		Store: p.st, Executor: nobody{}, Workers: p.reg, Limits: scheduler.Limits{GPU: 1, CPU: p.cpus}, PayloadCap: 1 << 17,
		Devices: func() device.Inventory { return device.Inventory{{Device: "cpu", Kind: "cpu"}} },
		Catalog: current, Grace: 30 * time.Second, Interactive: 1, Notify: p.notify,
	})
	if err := p.reg.Load(context.Background(), placer{p.svc.Board(), p.svc}); err != nil {
		p.t.Fatal(err)
	}
	if err := p.svc.Load(context.Background()); err != nil {
		p.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/ws/worker", func(w http.ResponseWriter, r *http.Request) {
		if peer := r.Header.Get("Test-Peer"); peer != "" {
			r.RemoteAddr = peer
		}
		p.reg.Serve(w, r, r.Host != "evil.example")
	})
	mux.HandleFunc("/tunnel", func(w http.ResponseWriter, r *http.Request) { p.reg.ServeTunnel(w, r) })
	mux.HandleFunc("/enroll", func(w http.ResponseWriter, r *http.Request) {
		var body api.EnrollRequest
		_ = json.NewDecoder(r.Body).Decode(&body)
		reply, err := p.reg.Enroll(r, body)
		var refused *api.Error
		if errors.As(err, &refused) {
			w.WriteHeader(refused.Code.Status())
			_ = json.NewEncoder(w).Encode(refused)
			return
		}
		_ = json.NewEncoder(w).Encode(reply)
	})
	p.web = httptest.NewServer(mux)
}

func (p *plane) stop() {
	if p.reg == nil {
		return
	}
	p.reg.Close()
	p.web.Close()
	p.svc.Close()
	if err := p.st.Close(); err != nil {
		p.t.Error(err)
	}
	p.reg = nil
}

func (p *plane) restart() {
	p.t.Helper()
	p.stop()
	p.start()
}

func (p *plane) post(path string, body any) (int, string) {
	p.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.Post(p.web.URL+path, "application/json", strings.NewReader(string(raw)))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		p.t.Fatal(err)
	}
	said, _ := out["worker_token"].(string)
	if said == "" {
		said, _ = out["message"].(string)
	}
	return resp.StatusCode, said
}

// enrolled makes a worker and gives its token.
func (p *plane) enrolled(name string) string {
	p.t.Helper()
	e, err := p.reg.NewEnrollment(context.Background(), "ada", api.EnrollmentRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	status, secret := p.post("/enroll", api.EnrollRequest{Token: e.Token, Name: name, MachineID: "m", Version: release})
	if status != http.StatusOK || secret == "" {
		p.t.Fatalf("enroll %s: %d %s", name, status, secret)
	}
	return secret
}

func (p *plane) worker(name string) api.Worker {
	p.t.Helper()
	w, err := p.reg.Worker(context.Background(), name)
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

func (p *plane) submit(options map[string]any) string {
	p.t.Helper()
	options["command"] = map[string]any{"argv": []string{"true"}, "cwd": "/"}
	raw, err := json.Marshal(options)
	if err != nil {
		p.t.Fatal(err)
	}
	replies, err := p.svc.Submit(context.Background(), "", api.SubmitRequest{Options: raw})
	if err != nil {
		p.t.Fatal(err)
	}
	return replies[0].RunID
}

func on(worker string) map[string]any {
	return map[string]any{"target": map[string]any{"worker": worker}}
}

func (p *plane) view(id string) api.Run {
	p.t.Helper()
	row, err := p.st.Run(context.Background(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.svc.View(row)
}

func (p *plane) until(id string, status run.Status) api.Run {
	p.t.Helper()
	eventually(p.t, id+" is "+string(status), func() bool { return p.view(id).Status == status })
	return p.view(id)
}

// log gives a run's events: the type, and a warning's kind or a metric's text
// behind it.
func (p *plane) log(id string) []string {
	p.t.Helper()
	events, err := p.st.Events(context.Background(), id, 0, 10_000, 1<<30)
	if err != nil {
		p.t.Fatal(err)
	}
	out := []string{}
	for i, e := range events {
		if e.Cursor != int64(i+1) {
			p.t.Errorf("event %d of %s has cursor %d", i+1, id, e.Cursor)
		}
		var detail struct {
			Kind string `json:"kind"`
			N    *int   `json:"n"`
		}
		_ = json.Unmarshal(e.Payload, &detail)
		word := e.Type
		if detail.Kind != "" {
			word += " " + detail.Kind
		}
		out = append(out, word)
	}
	return out
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// agent is a fake agent: it sends what a test tells it to.
type agent struct {
	t     testing.TB
	conn  *websocket.Conn
	epoch uint64

	mu     sync.Mutex
	frames []protocol.Frame
	// heard may take a frame instead of frames.
	heard  func(protocol.Frame) bool
	closed *websocket.CloseError
	done   chan struct{}
}

type dialing struct {
	token, host, origin string
	// query is a token in the address, peer where the connection seems to come
	// from; empty is this machine.
	query, peer string
	// tunnel comes through one.
	tunnel bool
}

func (p *plane) dial(d dialing) *agent {
	p.t.Helper()
	h := http.Header{}
	if d.token != "" {
		h.Set(api.HeaderToken, d.token)
	}
	if d.peer != "" {
		h.Set("Test-Peer", d.peer)
	}
	if d.origin != "" {
		h.Set("Origin", d.origin)
	}
	if d.host != "" {
		h.Set("Host", d.host)
	}
	door := "/ws/worker"
	if d.tunnel {
		door = "/tunnel"
	}
	conn, resp, err := websocket.DefaultDialer.Dial(strings.Replace(p.web.URL, "http", "ws", 1)+door+"?token="+url.QueryEscape(d.query), h)
	if err != nil {
		p.t.Fatalf("dial: %v, %v", err, resp)
	}
	conn.SetReadLimit(protocol.MaxFrameBytes)
	a := &agent{t: p.t, conn: conn, done: make(chan struct{})}
	go a.read()
	p.t.Cleanup(func() {
		conn.Close()
		<-a.done
	})
	return a
}

func (a *agent) read() {
	defer close(a.done)
	defer a.conn.Close()
	var joiner protocol.Joiner
	for {
		_, raw, err := a.conn.ReadMessage()
		if err != nil {
			a.mu.Lock()
			errors.As(err, &a.closed)
			a.mu.Unlock()
			return
		}
		env, err := protocol.DecodeFromServer(raw)
		if part, ok := env.Frame.(*protocol.Part); err == nil && ok {
			whole, err := joiner.Add(part)
			if err != nil || whole == nil {
				continue
			}
			env, _ = protocol.DecodeFromServer(whole)
		}
		if err != nil {
			a.t.Errorf("the control plane sent %.100q: %v", raw, err)
			continue
		}
		a.mu.Lock()
		heard := a.heard
		a.mu.Unlock()
		if heard != nil && heard(env.Frame) {
			continue
		}
		a.mu.Lock()
		a.frames = append(a.frames, env.Frame)
		if _, ok := env.Frame.(*protocol.Welcome); ok {
			a.epoch = env.Epoch
		}
		a.mu.Unlock()
	}
}

func (a *agent) send(f protocol.Frame) {
	a.t.Helper()
	a.mu.Lock()
	epoch := a.epoch
	a.mu.Unlock()
	raw, err := protocol.Encode(epoch, f)
	if err != nil {
		a.t.Fatal(err)
	}
	a.raw(raw)
}

// raw sends bytes; a connection that is closed meanwhile is no error.
func (a *agent) raw(b []byte) { _ = a.conn.WriteMessage(websocket.TextMessage, b) }

// take waits for a frame of a type and takes it out.
func take[F protocol.Frame](a *agent) F {
	a.t.Helper()
	var found F
	eventually(a.t, "a frame of type "+string(found.FrameType()), func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i, f := range a.frames {
			if got, ok := f.(F); ok {
				a.frames = append(a.frames[:i:i], a.frames[i+1:]...)
				found = got
				return true
			}
		}
		return false
	})
	return found
}

// assigned waits for the assignment of a run.
func (a *agent) assigned(id string) *protocol.Assign {
	a.t.Helper()
	as := take[*protocol.Assign](a)
	if as.RunID != id {
		a.t.Fatalf("assigned %s, want %s", as.RunID, id)
	}
	return as
}

// ended waits for the end of the connection and gives its close code.
func (a *agent) ended() int {
	a.t.Helper()
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
		a.t.Fatal("still connected after 10 s")
	}
	if a.closed == nil {
		return 0
	}
	return a.closed.Code
}

func hello(name string, change func(*protocol.Hello)) *protocol.Hello {
	uuid := "GPU-1"
	h := &protocol.Hello{
		Name: name, Version: release, Protocol: protocol.Version, Nonce: "nonce of " + name, TS: time.Now(), MachineID: "m",
		Platform:     protocol.Platform{OS: "linux", Arch: "amd64", Cores: 8, MemoryMiB: 1000},
		Devices:      device.Inventory{{Device: "cpu", Kind: "cpu"}, {Device: "cuda:0", Kind: "cuda", UUID: &uuid}},
		Capabilities: protocol.Capabilities{protocol.CapAck, protocol.CapFrames, protocol.CapParts, protocol.CapLogs},
	}
	if change != nil {
		change(h)
	}
	return h
}

// connect dials, says hello and lists runs.
func (p *plane) connect(secret, name string, change func(*protocol.Hello), alive ...protocol.AliveRun) *agent {
	p.t.Helper()
	a := p.dial(dialing{token: secret})
	a.send(hello(name, change))
	take[*protocol.Welcome](a)
	if alive == nil {
		alive = []protocol.AliveRun{}
	}
	a.send(&protocol.RunAlive{Runs: alive})
	return a
}

func alive(as *protocol.Assign) protocol.AliveRun {
	return protocol.AliveRun{RunID: as.RunID, Attempt: as.Attempt, State: protocol.AliveRunning}
}

// record makes the record with number seq.
func record(t testing.TB, seq uint64, r protocol.Record) json.RawMessage {
	t.Helper()
	r.Seq, r.TS = seq, time.Now().UTC()
	raw, err := protocol.EncodeRecord(&r)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func started() protocol.Record {
	return protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 7, VisibleDevices: []string{"cpu"}}}
}

func note(kind string) protocol.Record { return protocol.Record{Type: protocol.Warning, Kind: kind} }

func finished(status run.Status) protocol.Record {
	code := 0
	return protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: string(status), Exit: protocol.Exit{Code: &code}}}
}

// report sends records of an assignment, the first with number from.
func (a *agent) report(as *protocol.Assign, from uint64, records ...protocol.Record) {
	a.t.Helper()
	raws := make([]json.RawMessage, len(records))
	for i, r := range records {
		raws[i] = record(a.t, from+uint64(i), r)
	}
	a.send(&protocol.Frames{Runs: []protocol.RunRecords{{RunID: as.RunID, Attempt: as.Attempt, Records: raws}}})
}

// ackedTo waits until records up to seq are acknowledged.
func (a *agent) ackedTo(as *protocol.Assign, seq uint64) {
	a.t.Helper()
	for {
		ack := take[*protocol.Ack](a)
		if ack.RunID == as.RunID && ack.Attempt == as.Attempt && ack.Seq >= seq {
			return
		}
	}
}

// cut breaks the connection off without a word.
func (a *agent) cut() { a.conn.NetConn().Close() }

// placer is what the registry tells of its workers.
type placer struct {
	*board.Board
	*runs.Service
}
