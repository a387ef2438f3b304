// Package tlspin knows a control plane by its key: the pin sha256:<hex> is the
// SHA-256 of the public key (SubjectPublicKeyInfo) in its certificate. It is
// what a control plane with a certificate of its own making prints, and what
// agents and clients check in place of the machine's list of authorities.
package tlspin

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const prefix = "sha256:"

// ErrMismatch is wrapped when the other side shows another key.
var ErrMismatch = errors.New("the control plane shows another key than the one that is pinned")

// Pin is the hash of a public key.
type Pin [sha256.Size]byte

func (p Pin) String() string { return prefix + hex.EncodeToString(p[:]) }

// Of gives the pin of a certificate.
func Of(cert *x509.Certificate) Pin { return sha256.Sum256(cert.RawSubjectPublicKeyInfo) }

// Parse reads a pin, in hex or in base64 as curl's --pinnedpubkey has it.
func Parse(s string) (Pin, error) {
	var p Pin
	rest, ok := strings.CutPrefix(strings.TrimSpace(s), prefix)
	if !ok {
		// curl writes two slashes.
		rest, ok = strings.CutPrefix(strings.TrimSpace(s), "sha256//")
	}
	if !ok {
		return p, fmt.Errorf("the pin %q does not begin with %s", s, prefix)
	}
	rest = strings.TrimPrefix(rest, "//")
	for _, decode := range []func(string) ([]byte, error){hex.DecodeString, base64.StdEncoding.DecodeString} {
		if b, err := decode(rest); err == nil && len(b) == len(p) {
			return Pin(b), nil
		}
	}
	return p, fmt.Errorf("the pin %q is not sha256: and 64 hex digits; the control plane prints its own at start", s)
}

// Config trusts the one server whose key has the pin, whatever its certificate
// says beside it: name and dates prove nothing that the key doesn't.
func (p Pin) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The check below is stricter than the one that is left out.
		InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return ErrMismatch
			}
			got := Of(state.PeerCertificates[0])
			if subtle.ConstantTimeCompare(got[:], p[:]) != 1 {
				return fmt.Errorf("%w: it shows %s, pinned is %s", ErrMismatch, got, p)
			}
			return nil
		},
	}
}
