package session

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"cdui/internal/console"
	"cdui/internal/protocol"
)

// Key names one attempt of one run.
type Key struct {
	RunID   string
	Attempt int
}

// Source gives the records of one attempt. One goroutine at a time uses it.
type Source interface {
	// From makes Next begin after record seq.
	From(seq uint64)
	// Next waits for the records after the last ones that it gave, and gives
	// io.EOF after the end.
	Next(ctx context.Context) ([]protocol.Record, error)
}

// Log is what a run prints.
type Log interface {
	Reader() *console.Reader
	// Changed gives a channel that is closed at the next change, Ended tells
	// that the run won't print more.
	Changed() <-chan struct{}
	Ended() bool
}

// Worker is whom a session speaks for. Its methods don't block.
type Worker interface {
	// Hello introduces the worker at each connection.
	Hello() *protocol.Hello
	Heartbeat() *protocol.Heartbeat
	// Alive lists the runs that the worker has.
	Alive() []protocol.AliveRun
	// Log finds what a run prints.
	Log(runID string) (Log, error)
	// Order takes what the control plane says: welcome, assign, cancel, drain,
	// ack, and whatever else is not the session's own business.
	Order(f protocol.Frame)
	// Link is told how the connection stands.
	Link(l Link)
}

// Link is how the connection stands.
type Link struct {
	Up bool
	// Err says why it is down.
	Err error
	// Refusal is set when the control plane doesn't want this worker.
	Refusal *Refusal
}

// Config is what a Client is made of.
type Config struct {
	// URL is the control plane's address, http or https.
	URL string
	TLS *tls.Config
	// Dial connects in place of a connection to URL; nil is none.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Token is read before each connection.
	Token  func() (string, error)
	Worker Worker
	Logger *slog.Logger
}

// Client keeps one worker connected.
type Client struct {
	cfg Config
	log *slog.Logger
	// warned holds the frame types that a warning was given for.
	warned map[protocol.FrameType]bool
	wary   wary

	mu      sync.Mutex
	sources map[Key]Source
	live    *session
	// redial cuts a wait short.
	redial chan struct{}
}

// New makes a client.
func New(cfg Config) (*Client, error) {
	if _, err := workerURL(cfg.URL); err != nil {
		return nil, err
	}
	return &Client{
		cfg: cfg, log: cfg.Logger, warned: map[protocol.FrameType]bool{}, sources: map[Key]Source{},
		redial: make(chan struct{}, 1),
	}, nil
}

// Follow sends the records of an attempt, now and after each reconnection. One
// that is followed already stays with the source that it has.
func (c *Client) Follow(key Key, src Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources[key] != nil {
		return
	}
	c.sources[key] = src
	if c.live != nil {
		c.live.startFlow(key, src)
	}
}

// Unfollow stops that. The source is not used any more when it returns.
func (c *Client) Unfollow(key Key) {
	c.mu.Lock()
	delete(c.sources, key)
	var f *flow
	if c.live != nil {
		f = c.live.takeFlow(key)
	}
	c.mu.Unlock()
	if f != nil {
		f.stop()
	}
	c.wary.forget(key)
}

const (
	backoffFirst = time.Second
	backoffMost  = 30 * time.Second
	// steady is how long a session lasts that counts as a good one.
	steady = 10 * time.Second
	// refusedFirst is the shortest wait after a refusal: somebody has to mend it.
	refusedFirst = 5 * time.Second
)

// backoff is how long to wait before try n, from 0. Agents that lost their
// control plane together come back spread out: luck is evenly from 0 to 1.
func backoff(n int, refused bool, luck float64) time.Duration {
	most := backoffMost
	if n < 5 {
		most = min(most, backoffFirst<<n)
	}
	wait := time.Duration(luck * float64(most))
	if refused {
		wait = max(wait, refusedFirst)
	}
	return wait
}

// Run keeps the worker connected until ctx is over. There is no last try.
func (c *Client) Run(ctx context.Context) {
	for try := 0; ; try++ {
		began := time.Now()
		err := c.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= steady {
			try = 0
		}
		var refusal *Refusal
		errors.As(err, &refusal)
		wait := backoff(try, refusal != nil, rand.Float64())
		c.log.WarnContext(ctx, "not connected", "control", c.cfg.URL, "error", err, "retry_in", wait.Round(time.Millisecond))
		c.cfg.Worker.Link(Link{Err: err, Refusal: refusal})
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.redial:
			timer.Stop()
			try = -1
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// errMoved is why a session ends whose way is closed.
var errMoved = errors.New("the way to the control plane is another one now")

// Redial connects anew at once: the way that a connection took is closed, or
// there is one where there was none.
func (c *Client) Redial() {
	select {
	case c.redial <- struct{}{}:
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.live.stop(errMoved)
	}
}

// once is one connection from dial to close.
func (c *Client) once(ctx context.Context) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	s := newSession(c, conn)
	welcome, err := s.shake(ctx)
	if err != nil {
		s.hangUp(err)
		return err
	}
	c.log.InfoContext(ctx, "connected", "control", c.cfg.URL, "worker", welcome.WorkerID, "session", s.epoch)
	c.cfg.Worker.Order(welcome)
	c.cfg.Worker.Link(Link{Up: true})
	err = s.run(ctx, welcome)
	c.wary.judge(err, s)
	return err
}

// attach makes s the live session: its flows begin. From then on a source that
// is followed or unfollowed concerns it.
func (c *Client) attach(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = s
	for key, src := range c.sources {
		s.startFlow(key, src)
	}
}

func (c *Client) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = nil
}
