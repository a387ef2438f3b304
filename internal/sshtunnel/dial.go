package sshtunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"cdui/internal/sshtunnel/hostkey"
	"cdui/internal/sshtunnel/sshconfig"
)

// Dialer connects.
type Dialer struct {
	Config sshconfig.Source
	// AcceptNew takes the keys of hosts that nobody knows yet.
	AcceptNew bool
	// Ask is whom to ask; nil is nobody.
	Ask Asker
	// AgentSocket is that of the ssh-agent where the configuration names none.
	AgentSocket string
	// Identity is the one key for the last host; empty tries all.
	Identity string
	// Patience bounds each handshake; 0 is 30 seconds, and the server's own
	// patience where there is somebody to ask.
	Patience time.Duration
}

const (
	defaultPatience = 30 * time.Second
	maxHops         = 8
)

// Dial connects to a target, over the hosts on the way there.
func (d *Dialer) Dial(ctx context.Context, target sshconfig.Target) (*Client, error) {
	return d.dial(ctx, target, nil, true, 0)
}

// dial connects over via, or over what the configuration says where via is nil.
func (d *Dialer) dial(ctx context.Context, target sshconfig.Target, via *Client, last bool, hops int) (*Client, error) {
	if hops >= maxHops {
		return nil, fmt.Errorf("the way to %s has more than %d hosts: ProxyJump goes round in circles", target.Host, maxHops)
	}
	h, err := d.Config.Resolve(ctx, target)
	if err != nil {
		via.close()
		return nil, err
	}
	if via == nil {
		for i, jump := range h.ProxyJump {
			t, err := sshconfig.ParseTarget(jump)
			if err != nil {
				via.close()
				return nil, fmt.Errorf("ProxyJump of %s: %w", target.Host, err)
			}
			// Only the first of several may have a way of its own.
			if via, err = d.dial(ctx, t, via, false, hops+1+i); err != nil {
				return nil, fmt.Errorf("on the way to %s: %w", target.Host, err)
			}
		}
	}
	conn, err := d.line(ctx, h, via)
	if err != nil {
		via.close()
		return nil, dialError(h, err)
	}
	c, err := d.shake(ctx, h, conn, last)
	if err != nil {
		conn.Close()
		via.close()
		return nil, err
	}
	c.via = via
	return c, nil
}

// line opens the byte stream to a host.
func (d *Dialer) line(ctx context.Context, h sshconfig.Host, via *Client) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.patience())
	defer cancel()
	switch {
	case via != nil:
		conn, err := via.ssh.DialContext(ctx, "tcp", h.Address())
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) {
			return nil, fmt.Errorf("%s can't connect there (%s): is the name right, and does its sshd allow TCP forwarding?", via.login, refused.Message)
		}
		return conn, err
	case h.ProxyCommand != "":
		return proxy(h)
	}
	return (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, "tcp", h.Address())
}

func (d *Dialer) patience() time.Duration {
	if d.Patience > 0 {
		return d.Patience
	}
	return defaultPatience
}

// shake introduces both sides to each other.
func (d *Dialer) shake(ctx context.Context, h sshconfig.Host, conn net.Conn, last bool) (*Client, error) {
	known, err := hostkey.Read(h.KnownHosts)
	if err != nil {
		return nil, err
	}
	check := hostkey.Check{
		As: h.KnownAs(), Known: known, Hash: h.HashKnownHosts,
		AcceptNew: d.AcceptNew || h.StrictHostKey == "accept-new" || h.StrictHostKey == "no",
	}
	if len(h.UserKnownHosts) > 0 {
		check.File = h.UserKnownHosts[0]
	}
	if d.Ask != nil && h.StrictHostKey != "yes" {
		check.Confirm = d.Ask.Confirm
	}
	l := &login{ctx: ctx, host: h, ask: d.Ask}
	defer func() {
		if l.agent != nil {
			l.agent.Close()
		}
	}()
	// A line through another host knows no deadline, so it is closed instead.
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if d.Ask == nil || d.Patience > 0 {
		waiting, cancel = context.WithTimeout(ctx, d.patience())
	}
	defer cancel()
	stop := context.AfterFunc(waiting, func() { conn.Close() })
	defer stop()
	counted := &counting{Conn: conn}
	c, chans, reqs, err := ssh.NewClientConn(counted, h.Address(), &ssh.ClientConfig{
		User: h.User, Auth: l.methods(d, last), HostKeyAlgorithms: known.Algorithms(h.KnownAs()),
		HostKeyCallback: check.Callback(ctx), ClientVersion: "SSH-2.0-cdui",
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case waiting.Err() != nil:
		return nil, dialError(h, waiting.Err())
	default:
		return nil, shakeError(l, err)
	}
	return &Client{ssh: ssh.NewClient(c, chans, reqs), login: h.Login(), sent: &counted.sent}, nil
}

// shakeError tells a refused login from a host that is not who it was, and from
// a line that broke.
func shakeError(l *login, err error) error {
	var changed *hostkey.ChangedError
	var unknown *hostkey.UnknownError
	var revoked *hostkey.RevokedError
	switch {
	case errors.As(err, &changed):
		return changed
	case errors.As(err, &unknown):
		return unknown
	case errors.As(err, &revoked):
		return revoked
	case errors.Is(err, ErrNeedsTyping), l.asked != "", l.wrong != "",
		strings.Contains(err.Error(), "unable to authenticate"), strings.Contains(err.Error(), "Too many authentication failures"):
		return &LoginError{Login: l.host.Login(), Tried: l.tried, Asked: l.asked, Wrong: l.wrong, Err: err}
	}
	return dialError(l.host, err)
}

// counting counts what is sent.
type counting struct {
	net.Conn
	sent atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// proxy runs the command that stands in for a connection.
func proxy(h sshconfig.Host) (net.Conn, error) {
	cmd := exec.Command("/bin/sh", "-c", "exec "+h.ProxyLine()) //nolint:gosec,noctx // the user's own configuration; it lives as long as the line
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("ProxyCommand: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("ProxyCommand: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("ProxyCommand: %w", err)
	}
	return &command{Reader: out, WriteCloser: in, cmd: cmd}, nil
}

// command is a line that a program carries.
type command struct {
	io.Reader
	io.WriteCloser
	cmd  *exec.Cmd
	once atomic.Bool
}

// Close ends the program.
func (c *command) Close() error {
	if c.once.Swap(true) {
		return nil
	}
	err := c.WriteCloser.Close()
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // it was killed
	return err
}

// LocalAddr implements net.Conn.
func (c *command) LocalAddr() net.Addr { return &net.UnixAddr{Name: "proxy", Net: "unix"} }

// RemoteAddr implements net.Conn.
func (c *command) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "proxy", Net: "unix"} }

// SetDeadline implements net.Conn; a program has none.
func (c *command) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (c *command) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (c *command) SetWriteDeadline(time.Time) error { return nil }
