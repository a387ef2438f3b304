package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"cdui/internal/catalog"
	"cdui/internal/graph/finding"
	"cdui/internal/graph/flat"
)

// Prepared is a graph as the Python engine executes it: flat, checked, and
// without what doesn't run.
type Prepared struct {
	Nodes []PreparedNode `json:"nodes"`
	// Edges are data edges, one at most into each input.
	Edges []PreparedEdge `json:"edges"`
	// Levels hold the nodes in the order of execution; those of a level wait
	// for nothing in it.
	Levels [][]string `json:"levels"`
	// Presets are the installed presets that nodes apply by name (Map).
	Presets map[string]PreparedPreset `json:"presets"`

	Warnings []finding.Finding `json:"-"`
}

// PreparedNode is a node with the name of its type in the catalogue.
type PreparedNode struct {
	ID     string                     `json:"id"`
	Type   string                     `json:"type"`
	Params map[string]json.RawMessage `json:"params"`
	// Container is the outermost instance that the node came out of, under
	// which it reports; nil for a node of the file itself.
	Container *string `json:"container"`
}

// PreparedEdge carries a value from an output to an input.
type PreparedEdge struct {
	Source       string `json:"source"`
	SourceHandle string `json:"sourceHandle"`
	Target       string `json:"target"`
	TargetHandle string `json:"targetHandle"`
}

// PreparedPreset is a preset that is called like a function.
type PreparedPreset struct {
	Nodes   []PreparedNode `json:"nodes"`
	Edges   []PreparedEdge `json:"edges"`
	Levels  [][]string     `json:"levels"`
	Inputs  []flat.Socket  `json:"inputs"`
	Outputs []flat.Socket  `json:"outputs"`
}

// Types lists the node types that are executed, sorted.
func (p Prepared) Types() []string {
	types := map[string]bool{}
	add := func(nodes []PreparedNode) {
		for _, n := range nodes {
			types[n.Type] = true
		}
	}
	add(p.Nodes)
	for _, preset := range p.Presets {
		add(preset.Nodes)
	}
	return slices.Sorted(maps.Keys(types))
}

// Prepare expands and checks a graph. With findings there is nothing to
// execute; unlike those of Validate they cover what presets consist of, and
// leave out nodes that don't run.
func Prepare(raw json.RawMessage, cat *catalog.Catalog) (Prepared, []finding.Finding) {
	f := &finding.List{}
	s, ok := open(raw, cat, f)
	if !ok {
		if f.Len() == 0 {
			f.Add(finding.StageRead, finding.CodeProgram, "", "the graph is a program of its own and is started as it is", nil)
		}
		return Prepared{}, f.Sorted()
	}
	if f.Until(finding.StageSubgraphs) {
		return Prepared{}, f.Sorted()
	}
	expanded, ok := flat.ExpandPresets(s.flat, s.presets, f)
	if !ok {
		return Prepared{}, f.Sorted()
	}
	bare, lost := resolveBypass(layOut(expanded, s.presets), f)
	l := layOut(bare, s.presets)
	if !l.needsEntry(f) {
		return Prepared{}, f.Sorted()
	}
	runs := l.reached()
	check{layout: l, f: f, runs: runs, lost: lost}.all()
	levels, rest := l.levels(runs)
	l.cycle(rest, f)
	p := Prepared{Levels: levels, Presets: map[string]PreparedPreset{}, Warnings: append(s.warnings, l.warnings...)}
	p.Nodes, p.Edges = l.prepared(runs)
	prepareMapped(p, cat, f)
	if f.Len() > 0 {
		return Prepared{}, f.Sorted()
	}
	return p, nil
}

func (c check) all() {
	c.knownTypes()
	c.inputs()
	c.ranges()
	c.wires()
}

// prepared gives the nodes of a set and the data edges between them.
func (l *layout) prepared(runs map[string]bool) ([]PreparedNode, []PreparedEdge) {
	nodes := make([]PreparedNode, 0, len(runs))
	for _, n := range l.Nodes {
		if !runs[n.ID] {
			continue
		}
		p := PreparedNode{ID: n.ID, Type: n.Type, Params: n.Params}
		if t := l.types[n.ID]; t != nil {
			p.Type = t.definition.NodeName
		}
		if p.Params == nil {
			p.Params = flat.Params{}
		}
		if n.Container != "" {
			p.Container = &n.Container
		}
		nodes = append(nodes, p)
	}
	last := map[flat.Endpoint]int{}
	for i, e := range l.Edges {
		if !e.Trigger {
			last[end(e.Target, e.TargetHandle)] = i
		}
	}
	edges := []PreparedEdge{}
	for i, e := range l.Edges {
		if !e.Trigger && runs[e.Source] && runs[e.Target] && last[end(e.Target, e.TargetHandle)] == i {
			edges = append(edges, PreparedEdge{e.Source, e.SourceHandle, e.Target, e.TargetHandle})
		}
	}
	return nodes, edges
}

// prepareMapped prepares the installed presets that Map nodes name, and those
// that Map nodes in these name. One that is not installed is the node's own
// affair: it says so when it is executed.
func prepareMapped(p Prepared, cat *catalog.Catalog, f *finding.List) {
	queue := p.Nodes
	for ; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		if n.Type != "Map" {
			continue
		}
		d, _, _ := cat.Node(n.Type)
		var name string
		if json.Unmarshal(value(d, n.Params, "subgraph"), &name) != nil {
			continue
		}
		if _, done := p.Presets[name]; done {
			continue
		}
		preset, ok := cat.Preset(name)
		if !ok {
			continue
		}
		inner := &finding.List{}
		pp := preparePreset(preset, cat, inner)
		for _, x := range inner.Sorted() {
			f.Add(finding.StageTypes, finding.CodeMapPreset, n.ID, fmt.Sprintf("node %q (%s): preset %q: %s", n.ID, n.Type, name, x.Message), map[string]any{"preset": name, "code": x.Code})
		}
		p.Presets[name] = pp
		queue = append(slices.Clip(queue), pp.Nodes...)
	}
}

// preparePreset prepares a preset as a graph of its own.
func preparePreset(p catalog.Preset, cat *catalog.Catalog, f *finding.List) PreparedPreset {
	fn, ok := flat.OpenPreset(p, cat, f)
	if !ok {
		return PreparedPreset{}
	}
	fed := map[flat.Endpoint]bool{}
	for _, in := range fn.Inputs {
		fed[end(in.Node, in.Port)] = true
	}
	runs := map[string]bool{}
	for _, n := range fn.Nodes {
		runs[n.ID] = true
	}
	l := layOut(fn.Board, flat.Presets{Cat: cat})
	check{layout: l, f: f, fed: fed}.all()
	levels, rest := l.levels(runs)
	l.cycle(rest, f)
	out := PreparedPreset{Levels: levels, Inputs: fn.Inputs, Outputs: fn.Outputs}
	out.Nodes, out.Edges = l.prepared(runs)
	return out
}
