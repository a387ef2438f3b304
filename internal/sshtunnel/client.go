package sshtunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Client is a connection to an sshd.
type Client struct {
	ssh   *ssh.Client
	login string
	sent  *atomic.Int64
	via   *Client
}

// Login names the account.
func (c *Client) Login() string { return c.login }

// Sent is how many bytes went out on the connection.
func (c *Client) Sent() int64 { return c.sent.Load() }

// Close hangs up, on the way there too.
func (c *Client) Close() { c.close() }

func (c *Client) close() {
	for ; c != nil; c = c.via {
		_ = c.ssh.Close() // the other side may have been first
	}
}

// Wait returns when the connection has ended.
func (c *Client) Wait() error { return c.ssh.Wait() }

// Alive asks the other side for a sign of life.
func (c *Client) Alive(ctx context.Context) error {
	answered := make(chan error, 1)
	go func() {
		// An sshd says no to it, and that is an answer.
		_, _, err := c.ssh.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			return fmt.Errorf("the connection to %s broke: %w", c.login, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s does not answer any more: %w", c.login, context.Cause(ctx))
	}
}

// maxOutput bounds what is kept of a command's output.
const maxOutput = 1 << 20

// sessionTries covers a host that allows one session at a time and is slow to
// see the last one end.
const sessionTries = 20

// Run runs a command there. A code other than 0 is no error; a command that a
// signal ended has the code -1.
func (c *Client) Run(ctx context.Context, command string, in io.Reader) (out, said []byte, code int, err error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	stdout, stderr := &capped{}, &capped{}
	s.Stdin, s.Stdout, s.Stderr = in, stdout, stderr
	err = s.Run(command)
	var ended *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case ctx.Err() != nil:
		return nil, nil, 0, fmt.Errorf("%s does not come to an end: %w", c.login, context.Cause(ctx))
	case errors.As(err, &ended) && ended.Signal() == "":
		code = ended.ExitStatus()
	case errors.As(err, &ended), errors.As(err, &missing):
		code = -1
	case err != nil && !errors.Is(err, io.EOF): // it ended before it had read all
		return nil, nil, 0, fmt.Errorf("run a command at %s: %w", c.login, err)
	}
	return stdout.b.Bytes(), stderr.b.Bytes(), code, nil
}

func (c *Client) session(ctx context.Context) (*ssh.Session, error) {
	for try := 0; ; try++ {
		s, err := c.ssh.NewSession()
		var refused *ssh.OpenChannelError
		if err == nil || !errors.As(err, &refused) {
			return s, err
		}
		if try+1 == sessionTries {
			return nil, fmt.Errorf("%s opens no session (%s): its sshd must have MaxSessions 1 or more", c.login, refused.Message)
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// capped keeps the first part of what is written.
type capped struct{ b bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if room := maxOutput - c.b.Len(); room > 0 {
		c.b.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// ErrNoListening is wrapped where the other side opens no listener.
var ErrNoListening = errors.New("the sshd there opens no tunnel")

// ListenSocket opens a listener on a unix socket at the other end, which its
// user alone can connect to.
func (c *Client) ListenSocket(path string) (net.Listener, error) {
	l, err := c.ssh.ListenUnix(path)
	if err != nil {
		return nil, fmt.Errorf("%w on a socket (%w)", ErrNoListening, err)
	}
	return &listener{Listener: l}, nil
}

// ListenPort opens a listener on the other end's loopback, on a port of its
// choice.
func (c *Client) ListenPort() (net.Listener, error) {
	l, err := c.ssh.ListenTCP(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("%w on a port (%w)", ErrNoListening, err)
	}
	return &listener{Listener: l}, nil
}
