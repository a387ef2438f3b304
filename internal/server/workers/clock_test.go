package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/protocol"
	"cdui/internal/run"
	"cdui/internal/server/execution"
	"cdui/internal/server/runs/board"
	"cdui/internal/server/workers"
	"cdui/internal/store"
	"cdui/internal/token"
)

// pipes is a listener of connections in memory, on which a bubble's clock can
// run ahead.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return peer{c}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipes) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (l *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// peer is a connection from this machine.
type peer struct{ net.Conn }

func (peer) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711} }

// nothing is a store of no workers.
type nothing struct{ workers.Store }

func (nothing) Workers(context.Context) ([]store.Worker, error) { return nil, nil }

// watcher notes what the registry tells of workers and runs.
type watcher struct {
	execution.Sink
	mu   sync.Mutex
	told []string
}

func (w *watcher) note(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, s)
}

func (w *watcher) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

func (w *watcher) SetWorker(string, board.Worker)                   {}
func (w *watcher) RemoveWorker(context.Context, string) error       { return nil }
func (w *watcher) DeviceStates(string) map[string]board.DeviceState { return nil }

func (w *watcher) LinkLost(_ context.Context, id string, _ int, l execution.Link) error {
	w.note("lost " + id + " " + l.Reason.Code)
	return nil
}

func (w *watcher) LinkBack(_ context.Context, id string, _ int, _ execution.Link) error {
	w.note("back " + id)
	return nil
}

func (w *watcher) Lost(_ context.Context, id string, _ int, l execution.Loss) error {
	w.note("gone " + id + " " + l.Code)
	return nil
}

func (w *watcher) NeverStarted(_ context.Context, id string, _ int) error {
	w.note("never " + id)
	return nil
}

func (w *watcher) Record(_ context.Context, id string, _ int, records []protocol.Record) error {
	return nil
}

// bubble is a registry whose clock runs as fast as nothing happens.
type bubble struct {
	t    *testing.T
	reg  *workers.Registry
	sink *watcher
	web  *http.Server
	l    *pipes
	done chan struct{}
}

func newBubble(t *testing.T) *bubble {
	cat, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	b := &bubble{t: t, sink: &watcher{}, l: newPipes(), done: make(chan struct{})}
	b.reg = workers.New(workers.Config{
		Store: nothing{}, Catalog: func(context.Context) *catalog.Catalog { return cat },
		Version: release, TokenHash: token.Hash(sessionToken),
	})
	if err := b.reg.Load(t.Context(), b.sink); err != nil {
		t.Fatal(err)
	}
	if err := b.reg.Adopt(t.Context(), nil, b.sink); err != nil {
		t.Fatal(err)
	}
	b.web = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.reg.Serve(w, r, true) })} //nolint:gosec // pipes
	go func() {
		defer close(b.done)
		_ = b.web.Serve(b.l)
	}()
	return b
}

func (b *bubble) close() {
	b.reg.Close()
	b.web.Close()
	<-b.done
}

func (b *bubble) dial() *websocket.Conn {
	b.t.Helper()
	d := websocket.Dialer{NetDialContext: b.l.dial}
	conn, resp, err := d.Dial("ws://pipe/ws/worker", http.Header{api.HeaderToken: {sessionToken}})
	if err != nil {
		b.t.Fatal(err)
	}
	resp.Body.Close()
	return conn
}

// listen reads until the connection ends.
func listen(conn *websocket.Conn) (closed chan int) {
	closed = make(chan int, 1)
	go func() {
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				var c *websocket.CloseError
				errors.As(err, &c)
				if c == nil {
					c = &websocket.CloseError{}
				}
				closed <- c.Code
				return
			}
		}
	}()
	return closed
}

