package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Catalog is a set of node types and installed presets. It doesn't change;
// what adds to it gives a new one.
type Catalog struct {
	nodes   map[string]Definition
	presets map[string]Preset
	// byBareName lists "plugin:Name" under Name, sorted.
	byBareName map[string][]string
}

// New makes a catalogue. Of several definitions or presets of a name the
// first one counts; the problems name the others.
func New(defs []Definition, presets []Preset) (*Catalog, []Problem) {
	return (&Catalog{}).With(defs, presets)
}

// With adds node types and presets. A name that is taken stays with what had
// it, so that a user's file can't change what a built-in type does; it is
// reported.
func (c *Catalog) With(defs []Definition, presets []Preset) (*Catalog, []Problem) {
	next := &Catalog{nodes: map[string]Definition{}, presets: map[string]Preset{}, byBareName: map[string][]string{}}
	maps.Copy(next.nodes, c.nodes)
	maps.Copy(next.presets, c.presets)
	var problems []Problem
	for _, d := range defs {
		if old, taken := next.nodes[d.NodeName]; taken {
			problems = append(problems, Problem{
				File:  d.NodeName,
				Error: fmt.Sprintf("the node type %q exists already (%s): give it another NODE_NAME", d.NodeName, old.Provider),
			})
			continue
		}
		next.nodes[d.NodeName] = d
	}
	for _, p := range presets {
		if _, taken := next.presets[p.Name]; taken {
			problems = append(problems, Problem{
				File:  p.Name,
				Error: fmt.Sprintf("the preset %q exists already: give it another preset_name", p.Name),
			})
			continue
		}
		next.presets[p.Name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(next.nodes)) {
		if _, bare, ok := strings.Cut(name, ":"); ok {
			next.byBareName[bare] = append(next.byBareName[bare], name)
		}
	}
	return next, problems
}

// Node finds a type: exactly, else, for a bare name, the type of that name of
// a plugin. Where several plugins have one it is the first in the alphabet,
// and candidates lists them all.
func (c *Catalog) Node(name string) (d Definition, candidates []string, ok bool) {
	if d, ok = c.nodes[name]; ok {
		return d, nil, true
	}
	if strings.Contains(name, ":") {
		return Definition{}, nil, false
	}
	found := c.byBareName[name]
	if len(found) == 0 {
		return Definition{}, nil, false
	}
	if len(found) > 1 {
		candidates = found
	}
	return c.nodes[found[0]], candidates, true
}

// Nodes lists the types by name.
func (c *Catalog) Nodes() []Definition {
	defs := make([]Definition, 0, len(c.nodes))
	for _, name := range c.NodeNames() {
		defs = append(defs, c.nodes[name])
	}
	return defs
}

// NodeNames lists the names of the types, sorted.
func (c *Catalog) NodeNames() []string { return slices.Sorted(maps.Keys(c.nodes)) }

// Preset finds an installed preset.
func (c *Catalog) Preset(name string) (Preset, bool) {
	p, ok := c.presets[name]
	return p, ok
}

// Presets lists the installed presets by name.
func (c *Catalog) Presets() []Preset {
	presets := make([]Preset, 0, len(c.presets))
	for _, name := range c.PresetNames() {
		presets = append(presets, c.presets[name])
	}
	return presets
}

// PresetNames lists the names of the installed presets, sorted.
func (c *Catalog) PresetNames() []string { return slices.Sorted(maps.Keys(c.presets)) }
