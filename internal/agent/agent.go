package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"cdui/internal/agent/enroll"
	"cdui/internal/agent/fingerprint"
	"cdui/internal/agent/folder"
	"cdui/internal/agent/offer"
	"cdui/internal/agent/prepare"
	"cdui/internal/agent/session"
	"cdui/internal/agent/supervise"
	"cdui/internal/agent/via"
	"cdui/internal/nvml"
	"cdui/internal/protocol"
	"cdui/internal/pyruntime"
	"cdui/internal/scope"
	"cdui/internal/shimhost"
	"cdui/internal/token"
	"cdui/internal/warm/stock"
)

// errStopped is the cause of an ordered end.
var errStopped = errors.New("the agent was told to stop")

// agent is what a session speaks for.
type agent struct {
	cfg     Config
	folder  *folder.Folder
	book    *book
	door    *door
	devices *offer.Devices
	facts   fingerprint.Facts
	nonce   string
	// tunnel is the way to the control plane where it is one, dial what
	// connects through it; nil both where there is none.
	tunnel *via.Tunnel
	dial   via.Dial

	// stop ends the agent.
	stop context.CancelCauseFunc

	mu   sync.Mutex
	note folder.Note
}

// Run is the worker. It ends when ctx is over or somebody stops it, with nil,
// and with an error when it can't begin or is not wanted any more. Its runs go
// on in every case but a stop that cancels them.
func Run(ctx context.Context, cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	f, err := folder.Open(cfg.DataDir, cfg.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	tlsCfg, err := enroll.TLS(cfg.Pin, cfg.CAFile)
	if err != nil {
		return err
	}
	tunnel, dial := via.New(cfg.Tunnel)
	note, err := enroll.Enroll(ctx, enroll.Config{
		Control: cfg.Control, Pin: cfg.Pin, CAFile: cfg.CAFile, Token: cfg.EnrollToken, Name: cfg.Name,
		Dial: dial, Tunnel: cfg.Tunnel, Logger: cfg.Logger,
	}, f, tlsCfg)
	if err != nil {
		return err
	}
	tokens := enroll.TokenSource(f, cfg.SessionTokenFile)
	if _, err := tokens(); err != nil {
		return err
	}
	root, err := pyruntime.Extract(cfg.DataDir)
	if err != nil {
		return err
	}
	host, err := shimhost.New(shimhost.Config{
		Dir: f.RunsDir(), Exe: cfg.Exe, Isolate: cfg.Isolate, Scopes: scope.New(scope.Config{Logger: cfg.Logger}), Logger: cfg.Logger,
	})
	if err != nil {
		return err
	}
	defer host.Close()
	cards := cfg.Cards
	if cards == nil {
		cards = nvml.NewProber(nvml.Config{Exe: cfg.Exe, Logger: cfg.Logger})
	}
	defer cards.Close()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a := &agent{cfg: cfg, folder: f, note: note, nonce: token.New(), stop: stop, tunnel: tunnel, dial: dial}
	if a.devices, err = offer.New(ctx, cards, cfg.Environ, cfg.Devices, cfg.Logger); err != nil {
		return err
	}
	nodes := userNodes(cfg.DataDir)
	a.facts = fingerprint.Collect(ctx, fingerprint.Config{
		Python: cfg.Python, Environ: cfg.Environ, Runtime: root, NodesDir: nodes, Logger: cfg.Logger,
	})
	storage := Storage(noStorage{})
	if cfg.Storage != nil {
		storage = cfg.Storage(Upstream{URL: cfg.Control, TLS: tlsCfg.Clone(), Token: tokens, Dial: dial})
	}
	a.book = &book{
		host: host, folder: f, storage: storage, log: cfg.Logger,
		surroundings: prepare.Surroundings{
			Runtime: root, NodesDir: nodes, Python: a.facts.Python.Path, PythonProblem: a.facts.Python.Problem,
			Environ: cfg.Environ, PassEnv: cfg.PassEnv, Cores: a.facts.Cores, Mounts: cfg.Mounts,
			Visible: a.devices.CUDAVisible, Host: func(names []string) json.RawMessage { return a.facts.With(a.devices.Inventory(), names) },
		},
		torch: a.facts.Python.Imports, offered: func() []string { return a.devices.Inventory().Names() },
		runs: map[supervise.Key]*held{}, changed: make(chan struct{}),
		grace: protocol.DefaultGrace, resume: resumeGrace(note),
	}
	a.book.stock = stock.New(stock.Config{
		Host: host, Keep: cfg.Warm, Devices: a.book.offered, Usual: a.book.usual, Logger: cfg.Logger,
	})
	return a.work(ctx, tlsCfg, tokens)
}

func resumeGrace(n folder.Note) time.Duration {
	if n.ResumeGraceS > 0 {
		return time.Duration(n.ResumeGraceS) * time.Second
	}
	return defaultResume
}

// pruneEvery is how often files of runs are looked through.
const pruneEvery = time.Hour

// work takes the runs over, connects, and stays until ctx is over.
func (a *agent) work(ctx context.Context, tlsCfg *tls.Config, tokens func() (string, error)) error {
	client, err := session.New(session.Config{
		URL: a.cfg.Control, TLS: tlsCfg, Dial: a.dial, Token: tokens, Worker: a, Logger: a.cfg.Logger,
	})
	if err != nil {
		return err
	}
	b := a.book
	b.ctx, b.follower = ctx, client
	a.door = &door{book: b, giveUp: a.stop}
	if err := b.find(ctx); err != nil {
		return err
	}
	control, err := a.listen()
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { control.serve(ctx) })
	wg.Go(func() { b.stock.Run(ctx) })
	wg.Go(func() { a.devices.Watch(ctx, b.step) })
	wg.Go(func() {
		for ok := true; ok; ok = pause(ctx, pruneEvery) {
			b.prune(time.Now())
		}
	})
	b.step()
	if a.cfg.Ready != nil {
		a.cfg.Ready()
	}
	wg.Go(func() { client.Run(ctx) })
	wg.Go(func() { a.tunnel.Watch(ctx, client.Redial) })
	<-ctx.Done()
	control.close()
	wg.Wait()
	a.door.stop()
	b.close()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopped), errors.Is(cause, context.Canceled):
		return nil
	default:
		return cause
	}
}

