// Package conn is one WebSocket connection to an agent: its hello, frames in
// both directions, acknowledgements, and how it ends. It knows nothing of runs
// or of who may connect.
//
// One goroutine calls Receive and another one Write; everything else may be
// called from anywhere and doesn't wait. What is to be written waits in a
// bounded outbox; when it is full the connection ends. HangUp says why it ends,
// once; both goroutines are over soon after.
package conn

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/protocol"
	"cdui/internal/protocol/pieces"
)

const (
	// outboxFrames and outboxBytes bound what waits to be written.
	outboxFrames = 1024
	outboxBytes  = 2 * protocol.MaxMessageBytes
	// goodbye is how long an ending connection has for its last frames.
	goodbye = 2 * time.Second
)

// Conn is one connection. Its fields may be set until Write is started.
type Conn struct {
	// Name is what the log calls the worker.
	Name string
	// Epoch is that of the session, Caps what both sides can.
	Epoch uint64
	Caps  protocol.Capabilities

	ws  *websocket.Conn
	log *slog.Logger
	// patience is how long the worker may be silent, or take to read.
	patience time.Duration

	outbox chan Message
	queued atomic.Int64
	parts  atomic.Uint64
	joiner protocol.Joiner
	// pong gets a value with each answer to a ping; pinged holds the newest ping
	// that is not answered.
	pong   chan struct{}
	pinged chan string
	acks   acks

	once   sync.Once
	ended  chan struct{}
	ending Ending
	// read is closed when nothing more will be read.
	read chan struct{}
}

// Key names one attempt of one run.
type Key struct {
	RunID   string
	Attempt int
}

// Message is one frame as it is written: whole, or in parts.
type Message struct {
	pieces [][]byte
	size   int64
}

// Ending is why a connection ends: the close code and its text, and the cause
// that is told in the logs of the worker's runs.
type Ending struct {
	Code  int
	Text  string
	Cause protocol.Problem
}

// New takes over a connection of which nothing was read. heartbeat is how often
// the worker is to be heard of.
func New(ws *websocket.Conn, heartbeat time.Duration, log *slog.Logger) *Conn {
	ws.SetReadLimit(protocol.MaxFrameBytes)
	c := &Conn{
		ws: ws, log: log, patience: protocol.MissedHeartbeats * heartbeat,
		outbox: make(chan Message, outboxFrames), pong: make(chan struct{}, 1), pinged: make(chan string, 1),
		acks:  acks{due: map[Key]*due{}, wake: make(chan struct{}, 1), full: make(chan struct{}, 1)},
		ended: make(chan struct{}), read: make(chan struct{}),
	}
	ws.SetPongHandler(func(string) error {
		select {
		case c.pong <- struct{}{}:
		default:
		}
		return c.alive()
	})
	// The writer answers: one who has no patience would end a slow connection.
	ws.SetPingHandler(func(data string) error {
		select {
		case c.pinged <- data:
		default:
		}
		return nil
	})
	return c
}

// HangUp ends the session after what is in the outbox. Only the first reason
// counts.
func (c *Conn) HangUp(code int, text string, cause protocol.Problem) {
	c.once.Do(func() {
		c.ending = Ending{code, text, cause}
		close(c.ended)
	})
}

// Ending gives the reason once the connection has ended, and waits until then.
func (c *Conn) Ending() Ending {
	<-c.ended
	return c.ending
}

func (c *Conn) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Send puts a frame into the outbox. A frame that can't be sent is logged and
// left out; a full outbox ends the session.
func (c *Conn) Send(f protocol.Frame) bool {
	m, err := c.Encode(f)
	if err != nil {
		c.log.Error("frame left out", "worker", c.Name, "type", f.FrameType(), "error", err)
		return false
	}
	return c.Enqueue(m)
}

// Encode makes a frame ready to be sent, in parts when it is long.
func (c *Conn) Encode(f protocol.Frame) (Message, error) {
	raw, err := protocol.Encode(c.Epoch, f)
	if err != nil {
		return Message{}, err
	}
	m := Message{pieces: [][]byte{raw}, size: int64(len(raw))}
	if len(raw) <= protocol.MaxFrameBytes {
		return m, nil
	}
	if !c.Caps.Has(protocol.CapParts) {
		return Message{}, errors.New("it is too long for a worker that can't put parts together")
	}
	parts, err := protocol.Split(c.parts.Add(1), raw)
	if err != nil {
		return Message{}, err
	}
	m.pieces = m.pieces[:0]
	for _, p := range parts {
		piece, err := protocol.Encode(c.Epoch, p)
		if err != nil {
			return Message{}, err
		}
		m.pieces = append(m.pieces, piece)
	}
	return m, nil
}

