package sshtunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"cdui/internal/sshtunnel/sshconfig"
)

// Question is something that only a person knows. Its ID is the same each time,
// so that an answer can be given again.
type Question struct {
	ID, Prompt string
	// Once: the answer is good for this one time, such as a code from a device.
	Once bool
}

// Asker is whom to ask.
type Asker interface {
	// Secret asks without showing what is typed.
	Secret(ctx context.Context, q Question) (string, error)
	// Confirm asks for yes or no.
	Confirm(ctx context.Context, question string) (bool, error)
}

// login is one attempt to be let in.
type login struct {
	ctx  context.Context //nolint:containedctx // callbacks of the ssh library bring none
	host sshconfig.Host
	ask  Asker
	// tried is what was offered, asked what nobody could answer.
	tried []string
	asked string
	// wrong is which answer was.
	wrong string
	agent io.Closer
}

const maxPasswords = 3

// methods are the ways to be let in, in the order in which they are tried.
func (l *login) methods(d *Dialer, last bool) []ssh.AuthMethod {
	var out []ssh.AuthMethod
	if !l.host.NoPubkey {
		out = append(out, ssh.PublicKeysCallback(func() ([]ssh.Signer, error) { return l.signers(d, last), nil }))
	}
	if last && d.Identity != "" {
		return out // that key alone was made for this
	}
	if !l.host.NoKeyboardInteractively {
		out = append(out, ssh.RetryableAuthMethod(ssh.KeyboardInteractive(l.challenge), maxPasswords))
	}
	if !l.host.NoPassword {
		out = append(out, ssh.RetryableAuthMethod(ssh.PasswordCallback(l.password), maxPasswords))
	}
	return out
}

// secret asks, and notes when there is nobody to answer.
func (l *login) secret(q Question) (string, error) {
	if l.ask == nil {
		l.asked = q.Prompt
		return "", ErrNeedsTyping
	}
	answer, err := l.ask.Secret(l.ctx, q)
	if errors.Is(err, ErrNeedsTyping) {
		l.asked = q.Prompt
	}
	return answer, err
}

func (l *login) password() (string, error) {
	l.try("password")
	return l.secret(Question{ID: "password:" + l.host.User + "@" + l.host.Address(), Prompt: "password of " + l.host.Login()})
}

func (l *login) challenge(_, instruction string, questions []string, echos []bool) ([]string, error) {
	var answers []string
	for i, text := range questions {
		l.try("keyboard-interactive")
		q := Question{Prompt: strings.TrimSpace(instruction+" "+strings.TrimSuffix(strings.TrimSpace(text), ":")) + " (" + l.host.Login() + ")", Once: true}
		// The one silent question is the password, whatever it is called.
		if len(questions) == 1 && !echos[i] && strings.Contains(strings.ToLower(text), "password") {
			q = Question{ID: "password:" + l.host.User + "@" + l.host.Address(), Prompt: "password of " + l.host.Login()}
		}
		answer, err := l.secret(q)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

func (l *login) try(what string) {
	if !slices.Contains(l.tried, what) {
		l.tried = append(l.tried, what)
	}
}

// signers gives the keys: those of the agent, then those of files.
func (l *login) signers(d *Dialer, last bool) []ssh.Signer {
	if last && d.Identity != "" {
		return l.file(d.Identity)
	}
	held := l.fromAgent(d)
	named := l.publics()
	var out []ssh.Signer
	add := func(s ssh.Signer) {
		if !slices.ContainsFunc(out, func(o ssh.Signer) bool { return bytes.Equal(o.PublicKey().Marshal(), s.PublicKey().Marshal()) }) {
			out = append(out, s)
		}
	}
	for _, s := range held {
		wanted := slices.ContainsFunc(named, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), s.PublicKey().Marshal()) })
		if !l.host.IdentitiesOnly || wanted {
			add(s)
		}
	}
	for _, path := range l.host.IdentityFiles {
		for _, s := range l.file(path) {
			add(s)
		}
	}
	return out
}

