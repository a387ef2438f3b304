package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
)

const (
	// liveSilence is how long the feed may be silent: the control plane pings
	// three times in it.
	liveSilence = 70 * time.Second
	// liveFrame bounds one frame.
	liveFrame = 64 << 20
)

// LiveConn is one connection of the feed.
type LiveConn struct {
	conn  *websocket.Conn
	place Place
	stop  func() bool
	ctx   context.Context //nolint:containedctx // it ends the connection
}

// Live connects to the feed of everything that lists show. A boot id and a
// cursor that an earlier connection gave let it go on from there.
func (c *Client) Live(ctx context.Context, boot string, cursor int64) (*LiveConn, error) {
	place, hc, err := c.connect()
	if err != nil {
		return nil, err
	}
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, HandshakeTimeout: 10 * time.Second,
		NetDialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
	}
	if t, ok := hc.Transport.(*http.Transport); ok && t.TLSClientConfig != nil {
		dialer.TLSClientConfig = liveTLS(t.TLSClientConfig)
	}
	header := http.Header{}
	if place.Token != "" {
		header.Set(api.HeaderToken, place.Token)
	}
	if c.cfg.UserAgent != "" {
		header.Set("User-Agent", c.cfg.UserAgent)
	}
	target := "ws" + strings.TrimPrefix(place.URL, "http") + api.PathLive
	if boot != "" {
		target += "?" + url.Values{"boot": {boot}, "cursor": {strconv.FormatInt(cursor, 10)}}.Encode()
	}
	conn, res, err := dialer.DialContext(ctx, target, header)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case res != nil:
		defer res.Body.Close()
		err := replyError(place, res)
		if api.CodeOf(err) == api.NotFound {
			err = api.Errorf(api.NotFound, "the control plane at %s is older than this program and has no feed: upgrade it, or leave --watch out", hostPort(place.URL))
		}
		return nil, err
	default:
		c.forget(place)
		return nil, unreachable(place, err)
	}
	conn.SetReadLimit(liveFrame)
	l := &LiveConn{conn: conn, place: place, ctx: ctx}
	l.stop = context.AfterFunc(ctx, func() { conn.Close() })
	answer := conn.PingHandler()
	conn.SetPingHandler(func(data string) error {
		if err := l.extend(); err != nil {
			return err
		}
		return answer(data)
	})
	return l, nil
}

// liveTLS is a configuration without HTTP/2, which has no WebSockets here.
func liveTLS(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.NextProtos = []string{"http/1.1"}
	return c
}

func (l *LiveConn) extend() error { return l.conn.SetReadDeadline(time.Now().Add(liveSilence)) }

// Next waits for the next frame.
func (l *LiveConn) Next() (api.LiveFrame, error) {
	var f api.LiveFrame
	if err := l.extend(); err != nil {
		return f, l.broken(err)
	}
	if err := l.conn.ReadJSON(&f); err != nil {
		return f, l.broken(err)
	}
	return f, nil
}

func (l *LiveConn) broken(err error) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	text := fmt.Sprintf("the connection to the control plane at %s broke", hostPort(l.place.URL))
	if websocket.IsCloseError(err, websocket.CloseGoingAway) {
		text = fmt.Sprintf("the control plane at %s has stopped", hostPort(l.place.URL))
	}
	return &Unreachable{Text: text, Err: err}
}

// Close ends the connection.
func (l *LiveConn) Close() {
	l.stop()
	l.conn.Close()
}
