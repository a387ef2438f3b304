package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/protocol"
	"cdui/internal/protocol/pieces"
)

const dialTimeout = 20 * time.Second

// Refusal is the error of a connection that the control plane doesn't want.
type Refusal struct {
	// CloseCode is that of the connection; Code is the reject's, where there
	// was one.
	CloseCode int
	Code      string
	Reason    string
}

func (r *Refusal) Error() string {
	if r.Code != "" {
		return fmt.Sprintf("the control plane rejects this worker: %s (%s)", r.Reason, r.Code)
	}
	if r.CloseCode == protocol.CloseForbidden {
		return "the control plane refuses connections by this address: " + r.Reason
	}
	return "the control plane does not take this worker's token: " + r.Reason + "; enroll it again with a token of cdui workers add"
}

// Lasting tells whether trying again can't change anything.
func (r *Refusal) Lasting() bool {
	switch r.Code {
	case "":
		return true
	case protocol.RejectVersionMismatch, protocol.RejectProtocolMismatch, protocol.RejectNameTaken:
		return false // the other side may be replaced, or go away
	}
	return true
}

// workerURL turns the control plane's address into that of its workers' door.
func workerURL(control string) (string, error) {
	if !strings.Contains(control, "://") {
		control = "http://" + control
	}
	u, err := url.Parse(control)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is no address of a control plane; give --control http://HOST:PORT", control)
	}
	switch u.Scheme {
	case "http", "ws":
		u.Scheme = "ws"
	case "https", "wss":
		u.Scheme = "wss"
	default:
		return "", fmt.Errorf("%q is no address of a control plane: %s is neither http nor https", control, u.Scheme)
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/ws/worker"
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String(), nil
}

func (c *Client) dial(ctx context.Context) (*websocket.Conn, error) {
	address, err := workerURL(c.cfg.URL)
	if err != nil {
		return nil, err
	}
	token, err := c.cfg.Token()
	if err != nil {
		return nil, err
	}
	d := websocket.Dialer{
		NetDialContext:   (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:  c.cfg.TLS,
		HandshakeTimeout: dialTimeout,
		Proxy:            http.ProxyFromEnvironment,
		ReadBufferSize:   16 << 10, WriteBufferSize: pieces.Buffer,
	}
	if c.cfg.Dial != nil {
		d.NetDialContext, d.Proxy = c.cfg.Dial, nil
	}
	// The header keeps the token out of URLs, which proxies write down.
	conn, resp, err := d.DialContext(ctx, address, http.Header{"X-CodefyUI-Token": {token}})
	if err != nil {
		return nil, dialError(err, resp)
	}
	conn.SetReadLimit(protocol.MaxFrameBytes)
	return conn, nil
}

// dialError reads what a door that is no WebSocket has answered.
func dialError(err error, resp *http.Response) error {
	if resp == nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	text := strings.TrimSpace(string(said))
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return &Refusal{CloseCode: protocol.CloseUnauthorized, Reason: text}
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		return &Refusal{CloseCode: protocol.CloseForbidden, Reason: text}
	}
	return fmt.Errorf("connect: the server answers %s %s", resp.Status, text)
}

// closeError turns the end of a connection into a Refusal where it is one.
func closeError(err error) error {
	var closed *websocket.CloseError
	if errors.As(err, &closed) && protocol.Refused(closed.Code) {
		return &Refusal{CloseCode: closed.Code, Reason: closed.Text}
	}
	return err
}
