package conn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/protocol"
)

var errNestedPart = fmt.Errorf("%w: a part inside of a part", protocol.ErrBadFrame)

// TurnAway closes a connection of which nothing was read.
func TurnAway(ws *websocket.Conn, code int, why string) {
	sayGoodbye(ws, code, why)
	raw := ws.NetConn()
	if raw.SetReadDeadline(time.Now().Add(goodbye)) == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(raw, protocol.MaxFrameBytes)) // until the peer has read the reason
	}
}

// Hello reads the first frame. Where it is none, the connection is turned away
// and the hello is nil.
func (c *Conn) Hello() *protocol.Hello {
	hello, err := c.hello()
	if err == nil {
		return hello
	}
	var timeout net.Error
	switch {
	case errors.Is(err, protocol.ErrBadFrame):
		c.Reject(&protocol.Reject{Code: protocol.RejectBadHello, Reason: err.Error()})
	case errors.Is(err, websocket.ErrReadLimit):
		c.Reject(&protocol.Reject{Code: protocol.RejectBadHello, Reason: "the first frame is too long"})
	case errors.As(err, &timeout) && timeout.Timeout():
		TurnAway(c.ws, protocol.CloseNoHello, fmt.Sprintf("no hello within %s", protocol.HelloTimeout))
	}
	return nil
}

func (c *Conn) hello() (*protocol.Hello, error) {
	if err := c.ws.SetReadDeadline(time.Now().Add(protocol.HelloTimeout)); err != nil {
		return nil, err
	}
	_, raw, err := c.ws.ReadMessage()
	if err != nil {
		return nil, err
	}
	env, err := protocol.DecodeFromAgent(raw)
	if err != nil {
		return nil, err
	}
	hello, ok := env.Frame.(*protocol.Hello)
	if !ok {
		return nil, fmt.Errorf("%w: the first frame is %.40q, not a hello", protocol.ErrBadFrame, env.Frame.FrameType())
	}
	return hello, nil
}

// Reject answers a hello that is not let in, and closes. Write must not have
// been started.
func (c *Conn) Reject(reject *protocol.Reject) {
	c.log.Warn("worker rejected", "worker", c.Name, "code", reject.Code, "reason", reject.Reason)
	if raw, err := protocol.Encode(0, reject); err == nil && c.ws.SetWriteDeadline(time.Now().Add(goodbye)) == nil {
		_ = c.ws.WriteMessage(websocket.TextMessage, raw) // the close frame says it, too
	}
	TurnAway(c.ws, protocol.CloseRejected, reject.Reason)
}

// Answers asks the worker at the other end for a sign of life.
func (c *Conn) Answers(within time.Duration) bool {
	select {
	case <-c.pong:
	default:
	}
	if err := c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(within)); err != nil {
		return false
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-c.pong:
		return true
	case <-c.read:
		return false
	case <-timer.C:
		return false
	}
}
