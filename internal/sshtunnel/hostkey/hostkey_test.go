package hostkey

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func signer(t testing.TB, ec bool) ssh.Signer {
	t.Helper()
	var key any
	var err error
	if ec {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func line(hosts string, key ssh.PublicKey) string {
	return hosts + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\n"
}

func read(t testing.TB, text string) *Known {
	t.Helper()
	path := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := Read([]string{path, filepath.Join(t.TempDir(), "gone")})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// certificate is a host certificate of an authority.
func certificate(t *testing.T, ca, host ssh.Signer, principals ...string) ssh.PublicKey {
	t.Helper()
	c := &ssh.Certificate{Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: principals, ValidBefore: ssh.CertTimeInfinity}
	if err := c.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	return c
}

// H-01: hashed names, ports in brackets, patterns, revoked keys, authorities.
func TestWhoAHostIs(t *testing.T) {
	t.Parallel()
	mine, other, ca := signer(t, false), signer(t, false), signer(t, false)
	key, wrong := mine.PublicKey(), other.PublicKey()
	cert := certificate(t, ca, mine, "box")
	for _, c := range []struct {
		name, known, as string
		shows           ssh.PublicKey
		// is what the error is: "", unknown, changed, revoked or other.
		is string
	}{
		{"by name", line("box", key), "box", key, ""},
		{"by one of several names", line("a,box,10.0.0.1", key), "box", key, ""},
		{"in another case", line("Box", key), "box", key, ""},
		{"hashed", line(knownhosts.HashHostname("box"), key), "box", key, ""},
		{"hashed with a port", line(knownhosts.HashHostname("[box]:2222"), key), "[box]:2222", key, ""},
		{"hashed, of another", line(knownhosts.HashHostname("bux"), key), "box", key, "unknown"},
		{"a port in brackets", line("[box]:2222", key), "[box]:2222", key, ""},
		{"the port of another", line("[box]:2223", key), "[box]:2222", key, "unknown"},
		{"a pattern", line("*.lab,b?x", key), "box", key, ""},
		{"all but this one", line("b*,!box", key), "box", key, "unknown"},
		{"nobody", "", "box", key, "unknown"},
		{"changed", line("box", wrong), "box", key, "changed"},
		{"one of two keys", line("box", wrong) + line("box", key), "box", key, ""},
		{"revoked", line("box", key) + "@revoked " + line("*", key), "box", key, "revoked"},
		{"another one revoked", line("box", key) + "@revoked " + line("*", wrong), "box", key, ""},
		{"an authority's key is no host's key", "@cert-authority " + line("box", key), "box", key, "unknown"},
		{"a certificate", "@cert-authority " + line("*", ca.PublicKey()), "box", cert, ""},
		{"a certificate with a port", "@cert-authority " + line("[box]:2222", ca.PublicKey()), "[box]:2222", cert, ""},
		{"a certificate of nobody", "@cert-authority " + line("*", wrong), "box", cert, "other"},
		{"a certificate of another host", "@cert-authority " + line("*", ca.PublicKey()), "bux", cert, "other"},
		{"a revoked authority", "@cert-authority " + line("*", ca.PublicKey()) + "@revoked " + line("*", ca.PublicKey()), "box", cert, "other"},
		{"rubbish beside it", "garbage\nbox ssh-ed25519 AAAA\n\x00\xff\n|1|x|y ssh-rsa z\n@what " + line("box", wrong) + line("box", key), "box", key, ""},
	} {
		check := Check{As: c.as, Known: read(t, c.known)}
		err := check.Callback(t.Context())("x:1", &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 1}, c.shows)
		var changed *ChangedError
		var unknown *UnknownError
		var revoked *RevokedError
		is := ""
		switch {
		case errors.As(err, &changed):
			is = "changed"
			if !strings.Contains(err.Error(), Fingerprint(key)) || !strings.Contains(err.Error(), Fingerprint(wrong)) {
				t.Errorf("%s: %v lacks a fingerprint", c.name, err)
			}
		case errors.As(err, &unknown):
			is = "unknown"
		case errors.As(err, &revoked):
			is = "revoked"
		case err != nil:
			is = "other"
		}
		if is != c.is {
			t.Errorf("%s: %v, want %q", c.name, err, c.is)
		}
	}
}

// A file that holds only one kind of key must not make a server with several
// look like another one.
func TestTheKnownKindIsAskedForFirst(t *testing.T) {
	t.Parallel()
	ec, ed := signer(t, true).PublicKey(), signer(t, false).PublicKey()
	if got := read(t, line("box", ec)).Algorithms("box"); got[0] != ssh.KeyAlgoECDSA256 {
		t.Errorf("ecdsa is known, asked for is %v", got)
	}
	if got := read(t, "@cert-authority "+line("*", ec)).Algorithms("box"); got[0] != ssh.CertAlgoED25519v01 {
		t.Errorf("an authority is known, asked for is %v", got)
	}
	got := read(t, line("bux", ed)).Algorithms("box")
	if slices.Contains(got, ssh.CertAlgoED25519v01) || len(got) != len(keyAlgorithms()) {
		t.Errorf("nothing is known, asked for is %v", got)
	}
}

func TestWhatIsAcceptedIsWrittenDown(t *testing.T) {
	t.Parallel()
	key := signer(t, false).PublicKey()
	for _, c := range []struct {
		name           string
		accept, hash   bool
		answer         *bool
		taken, written bool
	}{
		{"nobody to ask", false, false, nil, false, false},
		{"accepted unseen", true, false, nil, true, true},
		{"accepted, hashed", true, true, nil, true, true},
		{"yes", false, false, new(bool), true, true},
		{"no", false, false, nil, false, false},
	} {
		path := filepath.Join(t.TempDir(), "ssh", "known_hosts")
		if c.name == "yes" { // after a line without its end
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("# mine"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check := Check{As: "[box]:22022", Known: &Known{}, AcceptNew: c.accept, Hash: c.hash, File: path}
		asked := ""
		if c.name == "yes" || c.name == "no" {
			check.Confirm = func(_ context.Context, q string) (bool, error) { asked = q; return c.name == "yes", nil }
		}
		err := check.Callback(t.Context())("", nil, key)
		if (err == nil) != c.taken || check.Confirm != nil && !strings.Contains(asked, Fingerprint(key)) {
			t.Errorf("%s: %v, asked %q", c.name, err, asked)
		}
		raw, _ := os.ReadFile(path)
		if strings.Contains(string(raw), "box") == (c.hash || !c.written) || c.written && c.name == "yes" && !strings.Contains(string(raw), "# mine\n") {
			t.Errorf("%s: the file is %q", c.name, raw)
		}
		if !c.written {
			continue
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", c.name, info.Mode())
		}
		again, err := Read([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		if err := (Check{As: "[box]:22022", Known: again}).Callback(t.Context())("", nil, key); err != nil {
			t.Errorf("%s: not known afterwards: %v", c.name, err)
		}
	}
}

// A pattern can't be made to take for ever.
func TestPatternsAreMatchedInTime(t *testing.T) {
	t.Parallel()
	done := make(chan bool, 1)
	go func() { done <- wildcard(strings.Repeat("*a", 5000), strings.Repeat("a", 4999)+"b") }()
	select {
	case got := <-done:
		if got {
			t.Error("it matches")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it takes for ever")
	}
}

func FuzzKnownHosts(f *testing.F) {
	f.Add([]byte(line("box", signer(f, false).PublicKey())), "box")
	f.Add([]byte("|1|YQ==|YQ== ssh-ed25519 AAAA\n@revoked * x y\n!*,*? a b"), "[box]:2222")
	key := signer(f, true).PublicKey()
	f.Fuzz(func(t *testing.T, raw []byte, as string) {
		k := &Known{}
		k.parse("f", raw)
		if len(k.Algorithms(as)) == 0 {
			t.Error("no algorithm is left")
		}
		if err := (Check{As: as, Known: k}).Callback(t.Context())("", nil, key); err == nil && len(k.of("", as)) == 0 {
			t.Error("a key that nobody knows is taken")
		}
	})
}
