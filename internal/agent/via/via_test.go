package via_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/agent/via"
	"cdui/internal/tlspin"
)

// H-03: a stranger at the tunnel's end is recognised before anything is sent,
// and an end is on this machine, whatever the file says.
func TestWhoStandsAtTheEnd(t *testing.T) {
	t.Parallel()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	pin := tlspin.Of(srv.Certificate())
	end := srv.Listener.Addr().String()
	if err := via.Reach(t.Context(), end, pin); err != nil {
		t.Errorf("the control plane: %v", err)
	}
	other := pin
	other[0] ^= 1
	if err := via.Reach(t.Context(), end, other); !errors.Is(err, tlspin.ErrMismatch) {
		t.Errorf("a stranger: %v", err)
	}
	dir, err := os.MkdirTemp("", "via")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan []byte, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 4096)
		n, _ := c.Read(b)
		_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n")
		heard <- b[:n]
	}()
	if err := via.Reach(t.Context(), socket, pin); err == nil {
		t.Error("a program that speaks no TLS is the control plane")
	}
	if got := <-heard; len(got) == 0 || got[0] != 0x16 || strings.Contains(string(got), "HTTP") {
		t.Errorf("it heard %q", got)
	}
	for _, end := range []string{"", "10.0.0.1:80", "lab:80", "relative.sock", "127.0.0.1", "0.0.0.0:1", "127.0.0.1:0x1"} {
		if err := via.Reach(t.Context(), end, pin); err == nil || !strings.Contains(err.Error(), "no end of a tunnel") {
			t.Errorf("%q: %v", end, err)
		}
	}
}

func TestTheEndMoves(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "at")
	tunnel, dial := via.New(file)
	if _, err := dial(t.Context(), "tcp", "ignored:1"); err == nil || !strings.Contains(err.Error(), "not there yet") {
		t.Errorf("no tunnel yet: %v", err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if err := os.WriteFile(file, []byte(l.Addr().String()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := listen()
	c, err := dial(t.Context(), "tcp", "ignored:1")
	if err != nil || c.RemoteAddr().String() != first.Addr().String() {
		t.Fatalf("%v", err)
	}
	c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	moved := make(chan struct{}, 10)
	done := make(chan struct{})
	go func() { defer close(done); tunnel.Watch(ctx, func() { moved <- struct{}{} }) }()
	second := listen()
	select {
	case <-moved:
	case <-ctx.Done():
		t.Fatal("nobody was told of the new end")
	}
	c, err = dial(t.Context(), "tcp", "ignored:1")
	if err != nil || c.RemoteAddr().String() != second.Addr().String() {
		t.Fatalf("%v", err)
	}
	c.Close()
	cancel()
	<-done
	if len(moved) > 0 {
		t.Error("told twice of one move")
	}
}
