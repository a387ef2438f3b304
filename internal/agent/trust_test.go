package agent_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cdui/internal/agent"
	"cdui/internal/agent/enroll"
	"cdui/internal/agent/folder"
	"cdui/internal/agent/session"
	"cdui/internal/protocol"
	"cdui/internal/tlspin"
)

// TestEnrollment: ENR-02, ENR-03, K-02.
func TestEnrollment(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg := config(t, p)
	cfg.SessionTokenFile, cfg.EnrollToken = "", "good-1"
	w := launch(t, cfg)
	p.await("a connection", func() bool { return p.peer != nil })
	if err := w.end(); err != nil {
		t.Error(err)
	}
	if len(p.enrolled) != 1 || p.enrolled[0].Name != "box" || p.enrolled[0].MachineID == "" || p.enrolled[0].Version == "" {
		t.Errorf("enrolled by %+v", p.enrolled)
	}
	if p.tokens[0] != "worker-good-1" {
		t.Errorf("connected with %q", p.tokens[0])
	}
	dir := folder.Path(cfg.DataDir, "box")
	if info, err := os.Stat(filepath.Join(dir, "token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("token file %v, %v", info, err)
	}
	if note, err := os.ReadFile(filepath.Join(dir, "agent.json")); err != nil || strings.Contains(string(note), "good-1") {
		t.Errorf("the note %s, %v", note, err)
	}

	// A unit file that still names the spent token starts the agent again.
	for _, cfg.EnrollToken = range []string{"good-1", ""} {
		if err := launch(t, cfg).end(); err != nil {
			t.Error(err)
		}
	}
	if len(p.enrolled) != 1 {
		t.Errorf("enrolled %d times", len(p.enrolled))
	}
	// Another token enrolls it anew.
	cfg.EnrollToken = "good-2"
	launch(t, cfg)
	p.await("the new token", func() bool { return slices.Contains(p.tokens, "worker-good-2") })

	other := config(t, p)
	other.SessionTokenFile, other.EnrollToken = "", "spent"
	if err := agent.Run(t.Context(), other); err == nil || !strings.Contains(err.Error(), "the token is used up") {
		t.Errorf("a spent token: %v", err)
	}
	other.EnrollToken = ""
	if err := agent.Run(t.Context(), other); !errors.Is(err, enroll.ErrNoToken) {
		t.Errorf("no token: %v", err)
	}
}

// TestARevokedTokenEndsAnIdleAgent: K-08, SEC-05.
func TestARevokedTokenEndsAnIdleAgent(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.close = protocol.CloseUnauthorized
	w := launch(t, config(t, p))
	var refusal *session.Refusal
	if err := w.wait(); !errors.As(err, &refusal) || refusal.CloseCode != protocol.CloseUnauthorized || !strings.Contains(err.Error(), "cdui workers add") {
		t.Errorf("ended with %v", err)
	}
}

// TestARefusedWorkerKeepsItsRunsForTheGrace: K-08.
func TestARefusedWorkerKeepsItsRunsForTheGrace(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.resumeGrace, p.grace = 2*time.Second, time.Second
	cfg := config(t, p)
	w := launch(t, cfg)
	key := newRun()
	p.send(script(t, key, "hold", filepath.Join(t.TempDir(), "never")))
	pid := p.started(key)
	p.change(func() { p.close = protocol.CloseUnauthorized })
	p.mu.Lock()
	me := p.peer
	p.mu.Unlock()
	_ = me.conn.WriteControl(8, []byte{0x11, 0x31}, time.Now().Add(time.Second)) // 4401
	eventually(t, "the agent knows that it is refused", func() bool {
		s, err := agent.Query(t.Context(), cfg.DataDir, cfg.Name)
		return err == nil && s.Refused && !s.Connected
	})
	if syscall.Kill(pid, 0) != nil {
		t.Error("the run went before the grace was over")
	}
	var refusal *session.Refusal
	if err := w.wait(); !errors.As(err, &refusal) {
		t.Errorf("ended with %v", err)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Error("the run is still there")
	}

	// What it has of the run is told when it is let in again.
	p.change(func() { p.close = 0 })
	launch(t, cfg)
	if end := p.end(key); end.Status != "cancelled" {
		t.Errorf("ended with %+v", end)
	}
}

// TestARejectedWorkerIsTakenAgain: K-08, SEC-07, SEC-08.
func TestARejectedWorkerIsTakenAgain(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg := config(t, p)
	launch(t, cfg)
	file := filepath.Join(t.TempDir(), "go")
	key := newRun()
	p.send(script(t, key, "until", file))
	pid := p.started(key)
	p.change(func() {
		p.reject = &protocol.Reject{Code: protocol.RejectVersionMismatch, Reason: "the worker is 1.0, the control plane 2.0"}
	})
	p.cut()
	eventually(t, "the reason is shown", func() bool {
		s, err := agent.Query(t.Context(), cfg.DataDir, cfg.Name)
		return err == nil && s.Refused && strings.Contains(s.Problem, "the worker is 1.0, the control plane 2.0")
	})
	p.change(func() { p.reject = nil })
	p.await("a welcome", func() bool { return p.peer != nil && len(p.alive) == 2 })
	release(t, file)
	if end := p.end(key); end.Status != "succeeded" || p.started(key) != pid {
		t.Errorf("ended with %+v", end)
	}
	if got := p.counts(key); !slices.Equal(got, ascending(len(got))) || p.gaps != 0 {
		t.Errorf("counted %v with %d gaps", got, p.gaps)
	}
}

// TestAnAgentThatIsKilledFindsItsRuns: P1, DSC-08, DSC-09, C4, W-05.
func TestAnAgentThatIsKilledFindsItsRuns(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg := config(t, p)
	process := func() *exec.Cmd {
		plain := cfg
		plain.Logger, plain.Cards = nil, nil
		b, err := json.Marshal(struct {
			Control, Name, DataDir, SessionTokenFile, Python string
			Environ                                          []string
		}{plain.Control, plain.Name, plain.DataDir, plain.SessionTokenFile, plain.Python, plain.Environ})
		if err != nil {
			t.Fatal(err)
		}
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), exe, "agent", string(b))
		cmd.Stderr = logWriterOf(t)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	first := process()
	defer endRuns(t, cfg)
	file := filepath.Join(t.TempDir(), "go")
	live, ended := newRun(), newRun()
	p.send(script(t, live, "until", file))
	pid := p.started(live)
	endedFile := filepath.Join(t.TempDir(), "go")
	p.send(script(t, ended, "hold", endedFile))
	p.started(ended)

	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	// One run ends while nobody is there.
	release(t, endedFile)
	eventually(t, "the run has ended", func() bool {
		_, err := os.Stat(filepath.Join(folder.Path(cfg.DataDir, cfg.Name), "agent-runs", ended.run, "exit.json"))
		return err == nil
	})
	w := launch(t, cfg)
	if end := p.end(ended); end.Status != "succeeded" {
		t.Errorf("the run that ended meanwhile: %+v", end)
	}
	before := p.count(live)
	p.await("more of the live run", func() bool { return len(p.records[live]) > before+20 })
	release(t, file)
	if end := p.end(live); end.Status != "succeeded" || p.started(live) != pid {
		t.Errorf("the run that went on: %+v, pid %d and then %d", end, pid, p.started(live))
	}
	if got := p.counts(live); !slices.Equal(got, ascending(len(got))) || p.gaps != 0 {
		t.Errorf("counted %v with %d gaps", got, p.gaps)
	}
	if p.hellos[0].Nonce == p.hellos[1].Nonce || p.hellos[1].HeldRuns != 2 {
		t.Errorf("hellos %+v, %+v", p.hellos[0], p.hellos[1])
	}
	w.clean(live)
	w.clean(ended)
}

