package sshtunnel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"cdui/internal/sshtunnel"
	"cdui/internal/sshtunnel/hostkey"
	"cdui/internal/sshtunnel/sshconfig"
)

// person answers questions, in turn where there are several of one kind.
type person struct {
	answers map[string][]string
	asked   []string
}

func (p *person) Secret(_ context.Context, q sshtunnel.Question) (string, error) {
	p.asked = append(p.asked, q.Prompt)
	for part, list := range p.answers {
		if strings.Contains(q.Prompt, part) && len(list) > 0 {
			p.answers[part] = list[1:]
			return list[0], nil
		}
	}
	return "", fmt.Errorf("%w: %s", sshtunnel.ErrNeedsTyping, q.Prompt)
}

func (*person) Confirm(context.Context, string) (bool, error) { return false, nil }

// setup writes an ssh config for the box, and known_hosts.
func setup(t *testing.T, b *box, more string) (dialer *sshtunnel.Dialer, dir string) {
	t.Helper()
	dir = files(t, map[string]string{"known": knownLine(b)})
	config := fmt.Sprintf("%s\nHost box\n  HostName 127.0.0.1\n  Port %d\nHost *\n  User ada\n  UserKnownHostsFile %s/known\n  GlobalKnownHostsFile none\n  IdentityFile %s/id\n",
		strings.ReplaceAll(more, "DIR", dir), b.port(), dir, dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return &sshtunnel.Dialer{Config: sshconfig.Source{File: filepath.Join(dir, "config"), Client: "none"}, Patience: 20 * time.Second}, dir
}

func knownLine(b *box) string {
	return fmt.Sprintf("[127.0.0.1]:%d %s", b.port(), ssh.MarshalAuthorizedKey(b.host.PublicKey()))
}

func (p *person) dial(t *testing.T, d *sshtunnel.Dialer) (*sshtunnel.Client, error) {
	t.Helper()
	if p != nil {
		d.Ask = p
	}
	c, err := d.Dial(t.Context(), sshconfig.Target{Host: "box"})
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

// H-01: keys, keys with a passphrase, an agent, a password, a code.
func TestWaysIn(t *testing.T) {
	t.Parallel()
	key, text := newKey(t)
	locked, lockedText := lockedKey(t)
	other, otherText := newKey(t)
	keyring := agent.NewKeyring()
	for _, s := range []string{string(text), string(otherText)} {
		raw, err := ssh.ParseRawPrivateKey([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		if err := keyring.Add(agent.AddedKey{PrivateKey: raw}); err != nil {
			t.Fatal(err)
		}
	}
	socket := serveAgent(t, keyring)
	for _, c := range []struct {
		name         string
		change       func(b *box)
		id           []byte
		public       ssh.PublicKey
		more, socket string
		person       *person
		// asked are the questions, err a part of the error, typing whether it is
		// one of those that somebody has to answer.
		asked, offered int
		err            string
		typing         bool
	}{
		{name: "a key", change: func(b *box) { b.keys = []ssh.PublicKey{key.PublicKey()} }, id: text},
		{
			name: "a key with a passphrase", change: func(b *box) { b.keys = []ssh.PublicKey{locked} }, id: lockedText, public: locked,
			person: &person{answers: map[string][]string{"passphrase of ": {"wrong", "sesame"}}}, asked: 2,
		},
		{
			name: "a passphrase is asked for what is taken alone", change: func(b *box) { b.password = "pw" }, id: lockedText, public: locked,
			person: &person{answers: map[string][]string{"password of ada@127.0.0.1": {"pw"}}}, asked: 1,
		},
		{
			name: "a wrong passphrase", change: func(b *box) { b.keys = []ssh.PublicKey{locked} }, id: lockedText, public: locked,
			person: &person{answers: map[string][]string{"passphrase": {"a", "b", "c"}}}, asked: 3, err: "lets nobody in",
		},
		{
			name: "a passphrase that nobody types", change: func(b *box) { b.keys = []ssh.PublicKey{locked} }, id: lockedText, public: locked,
			err: "without typing: passphrase of ", typing: true,
		},
		{name: "an agent", change: func(b *box) { b.keys = []ssh.PublicKey{key.PublicKey()} }, socket: socket},
		{
			name: "an agent's key that the config doesn't name", change: func(b *box) { b.keys = []ssh.PublicKey{key.PublicKey()} }, socket: socket, public: other.PublicKey(),
			more: "IdentitiesOnly yes", err: "lets nobody in",
		},
		{name: "an agent of the config", change: func(b *box) { b.keys = []ssh.PublicKey{other.PublicKey()} }, more: "IdentityAgent " + socket},
		{name: "no agent by the config", change: func(b *box) { b.keys = []ssh.PublicKey{key.PublicKey()} }, socket: socket, more: "IdentityAgent none", err: "lets nobody in"},
		{name: "a password, at the second try", change: func(b *box) { b.password = "pw" }, person: &person{answers: map[string][]string{"password": {"no", "pw"}}}, asked: 2},
		{name: "a password that nobody types", change: func(b *box) { b.password = "pw" }, err: "without typing: password of ada@127.0.0.1", typing: true},
		{name: "a code", change: func(b *box) { b.code = "123456" }, person: &person{answers: map[string][]string{"Verification code": {"123456"}}}, asked: 1},
		{
			name: "no password by the config", change: func(b *box) { b.password = "pw" }, more: "PasswordAuthentication no\nKbdInteractiveAuthentication no",
			person: &person{answers: map[string][]string{"password": {"pw"}}}, err: "lets nobody in",
		},
	} {
		b := startBox(t, c.change)
		d, dir := setup(t, b, c.more)
		d.AgentSocket = c.socket
		if c.id != nil {
			if err := os.WriteFile(filepath.Join(dir, "id"), c.id, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.public != nil {
			if err := os.WriteFile(filepath.Join(dir, "id.pub"), ssh.MarshalAuthorizedKey(c.public), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.person.dial(t, d)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || errors.Is(err, sshtunnel.ErrNeedsTyping) != c.typing {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if err != nil && !sshtunnel.Lasting(err) {
			t.Errorf("%s: it would be tried again: %v", c.name, err)
		}
		if c.person != nil && len(c.person.asked) != c.asked {
			t.Errorf("%s: asked %q", c.name, c.person.asked)
		}
	}
}

func serveAgent(t *testing.T, keyring agent.Agent) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keyring, c); c.Close() }()
		}
	}()
	return socket
}

// H-01: over other hosts, and not round in circles.
func TestOverOtherHosts(t *testing.T) {
	t.Parallel()
	key, text := newKey(t)
	open := func(b *box) { b.keys = []ssh.PublicKey{key.PublicKey()} }
	far, gate, first := startBox(t, open), startBox(t, open), startBox(t, open)
	hosts := fmt.Sprintf("Host first\n  HostName 127.0.0.1\n  Port %d\nHost gate\n  HostName 127.0.0.1\n  Port %d\n", first.port(), gate.port())
	for jump, says := range map[string]string{
		"ProxyJump first,gate": "", "ProxyJump gate": "",
		"ProxyJump box": "circles", "ProxyJump gone": "on the way to box",
	} {
		d, dir := setup(t, far, hosts+"Host box\n  "+jump+"\n")
		if err := os.WriteFile(filepath.Join(dir, "id"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		known := knownLine(far) + knownLine(gate) + knownLine(first)
		if err := os.WriteFile(filepath.Join(dir, "known"), []byte(known), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := (*person)(nil).dial(t, d)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", jump, err)
			continue
		}
		if err != nil {
			continue
		}
		out, _, code, err := c.Run(t.Context(), "cat; echo said >&2; exit 3", strings.NewReader("in"))
		if err != nil || code != 3 || string(out) != "in" {
			t.Errorf("%s: %q, %d, %v", jump, out, code, err)
		}
	}
}

func TestHostsThatAreNotWhoTheyWere(t *testing.T) {
	t.Parallel()
	key, text := newKey(t)
	b := startBox(t, func(b *box) { b.keys = []ssh.PublicKey{key.PublicKey()} })
	other := startBox(t, func(*box) {})
	for what, known := range map[string]string{"changed": strings.Replace(knownLine(other), fmt.Sprint(other.port()), fmt.Sprint(b.port()), 1), "unknown": ""} {
		d, dir := setup(t, b, "")
		for name, body := range map[string][]byte{"id": text, "known": []byte(known)} {
			if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := (*person)(nil).dial(t, d)
		var changed *hostkey.ChangedError
		var unknown *hostkey.UnknownError
		if errors.As(err, &changed) != (what == "changed") || errors.As(err, &unknown) != (what == "unknown") || !sshtunnel.Lasting(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.offered > 0 {
		t.Error("a key was offered to a host that nobody knows")
	}
}

// H-03: what comes in at the other end knows deadlines and ends with the line.
func TestTheOtherEnd(t *testing.T) {
	t.Parallel()
	key, text := newKey(t)
	b := startBox(t, func(b *box) { b.keys = []ssh.PublicKey{key.PublicKey()} })
	d, dir := setup(t, b, "")
	if err := os.WriteFile(filepath.Join(dir, "id"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := (*person)(nil).dial(t, d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListenSocket("/x.sock"); !errors.Is(err, sshtunnel.ErrNoListening) {
		t.Errorf("a socket: %v", err)
	}
	l, err := c.ListenPort()
	if err != nil {
		t.Fatal(err)
	}
	visitor, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer visitor.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	go func() { _, _ = conn.Write(bytes.Repeat([]byte("x"), 1<<20)); conn.Close() }()
	got, err := io.ReadAll(visitor)
	if err != nil || len(got) != 1<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := c.Alive(t.Context()); err != nil {
		t.Errorf("alive: %v", err)
	}
	if n := c.Sent(); n < 1<<20 {
		t.Errorf("%d bytes sent", n)
	}
	b.hangUp()
	if err := c.Wait(); err == nil {
		t.Log("it ended without an error")
	}
	if err := c.Alive(t.Context()); err == nil {
		t.Error("a dead line is alive")
	}
	if _, err := l.Accept(); err == nil {
		t.Error("somebody comes through a dead line")
	}
}

func TestALineThatSaysNothing(t *testing.T) {
	t.Parallel()
	key, text := newKey(t)
	b := startBox(t, func(b *box) { b.keys, b.silent, b.shut = []ssh.PublicKey{key.PublicKey()}, true, true })
	d, dir := setup(t, b, "")
	if err := os.WriteFile(filepath.Join(dir, "id"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := (*person)(nil).dial(t, d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListenPort(); !errors.Is(err, sshtunnel.ErrNoListening) {
		t.Errorf("a port: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Alive(ctx); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("alive: %v", err)
	}
	// A host that takes the connection and says nothing at all.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mute := &box{t: t, addr: l.Addr().String(), host: b.host}
	d, _ = setup(t, mute, "")
	d.Patience = 100 * time.Millisecond
	if _, err := (*person)(nil).dial(t, d); err == nil || !strings.Contains(err.Error(), "does not answer") || sshtunnel.Lasting(err) {
		t.Errorf("a mute host: %v", err)
	}
	l.Close()
	if _, err := (*person)(nil).dial(t, d); err == nil || !strings.Contains(err.Error(), "no sshd answers") || sshtunnel.Lasting(err) {
		t.Errorf("nobody there: %v", err)
	}
}
