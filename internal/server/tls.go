package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"cdui/internal/tlspin"
)

// secure is how connections are encrypted; the zero value: not at all.
type secure struct {
	config *tls.Config
	// pin is that of a certificate of our own making.
	pin string
}

func (s secure) scheme() string {
	if s.config == nil {
		return "http"
	}
	return "https"
}

func (s secure) wrap(l net.Listener) net.Listener {
	if s.config == nil {
		return l
	}
	return tls.NewListener(l, s.config)
}

// secure reads the certificate that the configuration names, or makes one.
func (f *folder) secure(cfg Config) (secure, error) {
	given := cfg.TLSCert != "" || cfg.TLSKey != ""
	switch {
	case given && cfg.TLSSelfSigned:
		return secure{}, errors.New("give either --tls-cert and --tls-key, or --tls-self-signed, not both")
	case given && (cfg.TLSCert == "" || cfg.TLSKey == ""):
		return secure{}, errors.New("--tls-cert and --tls-key go together: the certificate and its key")
	case given:
		cert, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
		if err != nil {
			return secure{}, fmt.Errorf("the certificate %s with the key %s can't be used: %w", cfg.TLSCert, cfg.TLSKey, err)
		}
		return secure{config: serverTLS(cert)}, nil
	case !cfg.TLSSelfSigned:
		return secure{}, nil
	}
	cert, err := f.selfSigned(time.Now())
	if err != nil {
		return secure{}, fmt.Errorf("make a certificate in %s: %w", f.path("tls"), err)
	}
	return secure{config: serverTLS(cert), pin: tlspin.Of(cert.Leaf).String()}, nil
}

func serverTLS(cert tls.Certificate) *tls.Config {
	// Agents connect by WebSocket, which HTTP/2 here has not.
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

const (
	certLife = 10 * 365 * 24 * time.Hour
	// certRenew is how long before its end a certificate is made anew. Its key,
	// and with it the pin, stays.
	certRenew = 365 * 24 * time.Hour
)

// selfSigned gives the control plane's own certificate, made at the first start.
func (f *folder) selfSigned(now time.Time) (tls.Certificate, error) {
	dir := f.path("tls")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return tls.Certificate{}, err
	}
	key, err := ownKey(filepath.Join(dir, "key.pem"))
	if err != nil {
		return tls.Certificate{}, err
	}
	path := filepath.Join(dir, "cert.pem")
	if leaf, err := readCertificate(path); err == nil && now.Before(leaf.NotAfter.Add(-certRenew)) && key.PublicKey.Equal(leaf.PublicKey) {
		return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
	}
	raw, err := sign(key, now)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})); err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(raw)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}, err
}

func ownKey(path string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, err
		}
		return key, writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key; remove it to have a new one made, which has another pin", path)
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

func readCertificate(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return x509.ParseCertificate(block.Bytes)
}

func sign(key *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	names := []string{"localhost"}
	if name, err := os.Hostname(); err == nil && name != "" && name != "localhost" {
		names = append(names, name)
	}
	cert := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "cdui control plane"},
		// Clocks differ.
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(certLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	return x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
}

// knownAs is the address that other machines reach a listener under: its own, or
// this machine's name where it listens on all.
func knownAs(scheme string, a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return scheme + "://" + a.String()
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}
