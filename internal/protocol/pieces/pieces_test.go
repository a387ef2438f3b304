package pieces_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/protocol/pieces"
)

const patience = 30 * time.Second

// slow is a connection that takes and gives a kilobyte each half a second.
type slow struct{ net.Conn }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(500 * time.Millisecond)
	return s.Conn.Read(p[:min(len(p), 1<<10)])
}

func (s slow) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		time.Sleep(500 * time.Millisecond)
		var k int
		k, err = s.Conn.Write(p[n:min(len(p), n+1<<10)])
		n += k
	}
	return n, err
}

// one is a listener of one connection.
type one struct {
	conn   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *one) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *one) Addr() net.Addr { return &net.TCPAddr{} }

// pair connects a client to a server over a line in memory, and has the server
// do its part.
func pair(t *testing.T, wrap func(net.Conn) net.Conn, serve func(ws *websocket.Conn)) (ws *websocket.Conn, wait func()) {
	t.Helper()
	here, there := net.Pipe()
	l := &one{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conn <- there
	served, ended := make(chan struct{}), make(chan struct{})
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // a pipe
		defer close(served)
		up := websocket.Upgrader{WriteBufferSize: pieces.Buffer}
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		serve(ws)
	})}
	go func() {
		defer close(ended)
		_ = web.Serve(l)
	}()
	d := websocket.Dialer{
		NetDialContext:  func(context.Context, string, string) (net.Conn, error) { return wrap(here), nil },
		WriteBufferSize: pieces.Buffer,
	}
	ws, resp, err := d.Dial("ws://pipe/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return ws, func() {
		<-served
		ws.Close()
		web.Close()
		<-ended
	}
}

func read(ws *websocket.Conn) ([]byte, error) {
	return pieces.Read(ws, func() error { return ws.SetReadDeadline(time.Now().Add(patience)) })
}

func write(ws *websocket.Conn, raw []byte) error {
	return pieces.Write(ws, raw, func() time.Time { return time.Now().Add(patience) })
}

// W-03: a message that takes minutes comes whole, in either direction.
func TestALongMessageOnASlowLine(t *testing.T) {
	for _, size := range []int{0, 1, 32 << 10, 32<<10 + 1, 300_000} {
		synctest.Test(t, func(t *testing.T) {
			want := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
			ws, wait := pair(t, func(c net.Conn) net.Conn { return slow{c} }, func(ws *websocket.Conn) {
				if err := write(ws, want); err != nil {
					t.Errorf("%d bytes down: %v", size, err)
				}
				if got, err := read(ws); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d of %d bytes came up, %v", len(got), size, err)
				}
			})
			began := time.Now()
			if got, err := read(ws); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes came down, %v", len(got), size, err)
			}
			if took := time.Since(began); size > 200_000 && took < 2*patience {
				t.Errorf("the line is not slow: %v", took)
			}
			if err := write(ws, want); err != nil {
				t.Errorf("%d bytes up: %v", size, err)
			}
			wait()
		})
	}
}

// W-03: one that stops half-way ends the wait when patience is over.
func TestAMessageThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		ws, wait := pair(t, func(c net.Conn) net.Conn { return c }, func(ws *websocket.Conn) {
			w, err := ws.NextWriter(websocket.TextMessage)
			if err == nil {
				_, err = w.Write(make([]byte, 40<<10)) // it is sent before its end is
			}
			if err != nil {
				t.Error(err)
			}
			<-over
		})
		began := time.Now()
		_, err := read(ws)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) != patience {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		close(over)
		wait()
	})
}

// W-03: nor does a peer that takes nothing hold a writer for ever.
func TestAPeerThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		ws, wait := pair(t, func(c net.Conn) net.Conn { return c }, func(*websocket.Conn) { <-over })
		began := time.Now()
		var timeout net.Error
		if err := write(ws, make([]byte, 1<<20)); !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) != patience {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		close(over)
		wait()
	})
}