// Enqueue puts a message into the outbox; false means that the connection is
// over, or was closed because it takes too slowly.
func (c *Conn) Enqueue(m Message) bool {
	if c.over() {
		return false
	}
	if c.queued.Add(m.size) <= outboxBytes {
		select {
		case c.outbox <- m:
			return true
		default:
		}
	}
	c.queued.Add(-m.size)
	c.HangUp(protocol.CloseTooSlow, "the worker doesn't take what it is sent", protocol.Problem{
		Code: protocol.CauseConnectionClosed, Text: "the worker did not take what it was sent",
	})
	return false
}

// Write owns the writing side until the session ends.
func (c *Conn) Write() {
	defer c.ws.Close()
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
		case m := <-c.outbox:
			err = c.put(m, c.patiently)
		case data := <-c.pinged:
			err = c.ws.WriteControl(websocket.PongMessage, []byte(data), c.patiently())
		case <-c.acks.wake:
			if due == nil {
				flush = time.NewTimer(protocol.AckEvery)
				due = flush.C
			}
		case <-due:
			due = nil
			err = c.putAcks()
		case <-c.acks.full:
			err = c.putAcks()
		case <-c.ended:
			c.leave()
			return
		}
		if err != nil {
			c.HangUp(websocket.CloseAbnormalClosure, "", protocol.Problem{Code: protocol.CauseConnectionClosed, Text: err.Error()})
			return
		}
	}
}

// put writes a message; deadline gives the one of each piece of it.
func (c *Conn) put(m Message, deadline func() time.Time) error {
	defer c.queued.Add(-m.size)
	for _, piece := range m.pieces {
		if err := pieces.Write(c.ws, piece, deadline); err != nil {
			return err
		}
	}
	return nil
}

// patiently is the deadline of what is written in the midst of a session.
func (c *Conn) patiently() time.Time { return time.Now().Add(c.patience) }

// leave writes what is in the outbox and the close frame, and lets the other
// side read them before the connection is cut.
func (c *Conn) leave() {
	deadline := time.Now().Add(goodbye)
	for range len(c.outbox) {
		if c.put(<-c.outbox, func() time.Time { return deadline }) != nil {
			return
		}
	}
	sayGoodbye(c.ws, c.ending.Code, c.ending.Text)
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-c.read:
	case <-timer.C:
	}
}

// sayGoodbye writes a close frame and ends the writing side. A connection that
// is cut with bytes unread would take the close frame back from the peer.
func sayGoodbye(ws *websocket.Conn, code int, text string) {
	const mostText = 120
	if len(text) > mostText {
		text = text[:mostText]
	}
	err := ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(goodbye))
	if half, ok := ws.NetConn().(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite() // the peer is gone already, then
	}
}

// Receive reads frames until the connection ends. An error of handle ends it,
// too; it is read on then for a while, so that the peer gets to see the reason.
func (c *Conn) Receive(handle func(protocol.Frame) error) {
	defer close(c.read)
	for {
		f, err := c.next()
		if err != nil && !errors.Is(err, protocol.ErrBadFrame) {
			c.cutOff(err)
			return
		}
		if err == nil && f != nil && !c.over() {
			err = handle(f)
		}
		if err != nil && !c.over() {
			c.log.Warn("worker sends what it must not", "worker", c.Name, "error", err)
			c.HangUp(protocol.CloseBadFrame, err.Error(), protocol.Problem{Code: protocol.CauseConnectionClosed, Text: err.Error()})
		}
	}
}

// cutOff ends a connection of which nothing more can be read.
func (c *Conn) cutOff(err error) {
	cause := protocol.Problem{Code: protocol.CauseConnectionClosed, Text: "the connection was closed"}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		cause = protocol.Problem{
			Code: protocol.CauseNoHeartbeat, Text: fmt.Sprintf("nothing came for %s", c.patience),
			Params: map[string]any{"seconds": c.patience.Seconds()},
		}
	}
	c.HangUp(websocket.CloseAbnormalClosure, cause.Text, cause)
}

// next reads one frame; nil is a piece of one, or one of another session.
func (c *Conn) next() (protocol.Frame, error) {
	raw, err := pieces.Read(c.ws, c.alive)
	if err != nil {
		return nil, err
	}
	env, err := protocol.DecodeFromAgent(raw)
	if err != nil {
		return nil, err
	}
	if part, ok := env.Frame.(*protocol.Part); ok {
		whole, err := c.joiner.Add(part)
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
	if _, hello := env.Frame.(*protocol.Hello); !hello && env.Epoch != c.Epoch {
		return nil, nil
	}
	return env.Frame, nil
}

func (c *Conn) alive() error {
	patience := c.patience
	if c.over() {
		patience = goodbye
	}
	return c.ws.SetReadDeadline(time.Now().Add(patience))
}
