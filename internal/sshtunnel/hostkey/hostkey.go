// Package hostkey decides whether a host is who it was: it reads known_hosts
// files as OpenSSH does (hashed names, ports in brackets, patterns, revoked
// keys, certificate authorities), says which kinds of key to ask a host for,
// and writes down what a person has accepted.
//
// It opens no connection and asks nobody; whoever is to be asked is handed in.
package hostkey

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the format's own hash of names, no secret
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// entry is one line of a known_hosts file.
type entry struct {
	marker, file string
	line         int
	hosts        []string
	key          ssh.PublicKey
}

// Known is what the files say.
type Known struct{ entries []entry }

// Read reads known_hosts files. A missing file holds nothing, a line that makes
// no sense is passed over, as ssh does.
func Read(files []string) (*Known, error) {
	k := &Known{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read known hosts: %w", err)
		}
		k.parse(file, raw)
	}
	return k, nil
}

func (k *Known) parse(file string, raw []byte) {
	for i, line := range bytes.Split(raw, []byte("\n")) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		marker, hosts, key, _, _, err := ssh.ParseKnownHosts(line)
		if err != nil || marker != "" && marker != "cert-authority" && marker != "revoked" {
			continue
		}
		k.entries = append(k.entries, entry{marker: marker, file: file, line: i + 1, hosts: hosts, key: key})
	}
}

