package flat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cdui/internal/catalog"
)

// The types of node that the format itself gives a meaning.
const (
	TypeNote        = "note"
	TypeGraphInput  = "GraphInput"
	TypeGraphOutput = "GraphOutput"

	// A node of one of these types is a program of its own and needs no
	// catalogue.
	TypeScript  = "Script"
	TypeCommand = "Command"

	PresetPrefix   = "preset:"
	SubgraphPrefix = "subgraph:"
)

// FormatVersion is the newest version of the format that this reader knows.
const FormatVersion = 1

// Params are the values that a node is given, as they stand in the file.
type Params = map[string]json.RawMessage

// Node is a node of a graph, or of what was expanded in it.
type Node struct {
	ID, Type string
	Params   Params
	// Internal overlays the params of a preset instance's inner nodes.
	Internal map[string]Params
	Bypassed bool

	// Container is the outermost instance that the node came out of, Blocks
	// the subgraph instances around it, outermost first.
	Container string
	Blocks    []string
	// home and local say where the id came from: the instance and the id there.
	home, local string
}

// Label names the node in a message.
func (n *Node) Label() string { return fmt.Sprintf("node %q (%s)", n.ID, n.Type) }

// PresetName gives the preset that the node is an instance of.
func (n *Node) PresetName() (string, bool) { return strings.CutPrefix(n.Type, PresetPrefix) }

// SubgraphID gives the subgraph that the node is an instance of.
func (n *Node) SubgraphID() (string, bool) { return strings.CutPrefix(n.Type, SubgraphPrefix) }

// IsContainer says whether the node stands for other nodes.
func (n *Node) IsContainer() bool {
	return strings.HasPrefix(n.Type, PresetPrefix) || strings.HasPrefix(n.Type, SubgraphPrefix)
}

// Edge carries a value, or marks with a trigger where a graph starts.
type Edge struct {
	ID                   string
	Source, SourceHandle string
	Target, TargetHandle string
	Trigger              bool
}

// Label names the edge in a message: by its id when it has one.
func (e Edge) Label() string {
	if e.ID != "" {
		return "edge " + e.ID
	}
	return fmt.Sprintf("edge %s → %s", e.Source, e.Target)
}

// Board is a set of nodes and the edges between them.
type Board struct {
	Nodes []*Node
	Edges []Edge
}

// Endpoint is a port of a node.
type Endpoint struct{ Node, Port string }

// subgraph is a definition that the file holds; err says why it can't be used.
type subgraph struct {
	Board
	inputs, outputs map[string][]Endpoint
	triggerTargets  []string
	err             error
}

// embedded is a preset that the file holds; err says why it can't be used.
type embedded struct {
	preset catalog.Preset
	err    error
}

// Document is a graph file without its notes.
type Document struct {
	Board
	presets   map[string]embedded
	subgraphs map[string]*subgraph
	// Version is the format_version of the file.
	Version float64
}

// Parse reads a graph file. Notes, and edges that touch them, are left out.
// Broken definitions of presets and subgraphs are kept with their error, since
// they matter only where something refers to them.
func Parse(raw json.RawMessage) (*Document, error) {
	f, err := parseFields(raw)
	if err != nil {
		return nil, fmt.Errorf("the graph %w", err)
	}
	d := &Document{presets: map[string]embedded{}, subgraphs: map[string]*subgraph{}, Version: FormatVersion}
	if d.Board, err = parseBoard(f); err != nil {
		return nil, err
	}
	if v, ok := f.get("format_version"); ok {
		if err := json.Unmarshal(v, &d.Version); err != nil {
			return nil, errors.New(`"format_version" must be a number`)
		}
	}
	presets, err := f.list("presets")
	if err != nil {
		return nil, err
	}
	for _, item := range presets {
		d.addPreset(item)
	}
	subgraphs, err := f.list("subgraphs")
	if err != nil {
		return nil, err
	}
	for _, item := range subgraphs {
		d.addSubgraph(item)
	}
	return d, nil
}

// addPreset keeps the first definition of a name, even one that doesn't parse:
// it owns the name.
func (d *Document) addPreset(raw json.RawMessage) {
	p, err := catalog.ParsePreset(raw)
	name := p.Name
	if err != nil {
		f, ferr := parseFields(raw)
		if ferr != nil {
			return
		}
		if name, _ = f.text("preset_name"); name == "" {
			return
		}
	}
	if _, taken := d.presets[name]; !taken {
		d.presets[name] = embedded{preset: p, err: err}
	}
}

