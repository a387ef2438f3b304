package server

import (
	"crypto/ecdsa"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/tlspin"
)

func TestOwnCertificateKeepsItsPin(t *testing.T) {
	f := &folder{dir: t.TempDir()}
	now := time.Now()
	first, err := f.selfSigned(now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.selfSigned(now.Add(time.Hour))
	if err != nil || again.Leaf.SerialNumber.Cmp(first.Leaf.SerialNumber) != 0 {
		t.Errorf("made anew at the next start: %v", err)
	}
	renewed, err := f.selfSigned(now.Add(certLife - time.Hour))
	if err != nil || renewed.Leaf.SerialNumber.Cmp(first.Leaf.SerialNumber) == 0 {
		t.Errorf("not renewed before its end: %v", err)
	}
	if tlspin.Of(renewed.Leaf) != tlspin.Of(first.Leaf) {
		t.Error("another pin after the renewal")
	}
	info, err := os.Stat(filepath.Join(f.dir, "tls", "key.pem"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's mode is %v, %v", info.Mode(), err)
	}
	if err := first.Leaf.VerifyHostname("localhost"); err != nil {
		t.Error(err)
	}
	if _, ok := first.PrivateKey.(*ecdsa.PrivateKey); !ok || first.Leaf.PublicKeyAlgorithm != x509.ECDSA {
		t.Errorf("the key is a %T", first.PrivateKey)
	}
}

func TestTLSFlagsThatContradict(t *testing.T) {
	f := &folder{dir: t.TempDir()}
	cert, err := f.selfSigned(time.Now())
	if err != nil || cert.Leaf == nil {
		t.Fatal(err)
	}
	own := Config{TLSCert: f.path("tls/cert.pem"), TLSKey: f.path("tls/key.pem")}
	for want, cfg := range map[string]Config{
		"not both":      {TLSCert: own.TLSCert, TLSKey: own.TLSKey, TLSSelfSigned: true},
		"go together":   {TLSCert: own.TLSCert},
		"can't be used": {TLSCert: own.TLSKey, TLSKey: own.TLSKey},
	} {
		if _, err := f.secure(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
	if s, err := f.secure(own); err != nil || s.scheme() != "https" || s.pin != "" {
		t.Errorf("a certificate of somebody else's: %+v, %v", s, err)
	}
	if s, err := f.secure(Config{}); err != nil || s.scheme() != "http" {
		t.Errorf("none: %+v, %v", s, err)
	}
}

func TestKnownAs(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000}, "https://127.0.0.1:8000"},
		{&net.TCPAddr{IP: net.IPv6zero, Port: 8000}, "https://" + host + ":8000"},
		{&net.TCPAddr{IP: net.IPv4zero, Port: 9}, "https://" + host + ":9"},
	} {
		if got := knownAs("https", c.addr); got != c.want {
			t.Errorf("%v is known as %s, want %s", c.addr, got, c.want)
		}
	}
}