// TestASupervisorThatIsKilledIsReported: R-03.
func TestASupervisorThatIsKilledIsReported(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg := config(t, p)
	cfg.Isolate = "none"
	w := launch(t, cfg)
	key := newRun()
	p.send(script(t, key, "hold", filepath.Join(t.TempDir(), "never")))
	pid := p.started(key)
	var note struct {
		Shim struct {
			PID int `json:"pid"`
		} `json:"shim"`
	}
	b, err := os.ReadFile(filepath.Join(folder.Path(cfg.DataDir, cfg.Name), "agent-runs", key.run, "shim.json"))
	if err != nil || json.Unmarshal(b, &note) != nil {
		t.Fatalf("%s, %v", b, err)
	}
	if err := syscall.Kill(note.Shim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if end := p.end(key); end.Status != "interrupted" || end.EndClass != "killed" {
		t.Errorf("ended with %+v", end)
	}
	if p.gaps != 0 {
		t.Errorf("%d gaps", p.gaps)
	}
	eventually(t, "the child is gone", func() bool { return syscall.Kill(pid, 0) != nil })
	w.clean(key)
}

// courier is a storage of the tests' own.
type courier struct {
	agent.Storage
	mu      sync.Mutex
	fetched []string
	wrote   []string
	brought map[string]int
	fail    func(try int) error
	log     map[string]string
}

func (c *courier) Fetch(_ context.Context, job agent.Job, a *protocol.Assign) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fetched = append(c.fetched, job.RunID)
	if a.Code == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(job.Folders.Code, "hello.sh"), []byte("echo from the folder; cat data.txt; pwd\n"), 0o600)
}