// fromAgent gives the keys that an ssh-agent holds.
func (l *login) fromAgent(d *Dialer) []ssh.Signer {
	socket := l.host.IdentityAgent
	switch {
	case socket == "none":
		return nil
	case socket == "", socket == "SSH_AUTH_SOCK":
		socket = d.AgentSocket
	case strings.HasPrefix(socket, "$"):
		socket = os.Getenv(strings.Trim(socket, "${}"))
	}
	if socket == "" {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(l.ctx, "unix", socket)
	if err != nil {
		return nil
	}
	l.agent = conn
	held, err := agent.NewClient(conn).Signers()
	if err != nil {
		return nil
	}
	for i, s := range held {
		held[i] = &noted{s, l, "a key of the ssh-agent"}
	}
	return held
}

// publics gives the public halves of the key files, for IdentitiesOnly.
func (l *login) publics() []ssh.PublicKey {
	var out []ssh.PublicKey
	for _, path := range l.host.IdentityFiles {
		for _, name := range []string{path + ".pub", path} {
			raw, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			if key, _, _, _, err := ssh.ParseAuthorizedKey(raw); err == nil {
				out = append(out, key)
				break
			}
			if s, err := ssh.ParsePrivateKey(raw); err == nil {
				out = append(out, s.PublicKey())
				break
			}
			var locked *ssh.PassphraseMissingError
			if _, err := ssh.ParseRawPrivateKey(raw); errors.As(err, &locked) && locked.PublicKey != nil {
				out = append(out, locked.PublicKey)
				break
			}
		}
	}
	return out
}

// file gives the key of a file, and the certificate beside it.
func (l *login) file(path string) []ssh.Signer {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	key, err := ssh.ParsePrivateKey(raw)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		key, err = l.unlock(path, raw, locked.PublicKey)
	}
	if err != nil || key == nil {
		return nil
	}
	out := []ssh.Signer{&noted{key, l, path}}
	for _, name := range append([]string{path + "-cert.pub"}, l.host.CertificateFiles...) {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		public, _, _, _, err := ssh.ParseAuthorizedKey(raw)
		cert, ok := public.(*ssh.Certificate)
		if err != nil || !ok {
			continue
		}
		if s, err := ssh.NewCertSigner(cert, key); err == nil {
			out = append([]ssh.Signer{&noted{s, l, name}}, out...)
		}
	}
	return out
}

// unlock gives a key whose passphrase is asked when the host takes it, and not
// before. Where its public half is nowhere to be read it must be asked now.
func (l *login) unlock(path string, raw []byte, public ssh.PublicKey) (ssh.Signer, error) {
	if public == nil {
		if text, err := os.ReadFile(path + ".pub"); err == nil {
			public, _, _, _, _ = ssh.ParseAuthorizedKey(text)
		}
	}
	k := &lockedKey{l: l, path: path, raw: raw, public: public}
	if public == nil {
		return k.open()
	}
	return k, nil
}

// lockedKey is a key with a passphrase.
type lockedKey struct {
	l      *login
	path   string
	raw    []byte
	public ssh.PublicKey
	opened ssh.Signer
}

func (k *lockedKey) PublicKey() ssh.PublicKey { return k.public }

func (k *lockedKey) open() (ssh.Signer, error) {
	if k.opened != nil {
		return k.opened, nil
	}
	for try := 0; ; try++ {
		phrase, err := k.l.secret(Question{ID: "passphrase:" + k.path, Prompt: "passphrase of " + k.path})
		if err != nil {
			return nil, err
		}
		s, err := ssh.ParsePrivateKeyWithPassphrase(k.raw, []byte(phrase))
		if err == nil {
			k.opened = s
			return s, nil
		}
		if try+1 >= maxPasswords {
			k.l.wrong = "the passphrase of " + k.path + " is wrong"
			return nil, fmt.Errorf("%s: %w", k.l.wrong, err)
		}
	}
}

func (k *lockedKey) Sign(r io.Reader, data []byte) (*ssh.Signature, error) {
	s, err := k.open()
	if err != nil {
		return nil, err
	}
	return s.Sign(r, data)
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (k *lockedKey) SignWithAlgorithm(r io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	s, err := k.open()
	if err != nil {
		return nil, err
	}
	return signWith(s, r, data, algorithm)
}

func signWith(s ssh.Signer, r io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if as, ok := s.(ssh.AlgorithmSigner); ok {
		return as.SignWithAlgorithm(r, data, algorithm)
	}
	return s.Sign(r, data)
}

// noted is a key whose offer is noted.
type noted struct {
	ssh.Signer
	l    *login
	name string
}

func (n *noted) PublicKey() ssh.PublicKey {
	n.l.try(n.name)
	return n.Signer.PublicKey()
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (n *noted) SignWithAlgorithm(r io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	return signWith(n.Signer, r, data, algorithm)
}
