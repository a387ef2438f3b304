package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/protocol"
	"cdui/internal/scheduler/fleet"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs/board"
	"cdui/internal/server/workers/admit"
	"cdui/internal/server/workers/assign"
	"cdui/internal/server/workers/conn"
	"cdui/internal/server/workers/logs"
	"cdui/internal/server/workers/ratelimit"
	"cdui/internal/store"
)

// Store is what is kept of workers.
type Store interface {
	Workers(ctx context.Context) ([]store.Worker, error)
	SeeWorker(ctx context.Context, name string, f store.WorkerFacts, seen time.Time) error
	DrainWorker(ctx context.Context, name string, on bool) error
	RekeyWorker(ctx context.Context, name string, e store.Enrollment) error
	RemoveWorker(ctx context.Context, name string) error
	KeepFingerprint(ctx context.Context, f store.Fingerprint) error
	Enroller
}

// Enroller keeps one-time tokens.
type Enroller interface {
	AddEnrollment(ctx context.Context, e store.Enrollment) error
	Enroll(ctx context.Context, enrollment, name, tokenHash string, f store.WorkerFacts, now time.Time) error
}

// Placer decides which run goes where; it is told how workers are.
type Placer interface {
	SetWorker(name string, w board.Worker)
	DeviceStates(machine string) map[string]board.DeviceState
	// RemoveWorker forgets a worker and ends what waits for it.
	RemoveWorker(ctx context.Context, name string) error
}

// Config is what a Registry is made of. Store, Catalog, Assign, Version and
// TokenHash are required.
type Config struct {
	Store   Store
	Catalog func(ctx context.Context) *catalog.Catalog
	// Assign makes the assignments.
	Assign assign.Builder
	// Version is this release, MachineID the machine's, TokenHash the hash of
	// the control plane's own token.
	Version, MachineID, TokenHash string
	// Heartbeat is how often workers are to be heard of, Grace how long a
	// cancelled child may take, ResumeGrace how long a worker's runs are kept
	// while it is away.
	Heartbeat, Grace, ResumeGrace time.Duration
	// URL is the address that this control plane is known under, Pin that of a
	// certificate that it made for itself; for the command that enrolls.
	URL, Pin string
	// Secure tells whether connections are encrypted.
	Secure bool
	Logger *slog.Logger
}

// DefaultResumeGrace is how long the runs of a worker that is away are kept.
const DefaultResumeGrace = 24 * time.Hour

// Registry is all workers.
type Registry struct {
	cfg  Config
	log  *slog.Logger
	ctx  context.Context //nolint:containedctx // the registry's own life, cancelled by Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	// hashed is what the node types of a catalogue hash to.
	hashed struct {
		sync.Mutex
		of    *catalog.Catalog
		types map[string]string
	}

	// mu guards all below, and the fields of workers, placed runs and sessions
	// that say so. It is taken before the placer's own lock, never after.
	mu      sync.Mutex
	closed  bool
	placer  Placer
	sink    execution.Sink
	workers map[string]*worker
	// tokens maps the hash of a worker's token to its name.
	tokens map[string]string
	epoch  uint64
	limit  ratelimit.Limiter
}

// worker is one entry of the registry. Registry.mu guards it.
type worker struct {
	name string
	// listed workers are known to people; a placeholder for adopted runs of a
	// worker that nobody has seen yet is not.
	listed   bool
	enrolled bool
	draining bool
	// hello is what it last said of itself, nil when it never did in this life
	// of the control plane; known is what the store had.
	hello *protocol.Hello
	known store.WorkerFacts
	// print is the digest of its environment, empty when hello told none.
	print string
	// devices are those that it last reported, nil when it never did.
	devices device.Inventory
	// selfDraining: the agent takes nothing, by its own word.
	selfDraining bool
	incomplete   bool
	degraded     bool

	session     *session
	sameMachine bool
	// tunnel: it came through one, now or last.
	tunnel      bool
	connectedAt time.Time
	lastSeen    time.Time
	skew        *time.Duration
	// rejected is why it was last turned away, until it is let in.
	rejected *protocol.Reject

	runs map[string]*placed
	// away counts absences; grace ends the present one. restarted: it has not
	// come back since the control plane started.
	away      int
	lostAt    time.Time
	grace     *time.Timer
	gone      bool
	restarted bool

	// noting: a goroutine brings what changed to the store; unsaved: it has
	// more to bring.
	noting, unsaved bool
}

// session is the connection of one worker.
type session struct {
	*conn.Conn
	log    *slog.Logger
	id     admit.Identity
	peer   netip.Addr
	tunnel bool
	nonce  string
	warned map[protocol.FrameType]bool
	desk   *logs.Desk
	// drainOnly: it is of another release.
	drainOnly bool

	// Guarded by Registry.mu: whether its first run_alive has been gone through,
	// how many heartbeats came before it, and the runs that it has and nobody
	// asks for.
	settled bool
	early   int
	strays  map[conn.Key]*placed
}

// New makes an empty registry; Load fills it.
func New(cfg Config) *Registry {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = protocol.DefaultHeartbeat
	}
	if cfg.ResumeGrace <= 0 {
		cfg.ResumeGrace = DefaultResumeGrace
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Registry{
		cfg: cfg, log: cfg.Logger, ctx: ctx, stop: stop,
		workers: map[string]*worker{}, tokens: map[string]string{},
		// Later than that of any session before a restart.
		epoch: uint64(time.Now().UnixMilli()), //nolint:gosec // after 1970
		limit: ratelimit.Limiter{Burst: enrollBurst, Every: enrollEvery},
	}
}