func (c *courier) Wrote(_ agent.Job, rec protocol.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrote = append(c.wrote, rec.Path)
}

func (c *courier) Bring(_ context.Context, job agent.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brought[job.RunID]++
	if c.fail != nil {
		if err := c.fail(c.brought[job.RunID]); err != nil {
			return err
		}
	}
	b, _, err := job.Console.Tail(1 << 16)
	c.log[job.RunID] = string(b)
	return err
}

// TestFilesComeAndGo: XFER-04, XFER-06, R-07, ST-01.
func TestFilesComeAndGo(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg := config(t, p)
	store := &courier{brought: map[string]int{}, log: map[string]string{}}
	store.fail = func(try int) error {
		if try == 1 {
			return errors.New("the link is down")
		}
		return nil
	}
	cfg.Storage = func(up agent.Upstream) agent.Storage {
		if got, err := up.Token(); err != nil || got != "session" || up.URL != p.http.URL {
			t.Errorf("upstream %+v, %q, %v", up, got, err)
		}
		return store
	}
	w := launch(t, cfg)
	key := newRun()
	a := command(key, "sh", "hello.sh")
	a.Command.Cwd = ""
	a.Code = &protocol.Code{Hash: "h"}
	p.send(a)
	if end := p.end(key); end.Exit.Code == nil {
		t.Errorf("ended with %+v", end)
	}
	store.mu.Lock()
	if store.brought[key.run] != 2 || !strings.Contains(store.log[key.run], "from the folder") || !strings.Contains(store.log[key.run], key.run+"/code") {
		t.Errorf("brought back %d times, log %q", store.brought[key.run], store.log[key.run])
	}
	store.fail = func(int) error { return agent.ErrLasting }
	store.mu.Unlock()
	w.clean(key)

	lost := newRun()
	file := filepath.Join(t.TempDir(), "go")
	release(t, file)
	p.send(script(t, lost, "hold", file))
	if end := p.end(lost); end.Status != "failed" || end.Code != protocol.CodeWorkerTransferFailed {
		t.Errorf("without its files: %+v", end)
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	if !slices.Equal(store.wrote, []string{"/model.pt"}) {
		t.Errorf("artifacts %q", store.wrote)
	}
	if !p.hellos[0].Capabilities.Has(protocol.CapTransfer) {
		t.Error("hello does not claim transfer")
	}
}

// TestWithoutStorageCodeIsRefused: PRO-04.
func TestWithoutStorageCodeIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	launch(t, config(t, p))
	key := newRun()
	a := command(key, "true")
	a.Command.Cwd, a.Code = "", &protocol.Code{Hash: "h"}
	p.send(a)
	if end := p.end(key); end.Code != protocol.RefuseUnsupported {
		t.Errorf("ended with %+v", end)
	}
	if p.hellos[0].Capabilities.Has(protocol.CapTransfer) {
		t.Error("hello claims transfer")
	}
}

// text joins the bytes of a log's chunks.
func (p *plane) text(request string) (text string, final *protocol.LogChunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, c := range p.chunks[request] {
		b.Write(c.Data)
		if c.Final {
			final = c
		}
	}
	return b.String(), final
}

func (p *plane) log(f *protocol.FetchLog) (string, *protocol.LogChunk) {
	p.t.Helper()
	p.send(f)
	p.await("the log", func() bool {
		list := p.chunks[f.RequestID]
		return len(list) > 0 && list[len(list)-1].Final
	})
	return p.text(f.RequestID)
}

