// Package stock keeps spares: it does what package warm decides, starts runs
// from them where one fits and from scratch where none does, and learns from
// runs that end which spares are worth having.
//
// A Stock stands between whoever starts runs on a machine and its shimhost. It
// owns the spares and forgets a run once it has begun.
package stock

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/shimhost"
	"cdui/internal/sorting"
	"cdui/internal/warm"
)

// None as Config.Keep keeps no spare ever.
const None = -1

// checkEvery is how often the environments of spares are looked at; a run is
// served only after another look.
const checkEvery = 10 * time.Second

// shimLife is when the shim of a spare ends it, should nobody here.
const shimLife = warm.Life + time.Minute

// Host starts runs and spares.
type Host interface {
	Start(ctx context.Context, a protocol.Assignment) (*shimhost.Run, error)
	Attach(ctx context.Context, runID string) (*shimhost.Run, error)
	StartSpare(a protocol.Assignment, life time.Duration) (*shimhost.Spare, error)
}

// Config is what a Stock is made of.
type Config struct {
	Host Host
	// Keep is how many spares were asked for: 0 keeps those that runs turned
	// out to want, None not even them.
	Keep int
	// Devices lists the devices at present. Shared tells a card whose memory
	// several runs share; nil: there is none. Usual gives a script run on a
	// device that asks for nothing special.
	Devices func() []string
	Shared  func(device string) bool
	Usual   func(ctx context.Context, device string) (protocol.Assignment, error)
	Logger  *slog.Logger
}

// Stock keeps the spares of one machine. It is safe for concurrent use.
type Stock struct {
	cfg  Config
	log  *slog.Logger
	wake chan struct{}
	// quit is closed when Run ends; wg counts what works for it.
	quit chan struct{}
	wg   sync.WaitGroup

	// began stands for the end of the last run on a device that had none since:
	// one of an earlier process may be taken up any moment.
	began time.Time

	mu sync.Mutex
	// closed: no spares for now; over: none ever again.
	closed, over bool
	devices      map[string]*device
	spares       map[string]*standby
	// serial numbers the spares: their keys here.
	serial int
}

// device is what is known of one.
type device struct {
	busy      int
	idleSince time.Time
	learned   warm.Recipe
	used      time.Time
	failedAt  time.Time
	failed    string // the recipe's key
}

// standby is one spare; its Spare is nil while its shim is being started.
type standby struct {
	*shimhost.Spare
	recipe  warm.Recipe
	started time.Time
	stale   bool
	// ended is set when it is given up before it was started.
	ended bool
}

func (s *standby) ready() bool {
	if s.Spare == nil {
		return false
	}
	select {
	case <-s.Gone():
		return false
	case <-s.Ready():
		return true
	default:
		return false
	}
}

// New makes a Stock without spares; Run fills it.
func New(cfg Config) *Stock {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Stock{
		cfg: cfg, log: cfg.Logger, wake: make(chan struct{}, 1), quit: make(chan struct{}), began: time.Now(),
		devices: map[string]*device{}, spares: map[string]*standby{},
	}
}

// Nudge makes the stock look again: devices may have changed.
func (s *Stock) Nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close ends every spare, and lets none begin until it is undone: the machine
// is drained.
func (s *Stock) Close(closed bool) {
	s.mu.Lock()
	changed := s.closed != closed
	s.closed = closed
	s.mu.Unlock()
	if changed {
		s.Nudge()
	}
}

// Run keeps the stock until ctx is over, and ends it then.
func (s *Stock) Run(ctx context.Context) {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
		case <-timer.C:
		case <-check.C:
			s.checkAll()
		case <-ctx.Done():
			s.finish()
			return
		}
		timer.Reset(s.step(ctx, time.Now()))
	}
}

