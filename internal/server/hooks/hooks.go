// Package hooks calls commands and webhooks when runs start and end, a worker
// goes or a card falls ill. It owns the hooks, a line of calls for each one and
// the goroutine that works it off, so that a hook that hangs holds up nobody
// else. It must not know where events come from, and it keeps no secret: of a
// webhook's token it knows the place.
package hooks

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/sorting"
	"cdui/internal/store"
)

const (
	// maxWaiting is how many calls of one hook wait; those beyond are dropped.
	maxWaiting = 256
	// maxHooks bounds goroutines and memory.
	maxHooks = 64
	// patience is how long one try may take.
	patience = 20 * time.Second
)

// pauses stand between the tries of one call.
func pauses() []time.Duration {
	return []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 2 * time.Minute}
}

// Store is where hooks are kept.
type Store interface {
	AddHook(ctx context.Context, h store.Hook) error
	RemoveHook(ctx context.Context, name string) error
	Hooks(ctx context.Context) ([]store.Hook, error)
}

// Carrier makes one try of a call. An error that wraps ErrFinal isn't worth
// another try.
type Carrier interface {
	Carry(ctx context.Context, spec api.HookSpec, body []byte) error
}

// ErrFinal marks an error that trying again won't mend.
var ErrFinal = errors.New("not tried again")

// Config is what a Keeper is made of. Logger may be nil.
type Config struct {
	Store   Store
	Carrier Carrier
	Logger  *slog.Logger
}

// Keeper is all hooks. Its methods may be called from any goroutine.
type Keeper struct {
	cfg  Config
	log  *slog.Logger
	ctx  context.Context //nolint:containedctx // the keeper's own life, cancelled by Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	lines  map[string]*line
}

// line is a hook with the calls that wait for it.
type line struct {
	hook  api.Hook // its counts are guarded by the keeper's mu
	calls chan call
	stop  context.CancelFunc
}

type call struct {
	event api.HookEvent
	body  []byte
}

// New makes a keeper without hooks; Load reads them.
func New(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Keeper{cfg: cfg, log: cfg.Logger, ctx: ctx, stop: stop, lines: map[string]*line{}}
}

// Load reads the hooks and is ready to call them.
func (k *Keeper) Load(ctx context.Context) error {
	all, err := k.cfg.Store.Hooks(ctx)
	if err != nil {
		return fmt.Errorf("load hooks: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range all {
		var spec api.HookSpec
		if err := json.Unmarshal(h.Spec, &spec); err != nil {
			return fmt.Errorf("load hook %s: %w", h.Name, err)
		}
		k.open(api.Hook{Name: h.Name, HookSpec: spec, CreatedBy: h.CreatedBy, CreatedAt: h.CreatedAt})
	}
	return nil
}

// open starts a hook's line. The caller holds mu.
func (k *Keeper) open(h api.Hook) {
	if k.closed {
		return
	}
	ctx, stop := context.WithCancel(k.ctx)
	l := &line{hook: h, calls: make(chan call, maxWaiting), stop: stop}
	k.lines[h.Name] = l
	k.wg.Go(func() {
		defer stop()
		k.work(ctx, l)
	})
}

// Close ends all calls and waits for what is under way. Calls that wait are
// lost.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.wg.Wait()
}

