package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/fsinfo"
	"cdui/internal/hostinfo"
	"cdui/internal/pyruntime"
	"cdui/internal/scheduler"
	"cdui/internal/scope"
	"cdui/internal/server/catalogs"
	"cdui/internal/server/feed"
	"cdui/internal/server/files"
	"cdui/internal/server/hooks"
	"cdui/internal/server/httpapi"
	"cdui/internal/server/local"
	"cdui/internal/server/policies"
	"cdui/internal/server/runs"
	"cdui/internal/server/studies"
	"cdui/internal/server/sweeps"
	"cdui/internal/server/tokens"
	"cdui/internal/server/tunnels"
	"cdui/internal/server/workers"
	"cdui/internal/shimhost"
	"cdui/internal/store"
	"cdui/internal/sweep"
	"cdui/internal/token"
	"cdui/internal/version"
	"cdui/internal/warm/stock"
)

// Config is what a control plane is started with.
type Config struct {
	DataDir      string
	Listen       string
	AllowedHosts []string
	Limits       scheduler.Limits
	PayloadCap   int
	ResponseCap  int
	BodyCap      int64
	Grace        time.Duration
	Isolate      string
	// Python is the interpreter for runs that name none; empty: python3.
	Python  string
	Environ []string
	// Warm is how many spares are always kept; 0 keeps them after runs that
	// used torch, -1 never.
	Warm int
	// MaxParallel is how many nodes of one graph may execute at once,
	// Interactive how many runs of the interactive lane.
	MaxParallel, Interactive int
	// Heartbeat is how often workers are to be heard of (0: the default), and
	// ResumeGrace how long the runs of one that is away are kept.
	Heartbeat, ResumeGrace time.Duration
	// TLSCert and TLSKey are files in PEM. TLSSelfSigned: the control plane
	// makes a certificate, which is known by its pin.
	TLSCert, TLSKey string
	TLSSelfSigned   bool
	Retention       Retention
	// Sweeps bounds what one sweep may be.
	Sweeps sweep.Limits
	// Files bounds what runs bring along and leave behind.
	Files  files.Limits
	Logger *slog.Logger
	// Ready is called once requests are answered.
	Ready func(api.ServerInfo)
}

// server is a running control plane.
type server struct {
	cfg     Config
	log     *slog.Logger
	info    api.ServerInfo
	started time.Time
	store   *store.Store
	host    *shimhost.Host
	exec    *local.Executor
	stock   *stock.Stock
	runs    *runs.Service
	files   *files.Keeper
	workers *workers.Registry
	tokens  *tokens.Keeper
	// policies are what people decided of devices and queues.
	policies *policies.Keeper
	cards    *cards
	catalog  *catalogs.Source
	sweeps   *sweeps.Service
	studies  *studies.Service
	tunnels  *tunnels.Keeper
	api      *httpapi.Server
	hub      feed.Hub
	outcomes outcomes
	hooks    *hooks.Keeper

	stopOnce   sync.Once
	stopping   chan struct{}
	cancelRuns atomic.Bool
}

// stopGrace is how long runs get that are cancelled because the control plane
// stops.
const stopGrace = 10 * time.Second

// Run starts a control plane and serves until ctx is over or somebody asks it
// to stop. Its errors are sentences that say what to do.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{cfg: cfg, log: cfg.Logger, started: time.Now(), stopping: make(chan struct{})}
	folder, err := openFolder(cfg.DataDir)
	if err != nil {
		return err
	}
	defer folder.close()
	listener, err := listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	secured, err := folder.secure(cfg)
	if err != nil {
		return err
	}
	s.info = api.ServerInfo{
		PID: os.Getpid(), Address: secured.scheme() + "://" + listener.Addr().String(), BootID: bootID(),
		MachineID: fsinfo.MachineID(), Version: version.String(), Pin: secured.pin,
	}
	if !loopback(listener.Addr()) && secured.config == nil {
		s.log.Warn("the API is open to other machines without TLS; tokens travel readable", "address", s.info.Address)
	}
	secret, err := folder.token()
	if err != nil {
		return err
	}
	if s.store, err = store.Open(ctx, store.Config{Path: folder.path("cdui.db"), Logger: s.log}); err != nil {
		return err
	}
	defer func() {
		if err := s.store.Close(); err != nil {
			s.log.Error("close database", "error", err)
		}
	}()
	if err := s.compose(ctx, folder, token.Hash(secret), knownAs(secured.scheme(), listener.Addr())); err != nil {
		return err
	}
	defer s.host.Close()
	defer s.hooks.Close()
	s.composeTunnels(folder)
	s.api = httpapi.New(httpapi.Config{
		Runs: s.runs, Host: s, Store: s.store, Feed: &s.hub, Workers: s.workers, Tokens: s.tokens, Policies: s.policies, Files: s.files,
		Sweeps: s.sweeps, Studies: s.studies, Tunnels: s.tunnels, Outcomes: s.outcomes.counts, Hooks: s.hooks,
		Peers: peers{roster: s.workers, ledger: s.store, files: s.files}, TokenHash: token.Hash(secret),
		AllowedHosts: answersTo(cfg.AllowedHosts, listener.Addr()), Listen: listener.Addr().String(),
		BodyCap: cfg.BodyCap, ResponseCap: cfg.ResponseCap, Logger: s.log,
	})
	return s.serve(ctx, folder, secured.wrap(listener))
}

