package workers

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/protocol"
	"cdui/internal/server/workers/admit"
)

const (
	closeGoingAway = websocket.CloseGoingAway
	// outboxFrames and outboxBytes bound what waits to be written.
	outboxFrames = 1024
	outboxBytes  = 2 * protocol.MaxMessageBytes
	// goodbye is how long an ending connection has for its last frames.
	goodbye = 2 * time.Second
	// readPiece is how much is read between two signs of life.
	readPiece = 64 << 10
)

// key names one attempt of one run.
type key struct {
	id      string
	attempt int
}

// session is one connection of one worker.
type session struct {
	registry *Registry
	conn     *websocket.Conn
	log      *slog.Logger
	id       admit.Identity
	peer     netip.Addr
	name     string
	epoch    uint64
	nonce    string
	caps     protocol.Capabilities
	// drainOnly: it is of another release.
	drainOnly bool
	// patience is how long the worker may be silent, or take to read.
	patience time.Duration

	outbox chan message
	queued atomic.Int64
	parts  atomic.Uint64
	joiner protocol.Joiner
	warned map[protocol.FrameType]bool
	// pong gets a value with each answer to a ping.
	pong chan struct{}
	acks acks

	once   sync.Once
	ended  chan struct{}
	ending ending
	// read is closed when nothing more will be read.
	read chan struct{}

	// Guarded by Registry.mu: whether its first run_alive has been gone through,
	// how many heartbeats came before it, runs that it has and nobody asks for,
	// and who waits for console output.
	settled   bool
	early     int
	strays    map[key]*placed
	fetches   map[string]*fetch
	lastFetch uint64
}

// message is one frame as it is written: whole, or in parts.
type message struct {
	pieces [][]byte
	size   int64
}

// ending is why a session ends.
type ending struct {
	code  int
	text  string
	cause protocol.Problem
}

func newSession(r *Registry, conn *websocket.Conn, id admit.Identity, peer netip.Addr) *session {
	return &session{
		registry: r, conn: conn, log: r.log, id: id, peer: peer,
		patience: protocol.MissedHeartbeats * r.cfg.Heartbeat,
		outbox:   make(chan message, outboxFrames), warned: map[protocol.FrameType]bool{}, pong: make(chan struct{}, 1),
		acks:  acks{due: map[key]*due{}, wake: make(chan struct{}, 1), full: make(chan struct{}, 1)},
		ended: make(chan struct{}), read: make(chan struct{}),
		strays: map[key]*placed{}, fetches: map[string]*fetch{},
	}
}

// hangUp ends the session after what is in the outbox. Only the first reason
// counts.
func (s *session) hangUp(code int, text string, cause protocol.Problem) {
	s.once.Do(func() {
		s.ending = ending{code, text, cause}
		close(s.ended)
	})
}

func (s *session) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// send puts a frame into the outbox. A frame that can't be sent is logged and
// left out; a full outbox ends the session.
func (s *session) send(f protocol.Frame) bool {
	m, err := s.encode(f)
	if err != nil {
		s.log.Error("frame left out", "worker", s.name, "type", f.FrameType(), "error", err)
		return false
	}
	return s.enqueue(m)
}

func (s *session) encode(f protocol.Frame) (message, error) {
	raw, err := protocol.Encode(s.epoch, f)
	if err != nil {
		return message{}, err
	}
	m := message{pieces: [][]byte{raw}, size: int64(len(raw))}
	if len(raw) <= protocol.MaxFrameBytes {
		return m, nil
	}
	if !s.caps.Has(protocol.CapParts) {
		return message{}, errors.New("it is too long for a worker that can't put parts together")
	}
	parts, err := protocol.Split(s.parts.Add(1), raw)
	if err != nil {
		return message{}, err
	}
	m.pieces = m.pieces[:0]
	for _, p := range parts {
		piece, err := protocol.Encode(s.epoch, p)
		if err != nil {
			return message{}, err
		}
		m.pieces = append(m.pieces, piece)
	}
	return m, nil
}

func (s *session) enqueue(m message) bool {
	if s.over() {
		return false
	}
	if s.queued.Add(m.size) <= outboxBytes {
		select {
		case s.outbox <- m:
			return true
		default:
		}
	}
	s.queued.Add(-m.size)
	s.hangUp(protocol.CloseTooSlow, "the worker doesn't take what it is sent", protocol.Problem{
		Code: protocol.CauseConnectionClosed, Text: "the worker did not take what it was sent",
	})
	return false
}

// write owns the writing side until the session ends.
func (s *session) write() {
	defer s.conn.Close()
	var flush *time.Timer
	var due <-chan time.Time
	defer func() {
		if flush != nil {
			flush.Stop()
		}
	}()
	for {
		var err error
		select {
		case m := <-s.outbox:
			err = s.put(m, s.patience)
		case <-s.acks.wake:
			if due == nil {
				flush = time.NewTimer(protocol.AckEvery)
				due = flush.C
			}
		case <-due:
			due = nil
			err = s.putAcks()
		case <-s.acks.full:
			err = s.putAcks()
		case <-s.ended:
			s.leave()
			return
		}
		if err != nil {
			s.hangUp(websocket.CloseAbnormalClosure, "", protocol.Problem{Code: protocol.CauseConnectionClosed, Text: err.Error()})
			return
		}
	}
}

