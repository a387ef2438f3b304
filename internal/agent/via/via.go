// Package via is an agent's way to its control plane through a tunnel: a file
// names the tunnel's end on this machine, which is another one each time that
// the tunnel is opened. Who answers there is checked by the key that is pinned,
// before anything is sent; the package itself trusts no address.
package via

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cdui/internal/tlspin"
)

// URL is what the control plane is called through a tunnel.
const URL = "https://localhost"

const (
	dialTimeout = 20 * time.Second
	// lookEvery is how soon a new end is noticed.
	lookEvery = time.Second
)

// Tunnel is the way through a tunnel. It is safe for concurrent use.
type Tunnel struct {
	file string

	mu sync.Mutex
	// taken is the end that was dialled last.
	taken string
}

// Dial connects to a tunnel's end, whatever address it is asked for.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// New makes a way of the file that names the tunnel's end. Without a file there
// is no tunnel, and both are nil.
func New(file string) (*Tunnel, Dial) {
	if file == "" {
		return nil, nil
	}
	t := &Tunnel{file: file}
	return t, t.dial
}

// End reads where the tunnel ends now.
func (t *Tunnel) End() (string, error) {
	f, err := os.Open(t.file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("the tunnel is not there yet; the control plane opens it")
	}
	if err != nil {
		return "", fmt.Errorf("find the tunnel: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", fmt.Errorf("find the tunnel: %w", err)
	}
	end := strings.TrimSpace(string(raw))
	_, _, err = network(end)
	return end, err
}

// network tells how to dial an end: a unix socket by its path, or a port of
// this machine's loopback, and nothing else.
func network(end string) (network, address string, err error) {
	if filepath.IsAbs(end) {
		return "unix", end, nil
	}
	if at, err := netip.ParseAddrPort(end); err == nil && at.Addr().IsLoopback() {
		return "tcp", end, nil
	}
	return "", "", fmt.Errorf("%.100q is no end of a tunnel: it is a path, or an address of this machine's loopback", end)
}

func (t *Tunnel) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	end, err := t.End()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.taken = end
	t.mu.Unlock()
	return dial(ctx, end)
}

func dial(ctx context.Context, end string) (net.Conn, error) {
	kind, address, err := network(end)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext(ctx, kind, address)
}

// Watch calls moved when the tunnel ends elsewhere than where was dialled, until
// ctx is over. A tunnel that isn't there doesn't move.
func (t *Tunnel) Watch(ctx context.Context, moved func()) {
	if t == nil {
		return
	}
	told := ""
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		end, err := t.End()
		t.mu.Lock()
		taken := t.taken
		t.mu.Unlock()
		if err == nil && end != taken && end != told {
			told = end
			moved()
		}
	}
}

// Reach tells whether the control plane with that key answers at a tunnel's
// end. Nothing is sent but what opens a connection.
func Reach(ctx context.Context, end string, pin tlspin.Pin) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := dial(ctx, end)
	if err != nil {
		return err
	}
	defer conn.Close()
	cfg := pin.Config()
	cfg.ServerName = "localhost"
	c := tls.Client(conn, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("what answers at %s is not the control plane: %w", end, err)
	}
	return nil
}