// cancelRuns ends every run and waits until the control plane knows, so far as
// that is to be had.
func (a *agent) cancelRuns() {
	b := a.book
	b.change(func() { b.stopping, b.stopAll = true, &supervise.Stop{Grace: stopGrace} })
	b.await(stopGrace+20*time.Second, func() bool {
		for _, h := range b.runs {
			if h.Phase == supervise.Preparing || h.Phase == supervise.Live {
				return false
			}
		}
		return true
	})
	b.await(stopGrace, func() bool { return len(b.runs) == 0 || !a.door.link.Up })
}

// Hello implements session.Worker.
func (a *agent) Hello() *protocol.Hello {
	f := a.facts
	h := &protocol.Hello{
		Name: a.cfg.Name, Version: f.CDUI, Protocol: protocol.Version, MachineID: f.MachineID,
		Nonce: a.nonce, TS: time.Now().UTC(),
		Platform: protocol.Platform{
			OS: f.Platform.OS, Arch: f.Platform.Arch, Release: f.Platform.Kernel, Hostname: f.Platform.Hostname, Cores: f.Cores,
		},
		Devices: a.devices.Inventory(), Capabilities: a.capabilities(), Mounts: a.cfg.Mounts,
		Catalog: &protocol.Catalog{Hash: f.Catalog.Hash, Types: f.Catalog.Types}, HeldRuns: len(a.book.alive()),
	}
	if f.MemoryMiB != nil {
		h.Platform.MemoryMiB = *f.MemoryMiB
	}
	if f.Python.Version != "" {
		h.Python = &protocol.Python{Path: f.Python.Path, Version: f.Python.Version, Torch: known(f.Python.Torch), CUDA: known(f.Python.CUDA)}
	}
	if doc, err := json.Marshal(f); err == nil {
		h.Fingerprint = doc
	}
	return h
}

func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (a *agent) capabilities() protocol.Capabilities {
	caps := protocol.Capabilities{
		protocol.CapAck, protocol.CapFrames, protocol.CapLogs, protocol.CapMemoryBudget, protocol.CapMounts, protocol.CapParts, protocol.CapRunFacts,
	}
	if a.cfg.Storage != nil {
		caps = append(caps, protocol.CapTransfer)
	}
	return caps
}

// Heartbeat implements session.Worker.
func (a *agent) Heartbeat() *protocol.Heartbeat {
	ids, draining := a.book.executing()
	return &protocol.Heartbeat{Devices: a.devices.Inventory(), Runs: ids, Draining: draining}
}

// Alive implements session.Worker.
func (a *agent) Alive() []protocol.AliveRun { return a.book.alive() }

// Log implements session.Worker.
func (a *agent) Log(runID string) (session.Log, error) { return a.book.runLog(runID) }

// Order implements session.Worker.
func (a *agent) Order(f protocol.Frame) {
	if w, ok := f.(*protocol.Welcome); ok {
		a.keepWelcome(w)
	}
	a.book.order(f)
}

// keepWelcome notes what outlives this process.
func (a *agent) keepWelcome(w *protocol.Welcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.note
	n.WorkerID = w.WorkerID
	if d := w.ResumeGraceS.Duration(); d > 0 {
		n.ResumeGraceS = int64(d.Seconds())
	}
	if n == a.note {
		return
	}
	if err := a.folder.KeepNote(n); err != nil {
		a.cfg.Logger.Warn("note of the agent", "error", err)
		return
	}
	a.note = n
}

// Link implements session.Worker.
func (a *agent) Link(l session.Link) { a.door.moved(l) }