// finish ends all spares and lets go of the runs.
func (s *Stock) finish() {
	s.mu.Lock()
	s.over = true
	close(s.quit)
	for id := range s.spares {
		s.end(id, "their keeper stops")
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// async does f beside everything else; once the stock is over, at once.
func (s *Stock) async(f func()) {
	s.mu.Lock()
	over := s.over
	if !over {
		s.wg.Go(f)
	}
	s.mu.Unlock()
	if over {
		f()
	}
}

// step does what is to do now, and tells how long nothing will be.
func (s *Stock) step(ctx context.Context, now time.Time) time.Duration {
	if s.cfg.Keep == None {
		return time.Hour
	}
	names := s.cfg.Devices()
	asked := warm.Spread(s.cfg.Keep, names)
	shared := map[string]bool{}
	for _, name := range names {
		// Whoever tells may hold a lock of its own while it starts a run here.
		shared[name] = s.cfg.Shared != nil && s.cfg.Shared(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := warm.State{Closed: s.closed}
	recipes := map[string]warm.Recipe{}
	for _, name := range names {
		slot, recipe := s.slot(ctx, name, asked[name], now)
		slot.Shared = shared[name]
		state.Slots = append(state.Slots, slot)
		recipes[name] = recipe
	}
	for id, sp := range s.spares {
		state.Spares = append(state.Spares, warm.Spare{ID: id, Device: sp.recipe.Device, Key: sp.recipe.Key, Started: sp.started, Stale: sp.stale})
	}
	sorting.Sort(state.Spares, func(a, b warm.Spare) int { return a.Started.Compare(b.Started) })
	actions, next := warm.Decide(state, now)
	for _, a := range actions {
		if a.ID != "" {
			s.end(a.ID, a.Why)
			continue
		}
		s.begin(ctx, recipes[a.Device], now)
	}
	if len(actions) > 0 {
		s.Nudge()
	}
	if next.IsZero() {
		return time.Hour
	}
	return max(0, next.Sub(now))
}

// slot tells what Decide must know of a device, and what spares there would be;
// the lock is held.
func (s *Stock) slot(ctx context.Context, name string, asked int, now time.Time) (warm.Slot, warm.Recipe) {
	known := s.device(name)
	slot := warm.Slot{
		Device: name, Busy: known.busy > 0, IdleSince: known.idleSince,
		Keep: max(asked, 1), Lasting: asked > 0, Used: known.used,
	}
	recipe := known.learned
	if asked > 0 && (recipe.Key == "" || !now.Before(known.used.Add(warm.Life))) {
		usual, err := s.cfg.Usual(ctx, name)
		if err == nil {
			recipe, _ = warm.RecipeOf(usual)
		}
	}
	slot.Recipe = recipe.Key
	if known.failed == recipe.Key {
		slot.FailedAt = known.failedAt
	}
	return slot, recipe
}

func (s *Stock) device(name string) *device {
	d := s.devices[name]
	if d == nil {
		d = &device{idleSince: s.began}
		s.devices[name] = d
	}
	return d
}

// begin starts a spare; the lock is held, but not while that goes on.
func (s *Stock) begin(ctx context.Context, r warm.Recipe, now time.Time) {
	s.serial++
	id, sp := strconv.Itoa(s.serial), &standby{recipe: r, started: now}
	s.spares[id] = sp
	s.wg.Go(func() {
		spare, err := s.cfg.Host.StartSpare(protocol.Assignment{Kind: r.Kind, Argv: r.Argv, Env: r.Env, VisibleDevices: []string{r.Device}}, shimLife)
		if err != nil {
			if !errors.Is(err, shimhost.ErrNoSpares) {
				s.log.WarnContext(ctx, "spare can't be started", "device", r.Device, "error", err)
			}
			s.lost(id, sp)
			return
		}
		s.mu.Lock()
		sp.Spare = spare
		ended := sp.ended
		s.mu.Unlock()
		if ended {
			spare.End()
			return
		}
		select {
		case <-spare.Ready():
			s.log.InfoContext(ctx, "spare is ready", "spare", spare.ID(), "device", r.Device, "kind", r.Kind)
			<-spare.Gone()
		case <-spare.Gone():
		}
		if s.lost(id, sp) {
			s.log.WarnContext(ctx, "spare has ended", "spare", spare.ID(), "device", r.Device, "why", spare.Why())
			spare.End()
		}
	})
}

// fail notes that a recipe is no good for now; the lock is held.
func (s *Stock) fail(r warm.Recipe, now time.Time) {
	d := s.device(r.Device)
	d.failed, d.failedAt = r.Key, now
}

// lost forgets a spare that ended by itself; false: it was not here any more.
func (s *Stock) lost(id string, sp *standby) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spares[id] != sp {
		return false
	}
	delete(s.spares, id)
	s.fail(sp.recipe, time.Now())
	s.Nudge()
	return true
}

// end ends a spare; the lock is held.
func (s *Stock) end(id, why string) {
	sp := s.spares[id]
	delete(s.spares, id)
	if sp.Spare == nil {
		sp.ended = true
		return
	}
	s.log.Info("spare is ended", "spare", sp.ID(), "device", sp.recipe.Device, "why", why)
	s.wg.Go(sp.End)
}

// checkAll looks whether the environments of the spares have changed.
func (s *Stock) checkAll() {
	s.mu.Lock()
	list := make([]*standby, 0, len(s.spares))
	for _, sp := range s.spares {
		if sp.Spare != nil {
			list = append(list, sp)
		}
	}
	s.mu.Unlock()
	for _, sp := range list {
		// Disks may be slow; the lock is not held.
		stale := sp.Stale()
		s.mu.Lock()
		sp.stale = stale
		s.mu.Unlock()
	}
}

// Start starts a run, from a spare if one fits.
func (s *Stock) Start(ctx context.Context, a protocol.Assignment) (*shimhost.Run, error) {
	if s.cfg.Keep == None {
		return s.cfg.Host.Start(ctx, a)
	}
	recipe, warmable := warm.RecipeOf(a)
	leave := s.occupy(a.VisibleDevices)
	var r *shimhost.Run
	var err error
	if warmable {
		r, err = s.serve(ctx, a, recipe.Key)
	}
	if r == nil && err == nil {
		r, err = s.cfg.Host.Start(ctx, a)
	}
	if err != nil {
		leave(nil)
		return nil, err
	}
	s.watch(r, leave, recipe, warmable)
	return r, nil
}

// Attach follows a run that was started before there was this stock.
func (s *Stock) Attach(ctx context.Context, runID string) (*shimhost.Run, error) {
	r, err := s.cfg.Host.Attach(ctx, runID)
	if err == nil && s.cfg.Keep != None {
		s.watch(r, s.occupy(r.Devices()), warm.Recipe{}, false)
	}
	return r, err
}

// serve starts a run from a spare; nil: none serves it.
func (s *Stock) serve(ctx context.Context, a protocol.Assignment, key string) (*shimhost.Run, error) {
	for {
		sp := s.take(a, key)
		if sp == nil {
			return nil, nil //nolint:nilnil // no spare is no error
		}
		if sp.Stale() {
			s.log.InfoContext(ctx, "spare is ended", "spare", sp.ID(), "device", sp.recipe.Device, "why", "the environment of its interpreter has changed")
			s.async(sp.End)
			continue
		}
		r, err := sp.Assign(ctx, a)
		switch {
		case err == nil:
			s.log.InfoContext(ctx, "run is served by a spare", "run_id", a.RunID, "spare", sp.ID())
			return r, nil
		case errors.Is(err, shimhost.ErrExists), ctx.Err() != nil:
			return nil, err
		}
		s.log.WarnContext(ctx, "spare does not serve", "run_id", a.RunID, "error", err)
	}
}

// take takes a ready spare out of the stock: nobody else gets it.
func (s *Stock) take(a protocol.Assignment, key string) *standby {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, sp := range s.spares {
		if sp.recipe.Key != key || !sp.ready() || s.shadowed(a, sp) {
			continue
		}
		delete(s.spares, id)
		return sp
	}
	return nil
}

// shadowed tells whether the script's folder has a module of its own that the
// spare has imported from elsewhere.
func (s *Stock) shadowed(a protocol.Assignment, sp *standby) bool {
	folder, ok := warm.ScriptFolder(a)
	if !ok {
		return false
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return true
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	module := warm.Shadowed(names, sp.Modules())
	if module != "" {
		s.log.Debug("spare does not fit: the script's folder has a module of the same name", "run_id", a.RunID, "module", module)
	}
	return module != ""
}

// occupy notes that a run is on devices. leave undoes it, and takes what a
// spare must be like that would have served the run.
func (s *Stock) occupy(devices []string) (leave func(learned *warm.Recipe)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range devices {
		s.device(name).busy++
	}
	return func(learned *warm.Recipe) {
		s.mu.Lock()
		now := time.Now()
		for _, name := range devices {
			d := s.device(name)
			d.busy--
			d.idleSince = now
			if learned != nil {
				d.learned, d.used = *learned, now
			}
		}
		s.mu.Unlock()
		s.Nudge()
	}
}

// watch waits for the end of a run.
func (s *Stock) watch(r *shimhost.Run, leave func(*warm.Recipe), recipe warm.Recipe, warmable bool) {
	s.async(func() {
		select {
		case <-r.Done():
		case <-s.quit:
			return
		}
		if warmable && r.Status().Torch {
			leave(&recipe)
			return
		}
		leave(nil)
	})
}

// Status is how one spare stands, for people.
type Status struct {
	Device string        `json:"device"`
	Kind   protocol.Kind `json:"kind"`
	Ready  bool          `json:"ready"`
	Since  time.Time     `json:"since"`
}

// Spares tells how the spares stand, oldest first.
func (s *Stock) Spares() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Status{}
	for _, sp := range s.spares {
		out = append(out, Status{Device: sp.recipe.Device, Kind: sp.recipe.Kind, Ready: sp.ready(), Since: sp.started.UTC().Truncate(time.Millisecond)})
	}
	sorting.Sort(out, func(a, b Status) int { return a.Since.Compare(b.Since) })
	return out
}
