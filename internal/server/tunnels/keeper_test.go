package tunnels

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/sshtunnel"
	"cdui/internal/store"
	"cdui/internal/tlspin"
)

// far is a machine that tunnels end at. Its listeners are this machine's own.
type far struct {
	t *testing.T

	mu    sync.Mutex
	lines []*line
	// refuse is the error of the next dials, listen that of listening, wrong
	// makes every end lead elsewhere.
	refuse, listen error
	wrong          bool
	asks           []sshtunnel.Asker
	told           []string
}

// line is a connection to it.
type line struct {
	f    *far
	once sync.Once
	gone chan struct{}
	mute bool
	l    net.Listener
}

func (f *far) dial(_ context.Context, _ api.TunnelSpec, ask sshtunnel.Asker) (Line, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asks = append(f.asks, ask)
	if f.refuse != nil {
		return nil, f.refuse
	}
	l := &line{f: f, gone: make(chan struct{})}
	f.lines = append(f.lines, l)
	return l, nil
}

func (f *far) set(change func()) { f.mu.Lock(); defer f.mu.Unlock(); change() }

func (f *far) last() *line {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lines[len(f.lines)-1]
}

func (l *line) ListenSocket(string) (net.Listener, error) {
	return nil, fmt.Errorf("%w on a socket", sshtunnel.ErrNoListening)
}

func (l *line) ListenPort() (net.Listener, error) {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if l.f.listen != nil {
		return nil, l.f.listen
	}
	n, err := net.Listen("tcp", "127.0.0.1:0")
	l.l = n
	return n, err
}

// Run is the point command: what it is told of is tried.
func (l *line) Run(ctx context.Context, _ string, in io.Reader) (out, said []byte, code int, err error) {
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, nil, 0, err
	}
	words := strings.Fields(string(raw))
	result := "ok"
	if err := reach(ctx, words[1], words[2]); err != nil || l.f.wrong {
		result = fmt.Sprint("fail unreached ", err)
	} else {
		l.f.set(func() { l.f.told = append(l.f.told, words[1]) })
	}
	return fmt.Appendf(nil, "\n%s begin\n%s\n%s end\n", words[0], result, words[0]), nil, 0, nil
}

func reach(ctx context.Context, at, pin string) error {
	p, err := tlspin.Parse(pin)
	if err != nil {
		return err
	}
	d := tls.Dialer{Config: p.Config()}
	d.Config.ServerName = "localhost"
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return c.Close()
}

func (l *line) Alive(ctx context.Context) error {
	l.f.mu.Lock()
	mute := l.mute
	l.f.mu.Unlock()
	if !mute {
		return nil
	}
	<-ctx.Done()
	return errors.New("no sign of life")
}

func (l *line) Wait() error { <-l.gone; return errors.New("broken") }

func (l *line) Close() {
	l.once.Do(func() {
		close(l.gone)
		if l.l != nil {
			l.l.Close()
		}
	})
}

// rows is a Store.
type rows struct {
	mu   sync.Mutex
	list map[string]store.Tunnel
}

func (r *rows) Tunnels(context.Context) ([]store.Tunnel, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []store.Tunnel
	for _, t := range r.list {
		out = append(out, t)
	}
	return out, nil
}

func (r *rows) PutTunnel(_ context.Context, t store.Tunnel) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list[t.Worker] = t
	return nil
}

func (r *rows) RemoveTunnel(_ context.Context, worker string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.list[worker]; !ok {
		return store.ErrUnknown
	}
	delete(r.list, worker)
	return nil
}

func newKeeper(t *testing.T, f *far, r *rows) *Keeper {
	t.Helper()
	own := httptest.NewTLSServer(nil)
	t.Cleanup(own.Close)
	k := New(Config{
		Store: r, Dial: f.dial, Beat: 20 * time.Millisecond, Patience: 200 * time.Millisecond,
		Handler: func(worker string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, worker) })
		},
		Secure: func() (*tls.Config, string, error) { return own.TLS, tlspin.Of(own.Certificate()).String(), nil },
	})
	t.Cleanup(k.Stop)
	return k
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("not in time: " + what)
		}
	}
}

func (k *Keeper) state() api.Tunnel {
	for _, t := range k.List() {
		if t.Worker == "box" {
			return t
		}
	}
	return api.Tunnel{}
}

func request() api.TunnelRequest {
	return api.TunnelRequest{Worker: "box", TunnelSpec: api.TunnelSpec{Target: "ada@box", Folder: "/x"}, Answers: map[string]string{"password:ada@box:22": "pw"}}
}

