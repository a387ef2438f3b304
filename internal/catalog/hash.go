package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Hash gives the SHA-256 of the definition's JSON with sorted keys, in hex.
// Options count as declared, so hardware doesn't change it.
func (d Definition) Hash() (string, error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("hash node type %q: %w", d.NodeName, err)
	}
	// Maps are written with sorted keys; json.Number keeps digits as they are.
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("hash node type %q: %w", d.NodeName, err)
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("hash node type %q: %w", d.NodeName, err)
	}
	sum := sha256.Sum256(sorted)
	return hex.EncodeToString(sum[:]), nil
}

// Hashes gives the hash of each node type.
func (c *Catalog) Hashes() (map[string]string, error) {
	hashes := make(map[string]string, len(c.nodes))
	for name, d := range c.nodes {
		h, err := d.Hash()
		if err != nil {
			return nil, err
		}
		hashes[name] = h
	}
	return hashes, nil
}

// HashOf gives one hash over those of all types.
func HashOf(hashes map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		// A hash never returns an error.
		_, _ = fmt.Fprintf(h, "%s\x00%s\n", name, hashes[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Difference is what sets two catalogues apart.
type Difference struct {
	MissingHere  []string `json:"missing_here"`
	MissingThere []string `json:"missing_there"`
	// Changed types are on both sides with different definitions.
	Changed []string `json:"changed"`
}

// Empty says whether both sides have the same types.
func (d Difference) Empty() bool {
	return len(d.MissingHere)+len(d.MissingThere)+len(d.Changed) == 0
}

// Diff compares the hashes of two catalogues.
func Diff(here, there map[string]string) Difference {
	d := Difference{MissingHere: []string{}, MissingThere: []string{}, Changed: []string{}}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if mine, ok := here[name]; !ok {
			d.MissingHere = append(d.MissingHere, name)
		} else if mine != there[name] {
			d.Changed = append(d.Changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(here)) {
		if _, ok := there[name]; !ok {
			d.MissingThere = append(d.MissingThere, name)
		}
	}
	return d
}
