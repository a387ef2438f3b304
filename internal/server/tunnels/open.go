package tunnels

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"cdui/internal/bootstrap"
	"cdui/internal/sshtunnel"
)

// opened is a tunnel that is open.
type opened struct {
	line    Line
	web     *http.Server
	end     string
	serving sync.WaitGroup
}

func (o *opened) close() {
	if o == nil {
		return
	}
	// The line first: over a dead one a listener can't be closed.
	o.line.Close()
	_ = o.web.Close()
	o.serving.Wait()
}

// open opens a tunnel and sees that it leads here.
func (k *Keeper) open(ctx context.Context, t *tunnel) (*opened, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	secure, pin, err := k.cfg.Secure()
	if err != nil {
		return nil, err
	}
	line, err := k.cfg.Dial(ctx, t.spec, &replay{answers: t.answers, given: map[string]bool{}})
	if err != nil {
		return nil, err
	}
	l, end, err := listen(line, t.spec.Folder)
	if err != nil {
		line.Close()
		return nil, err
	}
	o := &opened{line: line, end: end}
	o.web = &http.Server{
		Handler: k.cfg.Handler(t.worker), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(k.log.Handler(), slog.LevelDebug),
	}
	o.serving.Go(func() { _ = o.web.Serve(tls.NewListener(l, secure)) }) // ends with the line
	if err := bootstrap.Point(ctx, line, bootstrap.PointCommand(t.spec.Folder), end, pin); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// maxSocketPath is what the name of a socket may have everywhere.
const maxSocketPath = 100

// listen opens the other end: a socket that its user alone can connect to, else
// a port that the other machine chooses.
func listen(line Line, folder string) (net.Listener, string, error) {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime aborts instead
	path := folder + "/" + hex.EncodeToString(b[:]) + ".sock"
	socketErr := errors.New("the name of a socket would be too long")
	if len(path) <= maxSocketPath {
		l, err := line.ListenSocket(path)
		if err == nil {
			return l, path, nil
		}
		socketErr = err
	}
	l, err := line.ListenPort()
	if err == nil {
		return l, fmt.Sprintf("127.0.0.1:%d", l.Addr().(*net.TCPAddr).Port), nil
	}
	if errors.Is(err, sshtunnel.ErrNoListening) {
		return nil, "", fmt.Errorf("the sshd there lets no tunnel be opened: its sshd_config must have AllowTcpForwarding yes or remote, and no DisableForwarding (%w; %w)", socketErr, err)
	}
	return nil, "", err
}

// watch returns when a tunnel is not up any more, and says why.
func (k *Keeper) watch(ctx context.Context, o *opened) error {
	gone := make(chan error, 1)
	go func() { gone <- o.line.Wait() }() // ends with the line, which close closes
	tick := time.NewTicker(k.cfg.Beat)
	defer tick.Stop()
	for {
		select {
		case err := <-gone:
			if err == nil {
				err = errors.New("the other side hung up")
			}
			return fmt.Errorf("the connection ended: %w", err)
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		beat, cancel := context.WithTimeout(ctx, k.cfg.Patience)
		err := o.line.Alive(beat)
		cancel()
		if err != nil {
			return err
		}
	}
}

// replay gives the answers that a person gave before, each once for a
// connection: a wrong one must not be tried until the account is locked.
type replay struct {
	answers map[string]string
	given   map[string]bool
}

// Secret implements sshtunnel.Asker.
func (r *replay) Secret(_ context.Context, q sshtunnel.Question) (string, error) {
	answer, ok := r.answers[q.ID]
	if !ok || q.Once || r.given[q.ID] {
		return "", fmt.Errorf("%w: %s", sshtunnel.ErrNeedsTyping, q.Prompt)
	}
	r.given[q.ID] = true
	return answer, nil
}

// Confirm implements sshtunnel.Asker.
func (*replay) Confirm(context.Context, string) (bool, error) { return false, nil }
