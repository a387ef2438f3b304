// Package token mints the secrets that callers identify themselves by and
// compares them. What is stored of a token is its hash. Pure, but for the
// system's random source.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
)

// New mints a token of 32 random bytes, as 64 hex digits.
func New() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime aborts instead
	return hex.EncodeToString(b[:])
}

// Hash gives what is stored of a token: its SHA-256, in hex.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Matches tells whether token has the given hash, in constant time.
func Matches(token, hash string) bool {
	return token != "" && subtle.ConstantTimeCompare([]byte(Hash(token)), []byte(hash)) == 1
}