// TestLogsOnRequest: R-07, W-03.
func TestLogsOnRequest(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	launch(t, config(t, p))
	file := filepath.Join(t.TempDir(), "go")
	key := newRun()
	p.send(script(t, key, "hold", file))
	p.await("the artifact", func() bool {
		return slices.ContainsFunc(p.records[key], func(r protocol.Record) bool { return r.Type == protocol.Artifact })
	})
	follow := &protocol.FetchLog{RequestID: "follow", RunID: key.run, Follow: true, Credit: 8}
	p.send(follow)
	p.await("what the credit allows", func() bool { return len(p.chunks["follow"]) == 1 })
	if got, _ := p.text("follow"); got != "holding\n" {
		t.Errorf("within the credit came %q", got)
	}
	for _, c := range []struct {
		id            string
		offset, limit int64
		want          string
	}{{"all", 0, 0, "holding\n"}, {"tail", -4, 0, "ing\n"}, {"some", 2, 3, "ldi"}, {"beyond", 100, 0, ""}} {
		got, final := p.log(&protocol.FetchLog{RequestID: c.id, RunID: key.run, Offset: c.offset, Limit: c.limit, Credit: 1000})
		if got != c.want || final.Problem != nil || final.Size != 8 || final.Ended {
			t.Errorf("%s: %q, %+v", c.id, got, final)
		}
	}
	p.send(&protocol.FetchLog{RequestID: "index", RunID: key.run, Index: true})
	p.await("the index", func() bool { return len(p.chunks["index"]) == 2 })
	if marks := p.chunks["index"][0].Marks; len(marks) == 0 || marks[0].Offset != 0 || marks[0].UnixMS == 0 {
		t.Errorf("marks %+v", marks)
	}
	_, final := p.log(&protocol.FetchLog{RequestID: "nobody", RunID: "nobody", Credit: 10})
	if final.Problem == nil || final.Problem.Code != protocol.LogNotFound {
		t.Errorf("no such run: %+v", final)
	}
	p.send(&protocol.FetchLog{RequestID: "dropped", RunID: key.run, Follow: true, Credit: 1000})
	p.await("the first chunk", func() bool { return len(p.chunks["dropped"]) == 1 })
	p.send(&protocol.CancelFetch{RequestID: "dropped"})
	// Frames are taken in order: with this answer the cancel is heard.
	p.log(&protocol.FetchLog{RequestID: "after", RunID: key.run, Credit: 1000})

	p.change(func() { p.deaf = true }) // or its files go with the acknowledgement
	release(t, file)
	p.end(key)
	p.send(&protocol.Credit{RequestID: "follow", Bytes: 1000})
	p.await("the end of the log", func() bool {
		list := p.chunks["follow"]
		return list[len(list)-1].Final
	})
	got, final := p.text("follow")
	if got != "holding\nreleased\n" || !final.Ended || final.Problem != nil {
		t.Errorf("followed %q, %+v", got, final)
	}
	if got, final := p.text("dropped"); got != "holding\n" || final != nil {
		t.Errorf("after cancel_fetch came %q, %+v", got, final)
	}
}

// TestAPinnedKey: TLS-01.
func TestAPinnedKey(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	front := httptest.NewUnstartedServer(p.http.Config.Handler)
	front.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	front.StartTLS()
	t.Cleanup(func() {
		p.cut()
		front.CloseClientConnections()
		front.Close()
	})
	cfg := config(t, p)
	cfg.Control, cfg.SessionTokenFile, cfg.EnrollToken = front.URL, "", "good-tls"

	pin := tlspin.Of(front.Certificate())
	wrong := pin
	wrong[3] ^= 1
	cfg.Pin = wrong.String()
	if err := agent.Run(t.Context(), cfg); !errors.Is(err, tlspin.ErrMismatch) {
		t.Errorf("another key: %v", err)
	}
	if len(p.enrolled) != 0 {
		t.Error("the one-time token was shown to a stranger")
	}
	cfg.Pin = pin.String()
	w := launch(t, cfg)
	p.await("a connection", func() bool { return p.peer != nil })
	if err := w.end(); err != nil {
		t.Error(err)
	}

	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Pin, cfg.CAFile = "", ca
	sessions := len(p.tokens)
	launch(t, cfg)
	p.await("a connection by the authority", func() bool { return len(p.tokens) > sessions })

	for _, bad := range []func(*agent.Config){
		func(c *agent.Config) { c.Pin = "sha256:zz" },
		func(c *agent.Config) { c.Pin = pin.String() },
		func(c *agent.Config) { c.Pin, c.CAFile, c.Control = pin.String(), "", "http://h:1" },
		func(c *agent.Config) { c.CAFile = filepath.Join(t.TempDir(), "gone") },
		func(c *agent.Config) { c.Name = "any" },
		func(c *agent.Config) { c.Mounts = map[string]string{"data": "relative"} },
		func(c *agent.Config) { c.Devices = []string{"cuda:9"} },
		func(c *agent.Config) { c.Control = "" },
	} {
		c := cfg
		c.DataDir = t.TempDir()
		bad(&c)
		if err := agent.Run(t.Context(), c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestWhatRunsLeftIsPruned: what a crash left goes, checkpoints wait for the
// run's next attempt.
func TestWhatRunsLeftIsPruned(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg := config(t, p)
	files := filepath.Join(folder.Path(cfg.DataDir, cfg.Name), "files")
	kept := filepath.Join(files, "kept", "checkpoints", "last.pt")
	for _, path := range []string{kept, filepath.Join(files, "left", "code", "train.py")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	launch(t, cfg)
	eventually(t, "what was left is gone", func() bool {
		_, err := os.Stat(filepath.Join(files, "left"))
		return os.IsNotExist(err)
	})
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("checkpoints: %v", err)
	}
}
