package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// MaxFingerprintBytes bounds the document of an environment.
const MaxFingerprintBytes = 1 << 20

// Fingerprint gives the form in which the document of an environment is stored,
// members in the order of their names, and the SHA-256 of that. False: it is no
// JSON object, or too long.
func Fingerprint(doc json.RawMessage) (digest string, canonical json.RawMessage, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var members map[string]any
	if len(doc) > MaxFingerprintBytes || dec.Decode(&members) != nil || members == nil || dec.More() {
		return "", nil, false
	}
	canonical, err := json.Marshal(members)
	if err != nil {
		return "", nil, false
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), canonical, true
}
