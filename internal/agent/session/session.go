package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/protocol"
	"cdui/internal/protocol/pieces"
)

// session is one connection.
type session struct {
	client *Client
	worker Worker
	conn   *websocket.Conn
	log    *slog.Logger

	epoch uint64
	caps  protocol.Capabilities
	// patience is how long the other side may be silent.
	patience time.Duration
	// recorded is what the control plane has of each run, by welcome.
	recorded map[Key]uint64

	out    *writer
	joiner protocol.Joiner
	logs   *logServer

	// stopped is over when the session is; the flows' goroutines hang on it.
	stopped context.Context //nolint:containedctx // flows begin at any time of a session's life
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup

	mu    sync.Mutex
	flows map[Key]*flow
}

func newSession(c *Client, conn *websocket.Conn) *session {
	return &session{
		client: c, worker: c.cfg.Worker, conn: conn, log: c.log,
		recorded: map[Key]uint64{}, flows: map[Key]*flow{},
	}
}

// shake says hello and waits for the answer.
func (s *session) shake(ctx context.Context) (*protocol.Welcome, error) {
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	defer stop()
	hello := s.worker.Hello()
	b, err := protocol.Encode(0, hello)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(dialTimeout)
	_ = s.conn.SetWriteDeadline(deadline)
	_ = s.conn.SetReadDeadline(deadline)
	// A refused connection is closed before hello is read: the answer counts.
	werr := s.conn.WriteMessage(websocket.TextMessage, b)
	_, raw, err := s.conn.ReadMessage()
	if err != nil {
		if refusal := closeError(err); refusal != err { //nolint:errorlint // the same error comes back unless it is one
			return nil, refusal
		}
		return nil, fmt.Errorf("say hello: %w", errors.Join(werr, err))
	}
	env, err := protocol.DecodeFromServer(raw)
	if err != nil {
		return nil, err
	}
	switch f := env.Frame.(type) {
	case *protocol.Welcome:
		s.open(env.Epoch, hello, f)
		return f, nil
	case *protocol.Reject:
		return nil, &Refusal{CloseCode: protocol.CloseRejected, Code: f.Code, Reason: f.Reason}
	default:
		return nil, fmt.Errorf("%w: %s before a welcome", protocol.ErrBadFrame, env.Frame.FrameType())
	}
}

// open takes over what the welcome says.
func (s *session) open(epoch uint64, hello *protocol.Hello, w *protocol.Welcome) {
	s.epoch, s.caps = epoch, hello.Capabilities.Common(w.Capabilities)
	for _, r := range w.Runs {
		s.recorded[Key{r.RunID, r.Attempt}] = r.RecordedSeq
	}
	s.patience = protocol.MissedHeartbeats * beat(w)
	s.out = newWriter(s.conn, epoch, s.caps, s.patience, s.log)
	s.logs = newLogServer(s)
}

func beat(w *protocol.Welcome) time.Duration {
	if d := w.HeartbeatS.Duration(); d > 0 {
		return d
	}
	return protocol.DefaultHeartbeat
}

// run carries the session until it ends, and says why it did. Nothing of it is
// left then.
func (s *session) run(ctx context.Context, w *protocol.Welcome) error {
	s.stopped, s.stop = context.WithCancelCause(ctx)
	ctx = s.stopped
	if err := s.out.urge(&protocol.RunAlive{Runs: s.worker.Alive()}); err != nil {
		return err // its room is empty at this moment
	}
	s.client.attach(s)
	s.wg.Go(func() { s.writeFailed(s.out.run(ctx)) })
	s.wg.Go(func() { s.writeFailed(s.beat(ctx, beat(w))) })
	s.wg.Go(func() { s.stop(s.read()) })
	<-ctx.Done()
	err := context.Cause(ctx)
	s.client.detach()
	s.hangUp(err)
	s.wg.Wait()
	return err
}

// lastWords is how long the reader may still look for the reason why nothing
// can be written any more.
const lastWords = time.Second

// writeFailed ends the session, unless the reader finds a better reason first.
func (s *session) writeFailed(err error) {
	if err != nil {
		time.AfterFunc(lastWords, func() { s.stop(err) })
	}
}

// hangUp closes the connection, with the code that tells the other side why.
func (s *session) hangUp(err error) {
	code, text := websocket.CloseGoingAway, "the agent stops"
	switch {
	case errors.Is(err, protocol.ErrBadFrame):
		code, text = protocol.CloseBadFrame, err.Error()
	case errors.Is(err, errTooSlow):
		code, text = protocol.CloseTooSlow, err.Error()
	}
	// A control frame holds 125 bytes.
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text[:min(len(text), 120)]), time.Now().Add(time.Second))
	_ = s.conn.Close()
}

// beat sends heartbeats. A ping goes with each, so that the other side's
// silence means something even when it has nothing to say.
func (s *session) beat(ctx context.Context, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := s.out.urge(s.worker.Heartbeat()); err != nil {
			return err
		}
		if err := s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(s.patience)); err != nil {
			return fmt.Errorf("send ping: %w", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// read takes what the other side says until the connection ends.
func (s *session) read() error {
	alive := func() error { return s.conn.SetReadDeadline(time.Now().Add(s.patience)) }
	s.conn.SetPongHandler(func(string) error { return alive() })
	s.conn.SetPingHandler(func(data string) error {
		// A pong that is late is no reason to end it all: the writer is busy.
		_ = s.conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(s.patience))
		return alive()
	})
	for {
		raw, err := pieces.Read(s.conn, alive)
		if err != nil {
			return fmt.Errorf("connection ended: %w", closeError(err))
		}
		if err := s.take(raw); err != nil {
			return err
		}
	}
}

// take handles one frame.
func (s *session) take(raw []byte) error {
	env, err := protocol.DecodeFromServer(raw)
	if err != nil {
		return err
	}
	if env.Epoch != s.epoch {
		s.log.Warn("frame of another session is dropped", "type", env.Frame.FrameType(), "session", env.Epoch)
		return nil
	}
	switch f := env.Frame.(type) {
	case *protocol.Part:
		whole, err := s.joiner.Add(f)
		if err != nil || whole == nil {
			return err
		}
		return s.take(whole)
	case *protocol.Reject:
		return &Refusal{CloseCode: protocol.CloseRejected, Code: f.Code, Reason: f.Reason}
	case *protocol.Unknown:
		if !s.client.warned[f.Type] {
			s.client.warned[f.Type] = true
			s.log.Warn("frames of an unknown type are ignored", "type", f.Type)
		}
	case *protocol.Ack:
		s.acked(f)
		s.worker.Order(f)
	case *protocol.FetchLog:
		s.logs.fetch(f)
	case *protocol.Credit:
		s.logs.credit(f)
	case *protocol.CancelFetch:
		s.logs.cancel(f.RequestID)
		s.worker.Order(f)
	case *protocol.Welcome:
		s.log.Warn("a second welcome is ignored")
	default:
		s.worker.Order(f)
	}
	return nil
}

func (s *session) acked(a *protocol.Ack) {
	s.mu.Lock()
	f := s.flows[Key{a.RunID, a.Attempt}]
	s.mu.Unlock()
	if f != nil {
		f.acked(a.Seq)
	}
}
