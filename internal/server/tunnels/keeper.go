package tunnels

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/bootstrap"
	"cdui/internal/protocol"
	"cdui/internal/sshtunnel"
	"cdui/internal/store"
)

// Store is what is kept of tunnels.
type Store interface {
	Tunnels(ctx context.Context) ([]store.Tunnel, error)
	PutTunnel(ctx context.Context, t store.Tunnel) error
	RemoveTunnel(ctx context.Context, worker string) error
}

// Line is a connection to an sshd.
type Line interface {
	bootstrap.Remote
	ListenSocket(path string) (net.Listener, error)
	ListenPort() (net.Listener, error)
	// Alive asks for a sign of life.
	Alive(ctx context.Context) error
	// Wait returns when the connection has ended.
	Wait() error
	Close()
}

// Config is what a Keeper is made of. All fields but Logger and the times are
// required.
type Config struct {
	Store Store
	// Dial opens a connection; ask answers what can be answered.
	Dial func(ctx context.Context, spec api.TunnelSpec, ask sshtunnel.Asker) (Line, error)
	// Handler is what is served at the end of a worker's tunnel.
	Handler func(worker string) http.Handler
	// Secure gives the control plane's own key and its pin.
	Secure func() (*tls.Config, string, error)
	Logger *slog.Logger
	// Beat is how often the other side is asked for a sign of life, Patience
	// how long that may take.
	Beat, Patience time.Duration
}

const (
	defaultBeat     = 5 * time.Second
	defaultPatience = 15 * time.Second
	// openTimeout covers a login shell that thinks for a while.
	openTimeout  = 80 * time.Second
	backoffFirst = time.Second
	backoffMost  = time.Minute
	// steady is how long a tunnel is up that counts as a good one.
	steady = 30 * time.Second
)

// Keeper keeps the tunnels.
type Keeper struct {
	cfg  Config
	log  *slog.Logger
	ctx  context.Context //nolint:containedctx // the keeper's own life, ended by Stop
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	tunnels map[string]*tunnel
	closed  bool
}

// tunnel is the way to one worker.
type tunnel struct {
	worker  string
	spec    api.TunnelSpec
	answers map[string]string
	created time.Time
	end     context.CancelFunc
	ended   chan struct{}

	// Guarded by Keeper.mu.
	view api.Tunnel
}

// New makes a keeper of no tunnels; Load opens those that are kept.
func New(cfg Config) *Keeper {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Beat <= 0 {
		cfg.Beat = defaultBeat
	}
	if cfg.Patience <= 0 {
		cfg.Patience = defaultPatience
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Keeper{cfg: cfg, log: cfg.Logger, ctx: ctx, stop: stop, tunnels: map[string]*tunnel{}}
}

// Load begins to open the tunnels that are kept.
func (k *Keeper) Load(ctx context.Context) error {
	rows, err := k.cfg.Store.Tunnels(ctx)
	if err != nil {
		return fmt.Errorf("load tunnels: %w", err)
	}
	for _, row := range rows {
		t := &tunnel{worker: row.Worker, created: row.CreatedAt}
		if err := json.Unmarshal(row.Spec, &t.spec); err != nil {
			k.log.ErrorContext(ctx, "the tunnel is not understood", "worker", row.Worker, "error", err)
			continue
		}
		k.begin(t, nil)
	}
	return nil
}

// Stop closes all tunnels and waits until they are. They are opened again at
// the next start.
func (k *Keeper) Stop() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.wg.Wait()
}

// begin gives a tunnel the goroutine that owns it, in place of an earlier one
// to the same worker. first is an end that is open already.
func (k *Keeper) begin(t *tunnel, first *opened) {
	ctx, end := context.WithCancel(k.ctx)
	t.end, t.ended = end, make(chan struct{})
	k.mu.Lock()
	old := k.tunnels[t.worker]
	closed := k.closed
	if !closed {
		t.view = api.Tunnel{State: api.TunnelConnecting, Since: time.Now().UTC().Truncate(time.Millisecond)}
		if first != nil {
			t.view.State, t.view.End = api.TunnelUp, first.end
		}
		k.tunnels[t.worker] = t
		k.wg.Add(1)
	}
	k.mu.Unlock()
	if closed {
		first.close()
		end()
		return
	}
	old.finish()
	go func() {
		defer k.wg.Done()
		defer close(t.ended)
		defer end()
		k.keep(ctx, t, first)
	}()
}

// finish ends a tunnel and waits until it has.
func (t *tunnel) finish() {
	if t != nil {
		t.end()
		<-t.ended
	}
}

