// Package secret takes the values of secret params out of a graph before it is
// stored, and puts them back before it is executed. Addresses are positions in
// the file, since ids may be missing or occur twice.
//
// The values live in a Vault, in memory only: it has no form that can be
// written down.
package secret

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/graph/flat"
	"cdui/internal/graph/tree"
)

// Vault holds the values that were taken out of one graph.
type Vault struct{ entries []entry }

type entry struct {
	path  []any
	value any
}

// Empty says whether there is nothing to restore.
func (v Vault) Empty() bool { return len(v.entries) == 0 }

// String says how many values there are and nothing of them.
func (v Vault) String() string { return fmt.Sprintf("%d secret values", len(v.entries)) }

// GoString is String: %#v must not show values either.
func (v Vault) GoString() string { return v.String() }

// MarshalJSON refuses, so that no value is stored by accident.
func (Vault) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("secret values are kept in memory only")
}

// Scrub blanks the secret params of a graph and gives what it took. Of node
// types that the catalogue doesn't know every param counts as secret. A graph
// without secrets comes back byte for byte.
func Scrub(raw json.RawMessage, cat *catalog.Catalog) (json.RawMessage, Vault, error) {
	file, err := tree.Parse(raw)
	if err != nil {
		return nil, Vault{}, fmt.Errorf("scrub secrets: %w", err)
	}
	s := scrubber{cat: cat, inner: innerTypes(file, cat)}
	s.nodes(file, "nodes", []any{"nodes"})
	for i, x := range tree.List(file, "subgraphs") {
		if o, ok := x.(tree.Object); ok {
			s.nodes(o, "nodes", []any{"subgraphs", i, "nodes"})
		}
	}
	for i, x := range tree.List(file, "presets") {
		o, ok := x.(tree.Object)
		if !ok {
			continue
		}
		for j, n := range tree.List(o, "nodes") {
			if n, ok := n.(tree.Object); ok {
				s.node(tree.Text(n, "type"), n, []any{"presets", i, "nodes", j})
			}
		}
	}
	if s.vault.Empty() {
		return raw, Vault{}, nil
	}
	scrubbed, err := tree.Bytes(file)
	if err != nil {
		return nil, Vault{}, fmt.Errorf("scrub secrets: %w", err)
	}
	return scrubbed, s.vault, nil
}

// Restore puts the values back into the graph that Scrub gave.
func Restore(scrubbed json.RawMessage, v Vault) (json.RawMessage, error) {
	if v.Empty() {
		return scrubbed, nil
	}
	file, err := tree.Parse(scrubbed)
	if err != nil {
		return nil, fmt.Errorf("restore secrets: %w", err)
	}
	for _, e := range v.entries {
		if !put(file, e) {
			return nil, fmt.Errorf("restore secrets: the graph has no blank value at %s any more", address(e.path))
		}
	}
	raw, err := tree.Bytes(file)
	if err != nil {
		return nil, fmt.Errorf("restore secrets: %w", err)
	}
	return raw, nil
}

func put(file tree.Object, e entry) bool {
	var at any = file
	for _, step := range e.path[:len(e.path)-1] {
		switch step := step.(type) {
		case string:
			o, ok := at.(tree.Object)
			if !ok {
				return false
			}
			at = o[step]
		case int:
			l, ok := at.([]any)
			if !ok || step >= len(l) {
				return false
			}
			at = l[step]
		}
	}
	o, ok := at.(tree.Object)
	key, isKey := e.path[len(e.path)-1].(string)
	if !ok || !isKey || o[key] != "" {
		return false
	}
	o[key] = e.value
	return true
}

func address(path []any) string {
	parts := make([]string, len(path))
	for i, p := range path {
		parts[i] = fmt.Sprint(p)
	}
	return strings.Join(parts, ".")
}

type scrubber struct {
	cat *catalog.Catalog
	// inner gives the types that a preset's inner node has: the file and the
	// catalogue may each have a preset of that name.
	inner map[string]map[string][]string
	vault Vault
}

func (s *scrubber) nodes(o tree.Object, key string, path []any) {
	for i, x := range tree.List(o, key) {
		n, ok := x.(tree.Object)
		if !ok {
			continue
		}
		s.node(tree.Text(n, "type"), tree.Child(n, "data"), append(slices.Clip(path), i, "data"))
	}
}

// node blanks the params and internalParams of what holds them.
func (s *scrubber) node(nodeType string, holder tree.Object, path []any) {
	s.params(tree.Child(holder, "params"), append(slices.Clip(path), "params"), func(param string) bool {
		return s.secret(nodeType, param)
	})
	name, isPreset := strings.CutPrefix(nodeType, flat.PresetPrefix)
	internal := tree.Child(holder, "internalParams")
	for id := range internal {
		types := s.inner[name][id]
		s.params(tree.Child(internal, id), append(slices.Clip(path), "internalParams", id), func(param string) bool {
			if !isPreset || len(types) == 0 {
				return true
			}
			for _, t := range types {
				if s.secret(t, param) {
					return true
				}
			}
			return false
		})
	}
}

func (s *scrubber) params(params tree.Object, path []any, secret func(string) bool) {
	for name, v := range params {
		if v == nil || v == "" || !secret(name) {
			continue
		}
		s.vault.entries = append(s.vault.entries, entry{append(slices.Clip(path), name), v})
		params[name] = ""
	}
}

// secret says whether a param of a node of this type is to be kept out.
func (s *scrubber) secret(nodeType, param string) bool {
	switch {
	case nodeType == flat.TypeNote, nodeType == flat.TypeScript, nodeType == flat.TypeCommand:
		return false
	case strings.HasPrefix(nodeType, flat.PresetPrefix), strings.HasPrefix(nodeType, flat.SubgraphPrefix):
		// An instance has no params of its own that anything reads.
		return true
	}
	d, _, ok := s.cat.Node(nodeType)
	if !ok {
		return true
	}
	p, ok := d.Param(param)
	return ok && p.ParamType == catalog.ParamSecret
}

// innerTypes collects the types of the inner nodes of all presets, whatever
// state their definitions are in.
func innerTypes(file tree.Object, cat *catalog.Catalog) map[string]map[string][]string {
	types := map[string]map[string][]string{}
	add := func(preset, id, nodeType string) {
		if types[preset] == nil {
			types[preset] = map[string][]string{}
		}
		types[preset][id] = append(types[preset][id], nodeType)
	}
	for _, p := range cat.Presets() {
		for _, n := range p.Nodes {
			add(p.Name, n.ID, n.Type)
		}
	}
	for _, x := range tree.List(file, "presets") {
		p, ok := x.(tree.Object)
		if !ok {
			continue
		}
		for _, n := range tree.List(p, "nodes") {
			if n, ok := n.(tree.Object); ok {
				add(tree.Text(p, "preset_name"), tree.Text(n, "id"), tree.Text(n, "type"))
			}
		}
	}
	return types
}