// matches tells whether the line speaks of a host; as is its name, in brackets
// with a port other than 22.
func (e entry) matches(as string) bool {
	found := false
	for _, pattern := range e.hosts {
		negated := strings.HasPrefix(pattern, "!")
		if negated {
			pattern = pattern[1:]
		}
		if !nameMatches(pattern, as) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

func nameMatches(pattern, as string) bool {
	if rest, ok := strings.CutPrefix(pattern, "|1|"); ok {
		salt, sum, ok := strings.Cut(rest, "|")
		rawSalt, err := base64.StdEncoding.DecodeString(salt)
		rawSum, err2 := base64.StdEncoding.DecodeString(sum)
		if !ok || err != nil || err2 != nil {
			return false
		}
		mac := hmac.New(sha1.New, rawSalt)
		mac.Write([]byte(as))
		return hmac.Equal(mac.Sum(nil), rawSum)
	}
	return wildcard(strings.ToLower(pattern), as)
}

// wildcard matches * and ? against the whole of s, in time that no pattern can
// blow up.
func wildcard(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// of lists the lines with a marker that speak of a host.
func (k *Known) of(marker, as string) []entry {
	var out []entry
	for _, e := range k.entries {
		if e.marker == marker && e.matches(as) {
			out = append(out, e)
		}
	}
	return out
}

// revoked tells whether a key is taken back for a host.
func (k *Known) revoked(as string, key ssh.PublicKey) *entry {
	for _, e := range k.of("revoked", as) {
		if same(e.key, key) {
			return &e
		}
	}
	return nil
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// Algorithms lists the kinds of host key to ask for, those that are known of
// the host first: a server that has several would otherwise show another one
// than the one that the file holds.
func (k *Known) Algorithms(as string) []string {
	var first []string
	if len(k.of("cert-authority", as)) > 0 {
		first = append(first, certAlgorithms()...)
	}
	for _, e := range k.of("", as) {
		first = append(first, algorithmsOf(e.key.Type())...)
	}
	all := slices.Concat(first, keyAlgorithms())
	var out []string
	for _, a := range all {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

func keyAlgorithms() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
}

func certAlgorithms() []string {
	return []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
	}
}

func algorithmsOf(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

// ChangedError says that a host shows another key than the one that is known.
type ChangedError struct {
	Host, Got string
	// Known are the fingerprints of the keys that are known, File and Line
	// where the first of them stands.
	Known []string
	File  string
	Line  int
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("the host key of %s has changed: it shows %s, known is %s (%s:%d). Somebody may be in between, or the machine was set up anew; if you know why, remove the old key with: ssh-keygen -R '%s' -f %s",
		e.Host, e.Got, strings.Join(e.Known, " and "), e.File, e.Line, e.Host, e.File)
}

// UnknownError says that nobody has vouched for a host's key.
type UnknownError struct{ Host, Got string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("the host key of %s is not known here: it shows %s. Compare that with what ssh-keygen -lf prints there, and accept it by answering yes on a terminal, or with --accept-new", e.Host, e.Got)
}

// RevokedError says that a host shows a key that was taken back.
type RevokedError struct {
	Host, Got, File string
	Line            int
}

func (e *RevokedError) Error() string {
	return fmt.Sprintf("the host key of %s, %s, is revoked (%s:%d); the machine needs a new one", e.Host, e.Got, e.File, e.Line)
}

// Fingerprint is a key as people compare it.
func Fingerprint(key ssh.PublicKey) string {
	kind := strings.TrimSuffix(strings.TrimPrefix(key.Type(), "ssh-"), "-cert-v01@openssh.com")
	return strings.ToUpper(kind) + " " + ssh.FingerprintSHA256(key)
}

// Check is how one host's key is judged.
type Check struct {
	// As is the name that the key is known under.
	As    string
	Known *Known
	// AcceptNew takes the key of a host that nobody knows yet.
	AcceptNew bool
	// Confirm asks a person about a new key; nil is nobody there to ask.
	Confirm func(ctx context.Context, question string) (bool, error)
	// File is where a new key goes, Hash whether its name is hashed there.
	File string
	Hash bool
}

// Callback judges the key that a host shows.
func (c Check) Callback(ctx context.Context) ssh.HostKeyCallback {
	checker := &ssh.CertChecker{
		IsHostAuthority: func(auth ssh.PublicKey, _ string) bool {
			return slices.ContainsFunc(c.Known.of("cert-authority", c.As), func(e entry) bool { return same(e.key, auth) })
		},
		IsRevoked: func(cert *ssh.Certificate) bool {
			return c.Known.revoked(c.As, cert.Key) != nil || c.Known.revoked(c.As, cert.SignatureKey) != nil
		},
		HostKeyFallback: func(_ string, _ net.Addr, key ssh.PublicKey) error { return c.judge(ctx, key) },
	}
	name := c.As
	if rest, ok := strings.CutPrefix(name, "["); ok {
		name, _, _ = strings.Cut(rest, "]")
	}
	return func(_ string, remote net.Addr, key ssh.PublicKey) error {
		// A certificate names hosts without their port.
		return checker.CheckHostKey(net.JoinHostPort(name, "22"), remote, key)
	}
}

func (c Check) judge(ctx context.Context, key ssh.PublicKey) error {
	got := Fingerprint(key)
	if e := c.Known.revoked(c.As, key); e != nil {
		return &RevokedError{Host: c.As, Got: got, File: e.file, Line: e.line}
	}
	known := c.Known.of("", c.As)
	if slices.ContainsFunc(known, func(e entry) bool { return same(e.key, key) }) {
		return nil
	}
	if len(known) > 0 {
		changed := &ChangedError{Host: c.As, Got: got, File: known[0].file, Line: known[0].line}
		for _, e := range known {
			changed.Known = append(changed.Known, Fingerprint(e.key))
		}
		return changed
	}
	unknown := &UnknownError{Host: c.As, Got: got}
	if !c.AcceptNew {
		if c.Confirm == nil {
			return unknown
		}
		ok, err := c.Confirm(ctx, fmt.Sprintf("The host %s is not known here. Its key is\n  %s\nIs that right, and shall it be trusted from now on?", c.As, got))
		if err != nil {
			return err
		}
		if !ok {
			return unknown
		}
	}
	return c.keep(key)
}

// keep writes an accepted key down.
func (c Check) keep(key ssh.PublicKey) error {
	if c.File == "" || c.File == os.DevNull {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.File), 0o700); err != nil {
		return fmt.Errorf("keep the host key of %s: %w", c.As, err)
	}
	name := c.As
	if c.Hash {
		name = knownhosts.HashHostname(name)
	}
	line := name + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\n"
	f, err := os.OpenFile(c.File, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("keep the host key of %s: %w", c.As, err)
	}
	defer f.Close()
	// The last line may lack its end.
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	if _, err := f.WriteString(line); err != nil {
		return fmt.Errorf("keep the host key of %s: %w", c.As, err)
	}
	return nil
}