func write(t *testing.T, conn *websocket.Conn, epoch uint64, f protocol.Frame) {
	t.Helper()
	raw, err := protocol.Encode(epoch, f)
	if err == nil {
		err = conn.WriteMessage(websocket.TextMessage, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// connect brings a worker online and gives the epoch of its session.
func (b *bubble) connect(alive ...protocol.AliveRun) (*websocket.Conn, uint64) {
	b.t.Helper()
	conn := b.dial()
	write(b.t, conn, 0, hello("box", nil))
	_, raw, err := conn.ReadMessage()
	if err != nil {
		b.t.Fatal(err)
	}
	env, err := protocol.DecodeFromServer(raw)
	if err != nil {
		b.t.Fatal(err)
	}
	write(b.t, conn, env.Epoch, &protocol.RunAlive{Runs: alive})
	synctest.Wait()
	return conn, env.Epoch
}

func (b *bubble) assign(id string) {
	b.t.Helper()
	var job execution.Job
	options, err := run.ParseOptions(json.RawMessage(`{"command":{"argv":["true"],"cwd":"/"}}`))
	if err != nil {
		b.t.Fatal(err)
	}
	job.Row = run.Row{ID: id, Attempt: 1, WorkerID: "box", Devices: []string{"cpu"}, Options: options}
	job.Program.Command = options.Command
	if err := b.reg.Start(b.t.Context(), job, b.sink); err != nil {
		b.t.Fatal(err)
	}
}

// SEC-06.
func TestSEC06ElevenSecondsOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		conn := b.dial()
		defer conn.Close()
		begun := time.Now()
		if code := <-listen(conn); code != protocol.CloseNoHello {
			t.Errorf("closed with %d", code)
		}
		if waited := time.Since(begun); waited != protocol.HelloTimeout {
			t.Errorf("closed after %v", waited)
		}
	})
}

// TestDSC02ThreeMissedHeartbeats: a silent worker is disconnected after three
// heartbeats; any frame is a sign of life (DSC-14).
func TestDSC02ThreeMissedHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		conn, epoch := b.connect()
		defer conn.Close()
		b.assign("a")
		closed := listen(conn)
		time.Sleep(29 * time.Second)
		write(t, conn, epoch, &protocol.Frames{})
		time.Sleep(29 * time.Second)
		write(t, conn, epoch, &protocol.Heartbeat{})
		synctest.Wait()
		if told := b.sink.all(); len(told) != 0 {
			t.Errorf("told %v of a worker that is there", told)
		}
		begun := time.Now()
		<-closed
		synctest.Wait()
		if waited := time.Since(begun); waited < 30*time.Second || waited > 33*time.Second {
			t.Errorf("cut after %v", waited)
		}
		if told := b.sink.all(); !slices.Equal(told, []string{"lost a " + protocol.CauseNoHeartbeat}) {
			t.Errorf("told %v", told)
		}
	})
}

// K-05, DSC-12: it begins anew with each absence.
func TestK05TheGraceIsADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t)
		defer b.close()
		conn, _ := b.connect()
		b.assign("a")
		listen(conn)
		conn.Close()
		time.Sleep(23 * time.Hour)
		// It comes back for a moment: the grace begins anew.
		back, _ := b.connect(protocol.AliveRun{RunID: "a", Attempt: 1})
		listen(back)
		back.Close()
		time.Sleep(24*time.Hour - time.Minute)
		want := []string{"lost a connection_closed", "back a", "lost a connection_closed"}
		if told := b.sink.all(); !slices.Equal(told, want) {
			t.Errorf("told %v", told)
		}
		if w, err := b.reg.Worker(t.Context(), "box"); err != nil || w.State != api.WorkerDisconnected {
			t.Errorf("the worker is %s, %v", w.State, err)
		}
		time.Sleep(2 * time.Minute)
		if told := b.sink.all(); !slices.Equal(told, append(want, "gone a "+protocol.CodeWorkerUnreachable)) {
			t.Errorf("told %v", told)
		}
		if w, err := b.reg.Worker(t.Context(), "box"); err != nil || w.State != api.WorkerOffline {
			t.Errorf("the worker is %s, %v", w.State, err)
		}
	})
}

// TestP4ClocksDoNotMatter: a worker two minutes off is let in, and its skew is
// shown.
func TestP4ClocksDoNotMatter(t *testing.T) {
	p := newPlane(t, nil)
	secret := p.enrolled("box")
	for _, off := range []time.Duration{-2 * time.Minute, 2 * time.Minute} {
		a := p.connect(secret, "box", func(h *protocol.Hello) { h.TS = h.TS.Add(off) })
		w := p.worker("box")
		if w.ClockSkewMS == nil || time.Duration(*w.ClockSkewMS)*time.Millisecond < off-time.Second || time.Duration(*w.ClockSkewMS)*time.Millisecond > off+time.Second {
			t.Errorf("%v off, shown as %v ms", off, w.ClockSkewMS)
		}
		as := a.assigned(p.submit(on("box")))
		a.report(as, 1, started(), finished(run.Succeeded))
		if v := p.until(as.RunID, run.Succeeded); v.FinishedAt.Before(*v.StartedAt) {
			t.Errorf("it took a negative time: %v to %v", v.StartedAt, v.FinishedAt)
		}
	}
}