// Open opens the tunnel of a worker and keeps it from then on. Where it can't be
// opened nothing changes.
func (k *Keeper) Open(ctx context.Context, req api.TunnelRequest) (api.Tunnel, error) {
	if err := protocol.ValidName(req.Worker); err != nil {
		return api.Tunnel{}, api.Errorf(api.Invalid, "worker: %v", err)
	}
	if req.Target == "" || !strings.HasPrefix(req.Folder, "/") || strings.ContainsAny(req.Folder, "'\n") {
		return api.Tunnel{}, api.Errorf(api.Invalid, "a tunnel needs a target, user@host, and the absolute path of its folder there")
	}
	t := &tunnel{worker: req.Worker, spec: req.TunnelSpec, answers: req.Answers, created: time.Now().UTC()}
	first, err := k.open(ctx, t)
	if err != nil {
		return api.Tunnel{}, api.Errorf(api.Conflict, "%v", err).With("target", req.Target).With("needs_login", sshtunnel.Lasting(err))
	}
	raw, err := json.Marshal(t.spec)
	if err == nil {
		err = k.cfg.Store.PutTunnel(ctx, store.Tunnel{Worker: t.worker, Spec: raw, CreatedAt: t.created})
	}
	if err != nil {
		first.close()
		return api.Tunnel{}, fmt.Errorf("keep the tunnel to %s: %w", t.worker, err)
	}
	k.begin(t, first)
	return k.show(t), nil
}

// Remove closes the tunnel of a worker and forgets it.
func (k *Keeper) Remove(ctx context.Context, worker string) error {
	k.mu.Lock()
	t := k.tunnels[worker]
	delete(k.tunnels, worker)
	k.mu.Unlock()
	t.finish()
	err := k.cfg.Store.RemoveTunnel(ctx, worker)
	if errors.Is(err, store.ErrUnknown) {
		return api.Errorf(api.NotFound, "no tunnel leads to a worker %q", worker).With("id", worker)
	}
	return err
}

// List gives all tunnels by worker.
func (k *Keeper) List() []api.Tunnel {
	k.mu.Lock()
	names := slices.Sorted(maps.Keys(k.tunnels))
	all := make([]*tunnel, 0, len(names))
	for _, name := range names {
		all = append(all, k.tunnels[name])
	}
	k.mu.Unlock()
	out := []api.Tunnel{}
	for _, t := range all {
		out = append(out, k.show(t))
	}
	return out
}

// Pin is the key that is shown at every end.
func (k *Keeper) Pin() (string, error) {
	_, pin, err := k.cfg.Secure()
	return pin, err
}

func (k *Keeper) show(t *tunnel) api.Tunnel {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := t.view
	v.Worker, v.TunnelSpec, v.Command = t.worker, t.spec, Command(t.worker, t.spec)
	return v
}

// Command is what opens a tunnel again where somebody has to type.
func Command(worker string, spec api.TunnelSpec) string {
	words := []string{"cdui", "agent", "ssh", spec.Target, "--name", worker}
	if spec.ConfigFile != "" {
		words = append(words, "--ssh-config", spec.ConfigFile)
	}
	return strings.Join(words, " ")
}

// is says how a tunnel stands from now on.
func (k *Keeper) is(t *tunnel, v api.Tunnel) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v.Since = time.Now().UTC().Truncate(time.Millisecond)
	if v.State == t.view.State && !t.view.Since.IsZero() {
		v.Since = t.view.Since
	}
	t.view = v
}

// backoff is how long to wait before try n, from 0; luck is from 0 to 1.
func backoff(n int, luck float64) time.Duration {
	most := backoffMost
	if n < 6 {
		most = min(most, backoffFirst<<n)
	}
	return most/2 + time.Duration(luck*float64(most)/2)
}

// keep holds one tunnel open until ctx is over.
func (k *Keeper) keep(ctx context.Context, t *tunnel, o *opened) {
	for try := 0; ; try++ {
		var err error
		if o == nil {
			o, err = k.open(ctx, t)
		}
		if err == nil {
			began := time.Now()
			k.is(t, api.Tunnel{State: api.TunnelUp, End: o.end})
			k.log.InfoContext(ctx, "tunnel is up", "worker", t.worker, "target", t.spec.Target, "end", o.end)
			err = k.watch(ctx, o)
			o.close()
			o = nil
			if time.Since(began) >= steady {
				try = 0
			}
		}
		if ctx.Err() != nil {
			return
		}
		if sshtunnel.Lasting(err) {
			// Trying on would only lock the account.
			k.is(t, api.Tunnel{State: api.TunnelNeedsLogin, Problem: err.Error()})
			k.log.WarnContext(ctx, "the tunnel needs a login", "worker", t.worker, "error", err, "command", Command(t.worker, t.spec))
			<-ctx.Done()
			return
		}
		wait := backoff(try, rand.Float64())
		at := time.Now().Add(wait).UTC().Truncate(time.Millisecond)
		k.is(t, api.Tunnel{State: api.TunnelDown, Problem: err.Error(), RetryAt: &at})
		k.log.WarnContext(ctx, "tunnel is down", "worker", t.worker, "error", err, "retry_in", wait.Round(time.Millisecond))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