// Load reads the enrolled workers, which are offline until they connect, and
// tells the placer of them. It comes before the run service's own Load, which
// calls Adopt.
func (r *Registry) Load(ctx context.Context, p Placer) error {
	rows, err := r.cfg.Store.Workers(ctx)
	if err != nil {
		return fmt.Errorf("load workers: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.placer = p
	for _, row := range rows {
		w := r.entry(row.Name)
		w.listed, w.enrolled, w.draining, w.known, w.gone = true, true, row.Draining, row.WorkerFacts, true
		if row.LastSeen != nil {
			w.lastSeen = *row.LastSeen
		}
		if len(row.Inventory) > 0 && json.Unmarshal(row.Inventory, &w.devices) != nil {
			w.devices = nil
		}
		if row.TokenHash != "" {
			r.tokens[row.TokenHash] = row.Name
		}
		r.tell(w)
	}
	return nil
}

// Close ends all connections and waits for everything that is under way. Runs
// on workers go on.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	for _, w := range r.workers {
		if w.grace != nil {
			w.grace.Stop()
		}
		if w.session != nil {
			w.session.HangUp(websocket.CloseGoingAway, "the control plane stops", protocol.Problem{})
		}
	}
	r.mu.Unlock()
	r.stop()
	r.wg.Wait()
}

// entry gives the worker of that name, a new placeholder if there is none. The
// caller holds mu.
func (r *Registry) entry(name string) *worker {
	w := r.workers[name]
	if w == nil {
		w = &worker{name: name, runs: map[string]*placed{}}
		r.workers[name] = w
	}
	return w
}

// accepting tells whether the worker takes runs now.
func (w *worker) accepting() bool {
	return w.session != nil && w.session.settled && !w.isDraining()
}

func (w *worker) isDraining() bool {
	return w.draining || w.selfDraining || w.session != nil && w.session.drainOnly
}

// tell lets the placer know how a worker is now. The caller holds mu.
func (r *Registry) tell(w *worker) {
	if !w.listed || r.placer == nil {
		return
	}
	state := board.Worker{Machine: fleet.Machine{
		Inventory: w.devices, Connected: w.session != nil && w.session.settled, Draining: w.isDraining(),
		Incomplete: w.incomplete, MachineID: w.known.MachineID, SameMachine: w.sameMachine,
	}}
	if w.hello != nil {
		state.MachineID, state.Fingerprint = w.hello.MachineID, w.print
		state.RecordsOutputs = w.hello.Capabilities.Has(protocol.CapRecordOutputs)
		if w.hello.Catalog != nil {
			state.Types = w.hello.Catalog.Types
		}
	}
	r.placer.SetWorker(w.name, state)
}

// compare holds a worker's node types against the server's. The caller holds
// mu.
func (w *worker) compare(here map[string]string) {
	if w.hello == nil || w.hello.Catalog == nil {
		w.incomplete, w.degraded = true, false
		return
	}
	d := catalog.Diff(here, w.hello.Catalog.Types)
	w.incomplete, w.degraded = len(d.MissingThere) > 0, !d.Empty()
}

// hashes gives the hashes of the server's node types. They are kept as long as
// the catalogue is the same.
func (r *Registry) hashes(ctx context.Context) map[string]string {
	now := r.cfg.Catalog(ctx)
	r.hashed.Lock()
	defer r.hashed.Unlock()
	if r.hashed.of == now {
		return r.hashed.types
	}
	types, err := now.Hashes()
	if err != nil {
		r.log.Error("hash the node types", "error", err)
		return nil
	}
	r.hashed.of, r.hashed.types = now, types
	return types
}

// CatalogChanged compares all workers with the server's catalogue anew.
func (r *Registry) CatalogChanged(ctx context.Context) {
	here := r.hashes(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		before := w.incomplete
		w.compare(here)
		if w.incomplete != before {
			r.tell(w)
		}
	}
}

// save brings what a worker last said to the store, in the background. The
// caller holds mu.
func (r *Registry) save(w *worker) {
	if !w.enrolled || r.closed {
		return
	}
	w.unsaved = true
	if w.noting {
		return
	}
	w.noting = true
	r.wg.Go(func() {
		for {
			r.mu.Lock()
			if !w.unsaved {
				w.noting = false
				r.mu.Unlock()
				return
			}
			w.unsaved = false
			facts, seen := w.facts(), w.lastSeen
			r.mu.Unlock()
			if err := r.cfg.Store.SeeWorker(r.ctx, w.name, facts, seen); err != nil && r.ctx.Err() == nil {
				r.log.Warn("keep what a worker said", "worker", w.name, "error", err)
			}
		}
	})
}

// facts is what the store keeps of a worker. The caller holds mu.
func (w *worker) facts() store.WorkerFacts {
	f := w.known
	if h := w.hello; h != nil {
		f.MachineID, f.Version, f.Platform = h.MachineID, h.Version, h.Platform.OS+"/"+h.Platform.Arch
		f.FingerprintDigest = w.print
	}
	if raw, err := json.Marshal(w.devices); err == nil && w.devices != nil {
		f.Inventory = raw
	}
	return f
}

// identity tells whom a credential speaks for.
func (r *Registry) identity(hash string, loopback bool) (admit.Identity, bool) {
	if loopback && equal(hash, r.cfg.TokenHash) {
		return admit.Identity{Way: admit.Session}, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	name, ok := r.tokens[hash]
	return admit.Identity{Way: admit.Worker, Name: name}, ok
}

// names lists the workers by name. The caller holds mu.
func (r *Registry) names() []string { return slices.Sorted(maps.Keys(r.workers)) }
