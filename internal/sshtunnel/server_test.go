package sshtunnel_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// box is an sshd in this process.
type box struct {
	t    *testing.T
	addr string
	host ssh.Signer
	// keys are let in, password and code too where they are set.
	keys           []ssh.PublicKey
	password, code string
	// shut refuses to listen; silent answers no keepalive; sessions bounds them.
	shut, silent bool

	mu      sync.Mutex
	wg      sync.WaitGroup
	conns   []net.Conn
	offered int
}

// startBox starts an sshd; change comes before.
func startBox(t *testing.T, change func(b *box)) *box {
	t.Helper()
	b := &box{t: t}
	b.host, _ = newKey(t)
	change(b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr().String()
	b.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
			b.wg.Go(func() { b.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		b.hangUp()
		b.wg.Wait()
	})
	return b
}

func (b *box) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.Close()
	}
}

func (b *box) port() int { return port(b.t, b.addr) }

func port(t *testing.T, addr string) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}

var errNo = errors.New("no")

func (b *box) config() *ssh.ServerConfig {
	c := &ssh.ServerConfig{MaxAuthTries: 6}
	c.PublicKeyCallback = func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		b.mu.Lock()
		b.offered++
		b.mu.Unlock()
		for _, k := range b.keys {
			if bytes.Equal(k.Marshal(), key.Marshal()) {
				return nil, nil
			}
		}
		return nil, errNo
	}
	if b.password != "" {
		c.PasswordCallback = func(_ ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
			if string(given) == b.password {
				return nil, nil
			}
			return nil, errNo
		}
	}
	if b.code != "" {
		c.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Verification code: "}, []bool{false})
			if err == nil && len(answers) == 1 && answers[0] == b.code {
				return nil, nil
			}
			return nil, errNo
		}
	}
	c.AddHostKey(b.host)
	return c
}

func (b *box) serve(raw net.Conn) {
	conn, chans, reqs, err := ssh.NewServerConn(raw, b.config())
	if err != nil {
		raw.Close()
		return
	}
	defer conn.Close()
	b.wg.Go(func() {
		for req := range reqs {
			b.global(conn, req)
		}
	})
	for ch := range chans {
		switch ch.ChannelType() {
		case "session":
			b.wg.Go(func() { b.session(ch) })
		case "direct-tcpip":
			b.wg.Go(func() { direct(ch) })
		default:
			_ = ch.Reject(ssh.UnknownChannelType, "no")
		}
	}
}

// global answers requests for the whole connection.
func (b *box) global(conn *ssh.ServerConn, req *ssh.Request) {
	switch {
	case strings.HasPrefix(req.Type, "keepalive"):
		if !b.silent {
			_ = req.Reply(false, nil)
		}
	case req.Type == "tcpip-forward" && !b.shut:
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			_ = req.Reply(false, nil)
			return
		}
		_ = req.Reply(true, binary.BigEndian.AppendUint32(nil, uint32(port(b.t, l.Addr().String())))) //nolint:gosec // a port
		b.wg.Go(func() { _ = conn.Wait(); l.Close() })
		b.wg.Go(func() { b.forward(conn, l) })
	default:
		_ = req.Reply(false, nil)
	}
}

func (b *box) forward(conn *ssh.ServerConn, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		payload := ssh.Marshal(struct {
			Addr       string
			Port       uint32
			From       string
			OriginPort uint32
		}{"127.0.0.1", uint32(port(b.t, l.Addr().String())), "127.0.0.1", 1}) //nolint:gosec // a port
		ch, reqs, err := conn.OpenChannel("forwarded-tcpip", payload)
		if err != nil {
			c.Close()
			continue
		}
		b.wg.Go(func() { ssh.DiscardRequests(reqs) })
		b.wg.Go(func() { join(c, ch) })
	}
}

func join(a net.Conn, ch ssh.Channel) {
	done := make(chan struct{})
	go func() { _, _ = io.Copy(ch, a); ch.Close(); close(done) }()
	_, _ = io.Copy(a, ch)
	a.Close()
	<-done
}

func direct(nc ssh.NewChannel) {
	var to struct {
		Addr   string
		Port   uint32
		Origin string
		From   uint32
	}
	if ssh.Unmarshal(nc.ExtraData(), &to) != nil {
		_ = nc.Reject(ssh.ConnectionFailed, "what?")
		return
	}
	c, err := net.Dial("tcp", net.JoinHostPort(to.Addr, fmt.Sprint(to.Port)))
	if err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	ch, reqs, err := nc.Accept()
	if err != nil {
		c.Close()
		return
	}
	go ssh.DiscardRequests(reqs)
	join(c, ch)
}

// session runs commands with /bin/sh.
func (*box) session(nc ssh.NewChannel) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for req := range reqs {
		if req.Type != "exec" {
			_ = req.Reply(false, nil)
			continue
		}
		_ = req.Reply(true, nil)
		var line struct{ Command string }
		_ = ssh.Unmarshal(req.Payload, &line)
		cmd := exec.Command("/bin/sh", "-c", line.Command) //nolint:gosec // a test's own
		in, _ := cmd.StdinPipe()
		cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
		go func() { _, _ = io.Copy(in, ch); in.Close() }()
		err := cmd.Run()
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		_, _ = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, uint32(code))) //nolint:gosec // an exit code
		return
	}
}

// lockedKey is a key with the passphrase sesame, made with ssh-keygen -a 1, so
// that it doesn't take seconds to open.
func lockedKey(t *testing.T) (ssh.PublicKey, []byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/locked")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("testdata/locked.pub")
	if err != nil {
		t.Fatal(err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return public, text
}

// newKey makes a key and its file's text.
func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return s, pem.EncodeToMemory(block)
}

// files writes files into a folder of their own.
func files(t *testing.T, text map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range text {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