func (s *session) put(m message, patience time.Duration) error {
	defer s.queued.Add(-m.size)
	for _, piece := range m.pieces {
		if err := s.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if err := s.conn.WriteMessage(websocket.TextMessage, piece); err != nil {
			return err
		}
	}
	return nil
}

// leave writes what is in the outbox and the close frame, and lets the other
// side read them before the connection is cut.
func (s *session) leave() {
	deadline := time.Now().Add(goodbye)
	for range len(s.outbox) {
		if s.put(<-s.outbox, time.Until(deadline)) != nil {
			return
		}
	}
	sayGoodbye(s.conn, s.ending.code, s.ending.text)
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-s.read:
	case <-timer.C:
	}
}

// sayGoodbye writes a close frame and ends the writing side. A connection that
// is cut with bytes unread would take the close frame back from the peer.
func sayGoodbye(conn *websocket.Conn, code int, text string) {
	const mostText = 120
	if len(text) > mostText {
		text = text[:mostText]
	}
	err := conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(goodbye))
	if half, ok := conn.NetConn().(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite() // the peer is gone already, then
	}
}

// receive reads frames until the connection ends, and says why it did. After
// the session's end it only reads on, so that the peer gets to see the reason.
func (s *session) receive(handle func(protocol.Frame) error) {
	defer close(s.read)
	for {
		f, err := s.next()
		switch {
		case s.over() && err == nil:
			continue
		case err == nil && f == nil:
			continue
		case err == nil:
			err = handle(f)
		}
		if err == nil {
			continue
		}
		if code, text, cause := s.verdict(err); code != 0 {
			s.hangUp(code, text, cause)
		}
		if !errors.Is(err, protocol.ErrBadFrame) && !errors.Is(err, errBeyondCredit) {
			return // nothing more can be read
		}
	}
}

// verdict turns the end of reading into that of the session.
func (s *session) verdict(err error) (code int, text string, cause protocol.Problem) {
	var timeout net.Error
	switch {
	case errors.Is(err, protocol.ErrBadFrame), errors.Is(err, errBeyondCredit):
		s.log.Warn("worker sends what is no frame", "worker", s.name, "error", err)
		return protocol.CloseBadFrame, err.Error(), protocol.Problem{Code: protocol.CauseConnectionClosed, Text: err.Error()}
	case errors.As(err, &timeout) && timeout.Timeout():
		seconds := s.patience.Seconds()
		return websocket.CloseAbnormalClosure, "no heartbeat", protocol.Problem{
			Code: protocol.CauseNoHeartbeat, Text: "no heartbeat came", Params: map[string]any{"seconds": seconds},
		}
	}
	return websocket.CloseAbnormalClosure, "", protocol.Problem{Code: protocol.CauseConnectionClosed, Text: "the connection was closed"}
}

// next reads one frame; nil is a piece of one, or one of another session.
func (s *session) next() (protocol.Frame, error) {
	raw, err := s.message()
	if err != nil {
		return nil, err
	}
	env, err := protocol.DecodeFromAgent(raw)
	if err != nil {
		return nil, err
	}
	if part, ok := env.Frame.(*protocol.Part); ok {
		whole, err := s.joiner.Add(part)
		if whole == nil || err != nil {
			return nil, err
		}
		if env, err = protocol.DecodeFromAgent(whole); err != nil {
			return nil, err
		}
		if _, nested := env.Frame.(*protocol.Part); nested {
			return nil, errNestedPart
		}
	}
	if _, hello := env.Frame.(*protocol.Hello); !hello && env.Epoch != s.epoch {
		return nil, nil
	}
	return env.Frame, nil
}

// message reads one WebSocket message. Every piece of it is a sign of life, so
// that a slow link isn't taken for a dead one.
func (s *session) message() ([]byte, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	_, reader, err := s.conn.NextReader()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, 0, 512)
	for {
		if len(raw) == cap(raw) {
			grown := make([]byte, len(raw), 2*cap(raw))
			copy(grown, raw)
			raw = grown
		}
		n, err := reader.Read(raw[len(raw):min(cap(raw), len(raw)+readPiece)])
		raw = raw[:len(raw)+n]
		switch {
		case errors.Is(err, io.EOF):
			return raw, nil
		case err != nil:
			return nil, err
		}
		if err := s.alive(); err != nil {
			return nil, err
		}
	}
}

func (s *session) alive() error {
	patience := s.patience
	if s.over() {
		patience = goodbye
	}
	return s.conn.SetReadDeadline(time.Now().Add(patience))
}