// H3, H-03: a tunnel that breaks or falls silent is opened anew, at another end,
// and counts as up once it was seen to lead here.
func TestATunnelIsKeptUp(t *testing.T) {
	t.Parallel()
	f, r := &far{t: t}, &rows{list: map[string]store.Tunnel{}}
	k := newKeeper(t, f, r)
	first, err := k.Open(t.Context(), request())
	if err != nil || first.State != api.TunnelUp || first.End == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	seen := []string{first.End}
	for i, harm := range []func(l *line){func(l *line) { l.Close() }, func(l *line) { f.set(func() { l.mute = true }) }} {
		old := f.last()
		harm(old)
		await(t, fmt.Sprint("harm ", i, " is mended"), func() bool { return f.last() != old && k.state().State == api.TunnelUp })
		end := k.state().End
		if slices.Contains(seen, end) {
			t.Errorf("the end %s again", end)
		}
		seen = append(seen, end)
	}
	if !slices.Equal(f.told, seen) {
		t.Errorf("the agent was told %v, the ends were %v", f.told, seen)
	}
	// One that leads elsewhere is never up, and the agent doesn't hear of it.
	f.set(func() { f.wrong = true })
	f.last().Close()
	await(t, "it is down", func() bool {
		s := k.state()
		return s.State == api.TunnelDown && s.RetryAt != nil && strings.Contains(s.Problem, "lead here")
	})
	if len(f.told) != len(seen) {
		t.Errorf("the agent was told %v", f.told)
	}
	f.set(func() { f.wrong = false })
	await(t, "it is up again", func() bool { return k.state().State == api.TunnelUp })
	if err := k.Remove(t.Context(), "box"); err != nil || len(k.List()) != 0 || len(r.list) != 0 {
		t.Errorf("%v, %v, %v", err, k.List(), r.list)
	}
	if err := k.Remove(t.Context(), "box"); api.CodeOf(err) != api.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}

// H-03: what needs typing says so with the command, and is not tried again; what
// was typed is used again, once for each connection, and kept nowhere.
func TestATunnelThatNeedsALogin(t *testing.T) {
	t.Parallel()
	f, r := &far{t: t}, &rows{list: map[string]store.Tunnel{}}
	k := newKeeper(t, f, r)
	if _, err := k.Open(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r.list["box"])
	if err != nil || strings.Contains(string(raw), "pw") {
		t.Errorf("kept is %s, %v", raw, err)
	}
	ask := f.asks[0]
	q := sshtunnel.Question{ID: "password:ada@box:22", Prompt: "password"}
	if got, err := ask.Secret(t.Context(), q); got != "pw" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ask.Secret(t.Context(), q); !errors.Is(err, sshtunnel.ErrNeedsTyping) {
		t.Errorf("a second time: %v", err)
	}
	if _, err := ask.Secret(t.Context(), sshtunnel.Question{ID: "x", Once: true}); !errors.Is(err, sshtunnel.ErrNeedsTyping) {
		t.Errorf("a code: %v", err)
	}
	if ok, _ := ask.Confirm(t.Context(), "trust?"); ok {
		t.Error("a host is trusted unseen")
	}
	k.Stop()

	// After a restart nobody has typed.
	f.set(func() {
		f.refuse = &sshtunnel.LoginError{Login: "ada@box", Asked: "password of ada@box", Err: errors.New("no")}
	})
	k = newKeeper(t, f, r)
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "it needs a login", func() bool { return k.state().State == api.TunnelNeedsLogin })
	if s := k.state(); s.Command != "cdui agent ssh ada@box --name box" || !strings.Contains(s.Problem, "password of ada@box") {
		t.Errorf("%+v", s)
	}
	tries := len(f.asks)
	if _, err := k.Open(t.Context(), request()); api.CodeOf(err) != api.Conflict {
		t.Errorf("%v", err)
	}
	if k.state().State != api.TunnelNeedsLogin || len(f.asks) != tries+1 {
		t.Errorf("%+v, %d tries", k.state(), len(f.asks))
	}
	f.set(func() { f.refuse = nil })
	if got, err := k.Open(t.Context(), request()); err != nil || got.State != api.TunnelUp || k.state().State != api.TunnelUp {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestATunnelThatCanNotBeOpenedLeavesNothing(t *testing.T) {
	t.Parallel()
	f, r := &far{t: t, listen: fmt.Errorf("%w on a port", sshtunnel.ErrNoListening)}, &rows{list: map[string]store.Tunnel{}}
	k := newKeeper(t, f, r)
	if _, err := k.Open(t.Context(), request()); err == nil || !strings.Contains(err.Error(), "AllowTcpForwarding yes") {
		t.Errorf("%v", err)
	}
	if len(k.List()) != 0 || len(r.list) != 0 {
		t.Errorf("%v, %v", k.List(), r.list)
	}
	select {
	case <-f.last().gone:
	default:
		t.Error("the line is left open")
	}
	for _, bad := range []api.TunnelRequest{{}, {Worker: "Box", TunnelSpec: request().TunnelSpec}, {Worker: "box", TunnelSpec: api.TunnelSpec{Target: "x", Folder: "a'b"}}} {
		if _, err := k.Open(t.Context(), bad); api.CodeOf(err) != api.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n := range 100 {
		for _, luck := range []float64{0, 0.5, 1} {
			if d := backoff(n, luck); d < backoffFirst/2 || d > backoffMost {
				t.Errorf("try %d: %s", n, d)
			}
		}
	}
}