func (d *Document) addSubgraph(raw json.RawMessage) {
	f, err := parseFields(raw)
	if err != nil {
		return
	}
	id, err := f.text("id")
	if err != nil || id == "" {
		return
	}
	if _, taken := d.subgraphs[id]; taken {
		return
	}
	s := &subgraph{inputs: map[string][]Endpoint{}, outputs: map[string][]Endpoint{}}
	s.err = s.read(f)
	d.subgraphs[id] = s
}

func (s *subgraph) read(f fields) error {
	var err error
	if s.Board, err = parseBoard(f); err != nil {
		return err
	}
	face, err := f.object("interface")
	if err != nil {
		return err
	}
	for name, into := range map[string]map[string][]Endpoint{"inputs": s.inputs, "outputs": s.outputs} {
		items, err := face.list(name)
		if err != nil {
			return err
		}
		for i, item := range items {
			if err := readBoundary(item, into); err != nil {
				return fmt.Errorf("interface %s %d: %w", name, i, err)
			}
		}
	}
	targets, err := face.list("triggerTargets")
	if err != nil {
		return err
	}
	for i, t := range targets {
		var id string
		if err := json.Unmarshal(t, &id); err != nil {
			return fmt.Errorf("triggerTargets %d must be a node id", i)
		}
		s.triggerTargets = append(s.triggerTargets, id)
	}
	return nil
}

func readBoundary(raw json.RawMessage, into map[string][]Endpoint) error {
	f, err := parseFields(raw)
	if err != nil {
		return err
	}
	var text [3]string
	for i, name := range []string{"port", "innerNode", "innerPort"} {
		if text[i], err = f.text(name); err != nil {
			return err
		}
	}
	if end := (Endpoint{text[1], text[2]}); !slices.Contains(into[text[0]], end) {
		into[text[0]] = append(into[text[0]], end)
	}
	return nil
}

func parseBoard(f fields) (Board, error) {
	var b Board
	nodes, err := f.list("nodes")
	if err != nil {
		return Board{}, err
	}
	notes, others := map[string]bool{}, map[string]bool{}
	for i, item := range nodes {
		n, err := parseNode(item)
		if err != nil {
			return Board{}, fmt.Errorf("node %d: %w", i, err)
		}
		if n.Type == TypeNote {
			notes[n.ID] = true
			continue
		}
		others[n.ID] = true
		b.Nodes = append(b.Nodes, n)
	}
	edges, err := f.list("edges")
	if err != nil {
		return Board{}, err
	}
	for i, item := range edges {
		e, err := parseEdge(item)
		if err != nil {
			return Board{}, fmt.Errorf("edge %d: %w", i, err)
		}
		touches := func(id string) bool { return notes[id] && !others[id] }
		if !touches(e.Source) && !touches(e.Target) {
			b.Edges = append(b.Edges, e)
		}
	}
	return b, nil
}

func parseNode(raw json.RawMessage) (*Node, error) {
	f, err := parseFields(raw)
	if err != nil {
		return nil, err
	}
	n := &Node{}
	if n.ID, err = f.text("id"); err != nil {
		return nil, err
	}
	if n.Type, err = f.text("type"); err != nil {
		return nil, err
	}
	if n.Type == TypeNote {
		return n, nil
	}
	if n.ID == "" {
		return nil, errors.New("it has no id")
	}
	if n.Type == "" {
		return nil, fmt.Errorf("%q has no type", n.ID)
	}
	n.local = n.ID
	data, err := f.object("data")
	if err != nil {
		return nil, fmt.Errorf("%q: %w", n.ID, err)
	}
	given, err := data.object("params")
	if err != nil {
		return nil, fmt.Errorf("%q: %w", n.ID, err)
	}
	n.Params = Params(given)
	inner, err := data.object("internalParams")
	if err != nil {
		return nil, fmt.Errorf("%q: %w", n.ID, err)
	}
	for id := range inner {
		values, err := inner.object(id)
		if err != nil {
			return nil, fmt.Errorf("%q: internalParams: %w", n.ID, err)
		}
		if n.Internal == nil {
			n.Internal = map[string]Params{}
		}
		n.Internal[id] = Params(values)
	}
	muted, _ := data.get("bypassed")
	n.Bypassed = string(muted) == "true"
	return n, nil
}

func parseEdge(raw json.RawMessage) (Edge, error) {
	f, err := parseFields(raw)
	if err != nil {
		return Edge{}, err
	}
	var e Edge
	var kind string
	for name, into := range map[string]*string{
		"id": &e.ID, "source": &e.Source, "sourceHandle": &e.SourceHandle,
		"target": &e.Target, "targetHandle": &e.TargetHandle, "type": &kind,
	} {
		// An id that is no string names nothing that matters.
		if *into, err = f.text(name); err != nil && name != "id" {
			return Edge{}, err
		}
	}
	e.Trigger = kind == "trigger"
	return e, nil
}