// Add keeps a new hook.
func (k *Keeper) Add(ctx context.Context, user string, req api.HookRequest) (api.Hook, error) {
	if err := check(req); err != nil {
		return api.Hook{}, err
	}
	k.mu.Lock()
	full := len(k.lines) >= maxHooks
	k.mu.Unlock()
	if full {
		return api.Hook{}, api.Errorf(api.Conflict, "there are %d hooks, and no more are taken; remove one with cdui hooks rm", maxHooks)
	}
	spec, err := json.Marshal(req.HookSpec)
	if err != nil {
		return api.Hook{}, fmt.Errorf("encode hook %s: %w", req.Name, err)
	}
	h := api.Hook{Name: req.Name, HookSpec: req.HookSpec, CreatedBy: user, CreatedAt: time.Now().UTC()}
	err = k.cfg.Store.AddHook(ctx, store.Hook{Name: h.Name, Spec: spec, CreatedBy: user, CreatedAt: h.CreatedAt})
	if errors.Is(err, store.ErrTaken) {
		return api.Hook{}, api.Errorf(api.Conflict, "there is a hook called %s; remove it first, or take another name", req.Name)
	}
	if err != nil {
		return api.Hook{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open(h)
	return h, nil
}

// Remove forgets a hook and the calls that wait for it.
func (k *Keeper) Remove(ctx context.Context, name string) error {
	err := k.cfg.Store.RemoveHook(ctx, name)
	if errors.Is(err, store.ErrUnknown) {
		return unknown(name)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.lines[name]; l != nil {
		l.stop()
		delete(k.lines, name)
	}
	return nil
}

func unknown(name string) error {
	return api.Errorf(api.NotFound, "no hook %q; cdui hooks lists them", name).With("id", name)
}

// List gives the hooks by name.
func (k *Keeper) List() api.HookList {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := api.HookList{Hooks: []api.Hook{}}
	for _, l := range k.lines {
		out.Hooks = append(out.Hooks, l.hook)
	}
	sorting.Sort(out.Hooks, func(a, b api.Hook) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Test calls a hook once, whatever it is for, and says how that went.
func (k *Keeper) Test(ctx context.Context, name string) (api.HookTestReply, error) {
	k.mu.Lock()
	l := k.lines[name]
	k.mu.Unlock()
	if l == nil {
		return api.HookTestReply{}, unknown(name)
	}
	body, err := encode(api.HookBody{Event: api.HookTest})
	if err != nil {
		return api.HookTestReply{}, err
	}
	reply := api.HookTestReply{Name: name, OK: true}
	if err := k.try(ctx, l.hook.HookSpec, body); err != nil {
		reply.OK, reply.Error = false, err.Error()
	}
	return reply, nil
}

// Emit has every hook called that is for the event. It never blocks.
func (k *Keeper) Emit(body api.HookBody) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var raw []byte
	for _, l := range k.lines {
		if !slices.Contains(l.hook.On, body.Event) {
			continue
		}
		if raw == nil {
			var err error
			if raw, err = encode(body); err != nil {
				k.log.Error("encode for hooks", "event", body.Event, "error", err)
				return
			}
		}
		select {
		case l.calls <- call{body.Event, raw}:
		default:
			l.hook.Dropped++
			k.log.Warn("a hook has too many calls waiting; one was dropped", "hook", l.hook.Name, "event", body.Event)
		}
	}
}

// encode gives a body its id and its time.
func encode(body api.HookBody) ([]byte, error) {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: the runtime aborts instead
	body.ID, body.TS = hex.EncodeToString(id[:]), time.Now().UTC()
	raw, err := json.Marshal(body)
	return append(raw, '\n'), err
}

// work makes a hook's calls one after the other.
func (k *Keeper) work(ctx context.Context, l *line) {
	for {
		select {
		case c := <-l.calls:
			k.deliver(ctx, l, c)
		case <-ctx.Done():
			return
		}
	}
}

// deliver tries a call until it is taken, or not worth trying any more.
func (k *Keeper) deliver(ctx context.Context, l *line, c call) {
	for _, pause := range append(pauses(), 0) {
		err := k.try(ctx, l.hook.HookSpec, c.body)
		if ctx.Err() != nil {
			return
		}
		last := pause == 0 || errors.Is(err, ErrFinal)
		k.count(l, err, last)
		if err == nil {
			return
		}
		k.log.Warn("a hook failed", "hook", l.hook.Name, "event", c.event, "again", !last, "error", err)
		if last {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (k *Keeper) try(ctx context.Context, spec api.HookSpec, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := k.cfg.Carrier.Carry(ctx, spec, body)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it took longer than %s", patience)
	}
	return err
}

func (k *Keeper) count(l *line, err error, last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		l.hook.Delivered++
		l.hook.LastError = ""
	default:
		l.hook.LastError = err.Error()
		if last {
			l.hook.GivenUp++
		}
	}
}