// compose makes the parts below the API. url is what other machines reach it
// under.
func (s *server) compose(ctx context.Context, folder *folder, tokenHash, url string) error {
	root, err := pyruntime.Extract(s.cfg.DataDir)
	if err != nil {
		return err
	}
	shimDir, runsDir := folder.path("agent-runs"), folder.path("runs")
	if s.host, err = shimhost.New(shimhost.Config{Dir: shimDir, Isolate: s.cfg.Isolate, Scopes: scope.New(scope.Config{Logger: s.log}), Logger: s.log}); err != nil {
		return err
	}
	s.cards = newCards(s.log)
	if err := s.composeCatalog(folder, root); err != nil {
		return err
	}
	if err := s.composeFiles(folder); err != nil {
		return err
	}
	if err := s.composeWorkers(ctx, tokenHash, url); err != nil {
		return err
	}
	around := &local.Surroundings{
		Runtime: root, Python: s.cfg.Python, Environ: s.cfg.Environ, Limits: s.cfg.Limits,
		DataDir: s.cfg.DataDir, Catalog: s.Catalog, Devices: s.inventory, MaxParallel: s.cfg.MaxParallel,
		Unpack: s.files.Unpack, Host: hostinfo.Read(),
	}
	s.stock = stock.New(stock.Config{
		Host: s.host, Keep: s.cfg.Warm, Devices: func() []string { return s.inventory().Names() }, Shared: s.sharedCard,
		Usual: around.Usual, Logger: s.log,
	})
	s.exec = local.New(local.Config{
		Host: warmHost{Host: s.host, stock: s.stock}, ShimDir: shimDir, RunsDir: runsDir, PayloadCap: s.cfg.PayloadCap, Logger: s.log,
		Surroundings: around,
	})
	s.runs = runs.New(runs.Config{
		Store: s.store, Executor: s.exec, Workers: s.workers, Limits: s.cfg.Limits, Devices: s.inventory, Catalog: s.Catalog, PayloadCap: s.cfg.PayloadCap,
		Grace: s.cfg.Grace, Interactive: s.cfg.Interactive, Notify: s.hub.Notify, Started: s.runStarted, Ended: s.runEnded, Logger: s.log,
	})
	s.policies = policies.New(s.store, s.runs.Board())
	s.composeHooks()
	s.composeFamilies()
	return nil
}

func (s *server) inventory() device.Inventory { return s.cards.inventory() }

// serve runs the background work and the API until the end, and stops them in
// reverse order.
func (s *server) serve(ctx context.Context, folder *folder, listener net.Listener) error {
	background, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	s.cards.refresh(background)
	err := s.load(ctx)
	if err == nil {
		err = s.sweeps.Load(ctx)
	}
	if err != nil {
		s.closeWorkers(ctx)
		s.runs.Close()
		s.exec.Wait()
		return err
	}
	wg.Go(func() { s.stock.Run(background) })
	wg.Go(func() { s.studies.Drive(background) })
	wg.Go(func() { s.watchCatalog(background) })
	wg.Go(func() { s.watchAlarms(background) })
	wg.Go(func() { s.cards.watch(background, s.runs.DevicesChanged) })
	wg.Go(func() { s.prune(background, folder) })

	// Whoever gets an answer must find what stands in server.json; until there is
	// one, connections wait at the listener.
	if err := folder.announce(s.info); err != nil {
		s.log.Warn("announce", "error", err)
	}
	defer folder.retract(s.info)
	web := &http.Server{Handler: s.api, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	failed := make(chan error, 1)
	wg.Go(func() { failed <- web.Serve(listener) })
	if err := s.tunnels.Load(ctx); err != nil {
		s.log.Error("tunnels to workers", "error", err)
	}
	if s.cfg.Ready != nil {
		s.cfg.Ready(s.info)
	}
	s.log.Info("control plane is up", "address", s.info.Address, "pin", s.info.Pin, "data", s.cfg.DataDir, "isolation", s.host.Isolation())

	select {
	case <-ctx.Done():
	case <-s.stopping:
	case err = <-failed:
		err = fmt.Errorf("serve %s: %w", s.info.Address, err)
	}
	if s.cancelRuns.Load() {
		s.cancelAll()
	}
	s.api.Close()
	down, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if shutErr := web.Shutdown(down); shutErr != nil {
		web.Close()
	}
	s.closeWorkers(down)
	s.tunnels.Stop()
	s.runs.Close()
	s.exec.Wait()
	s.log.Info("control plane is down", "runs_left", s.runs.Executing())
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// load takes over what an earlier process left, each part before those that act
// on it.
func (s *server) load(ctx context.Context) error {
	if err := s.hooks.Load(ctx); err != nil {
		return err
	}
	if err := s.policies.Load(ctx); err != nil {
		return err
	}
	if err := s.workers.Load(ctx, placer{s.runs.Board(), s.runs}); err != nil {
		return err
	}
	return s.runs.Load(ctx)
}

// cancelAll asks every run to stop and waits until they have.
func (s *server) cancelAll() {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace+30*time.Second)
	defer cancel()
	s.runs.CancelAll(ctx, stopGrace)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for s.runs.Executing() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func bootID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime aborts instead
	return hex.EncodeToString(b[:])
}
