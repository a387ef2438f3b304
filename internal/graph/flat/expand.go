package flat

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"cdui/internal/graph/finding"
)

// template is a definition ready to stand in for its instances.
type template struct {
	Board
	inputs, outputs map[string][]Endpoint
	// starts are the inner nodes that a trigger into an instance starts.
	starts []string
}

// expander replaces the instances of one kind of definition.
type expander struct {
	kind      string // "subgraph" or "preset", for messages
	separator string
	// block says that an instance counts as a block around its nodes.
	block     bool
	portStage finding.Stage
	portCode  string
	// stage is where everything but ports is reported.
	stage finding.Stage
	// lookup gives what an instance stands for, nil for nodes that are no
	// instance or can't be expanded; it reports the latter where they are to
	// be refused.
	lookup func(*Node) *template
	f      *finding.List
}

// expand replaces instances, pass by pass, until none is left. It says false
// where something was found on the way.
func (x *expander) expand(b Board) (Board, bool) {
	before := x.f.Len()
	for range maxDepth {
		next, changed := x.pass(b)
		if x.f.Len() > before {
			return b, false
		}
		if !changed {
			break
		}
		b = next
	}
	x.uniqueIDs(b)
	return b, x.f.Len() == before
}

func (x *expander) pass(b Board) (Board, bool) {
	instances := map[string]*template{}
	byID := b.ByID()
	for _, n := range b.Nodes {
		if t := x.lookup(n); t != nil {
			instances[n.ID] = t
		}
	}
	if len(instances) == 0 {
		return b, false
	}
	var out Board
	idBytes := 0
	for _, n := range b.Nodes {
		t := instances[n.ID]
		if t == nil {
			out.Nodes = append(out.Nodes, n)
			continue
		}
		for _, inner := range t.Nodes {
			c := x.place(n, inner)
			idBytes += len(c.ID)
			if idBytes > maxIDBytes {
				x.tooLarge("node ids")
				return b, false
			}
			out.Nodes = append(out.Nodes, c)
		}
		for _, e := range t.Edges {
			e.Source, e.Target = n.ID+x.separator+e.Source, n.ID+x.separator+e.Target
			if e.ID != "" {
				e.ID = n.ID + x.separator + e.ID
			}
			out.Edges = append(out.Edges, e)
		}
	}
	for _, e := range b.Edges {
		sources, ok := x.sources(e, byID[e.Source], instances[e.Source])
		targets, ok2 := x.targets(e, byID[e.Target], instances[e.Target])
		if !ok || !ok2 {
			continue
		}
		if len(out.Edges)+len(sources)*len(targets) > maxEdges {
			x.tooLarge("edges")
			return b, false
		}
		for _, s := range sources {
			for _, t := range targets {
				e.Source, e.SourceHandle, e.Target, e.TargetHandle = s.Node, s.Port, t.Node, t.Port
				out.Edges = append(out.Edges, e)
			}
		}
	}
	return out, true
}

// place makes an instance's copy of an inner node.
func (x *expander) place(instance, inner *Node) *Node {
	c := *inner
	c.ID = instance.ID + x.separator + inner.ID
	c.home, c.local = instance.ID, inner.ID
	c.Container = cmp.Or(instance.Container, instance.ID)
	c.Blocks = instance.Blocks
	if x.block {
		c.Blocks = append(slices.Clip(instance.Blocks), instance.ID)
	}
	if overlay := instance.Internal[inner.ID]; len(overlay) > 0 {
		c.Params = maps.Clone(c.Params)
		if c.Params == nil {
			c.Params = Params{}
		}
		maps.Copy(c.Params, overlay)
	}
	return &c
}

// sources gives where an edge starts once its source is expanded.
func (x *expander) sources(e Edge, n *Node, t *template) ([]Endpoint, bool) {
	if t == nil {
		return []Endpoint{{e.Source, e.SourceHandle}}, true
	}
	inner := t.outputs[e.SourceHandle]
	if len(inner) == 0 {
		x.noPort(e, n, "output", e.SourceHandle, t.outputs)
		return nil, false
	}
	return []Endpoint{{n.ID + x.separator + inner[0].Node, inner[0].Port}}, true
}

// targets gives where an edge ends once its target is expanded.
func (x *expander) targets(e Edge, n *Node, t *template) ([]Endpoint, bool) {
	if t == nil {
		return []Endpoint{{e.Target, e.TargetHandle}}, true
	}
	if e.Trigger {
		if len(t.starts) == 0 {
			x.f.Add(x.stage, finding.CodeTriggerTarget, n.ID, fmt.Sprintf("%s: %s starts nothing: the %s has no node", n.Label(), e.Label(), x.kind), nil)
			return nil, false
		}
		ends := make([]Endpoint, len(t.starts))
		for i, id := range t.starts {
			ends[i] = Endpoint{n.ID + x.separator + id, ""}
		}
		return ends, true
	}
	inner := t.inputs[e.TargetHandle]
	if len(inner) == 0 {
		x.noPort(e, n, "input", e.TargetHandle, t.inputs)
		return nil, false
	}
	ends := make([]Endpoint, len(inner))
	for i, p := range inner {
		ends[i] = Endpoint{n.ID + x.separator + p.Node, p.Port}
	}
	return ends, true
}

func (x *expander) noPort(e Edge, n *Node, side, port string, ports map[string][]Endpoint) {
	x.f.Add(x.portStage, x.portCode, n.ID,
		fmt.Sprintf("%s: %s: the %s has no %s %q%s", n.Label(), e.Label(), x.kind, side, port, x.f.Suggest(port, slices.Sorted(maps.Keys(ports)))),
		map[string]any{"side": side, "port": port})
}

func (x *expander) tooLarge(what string) {
	x.f.Add(x.stage, finding.CodeTooLarge, "", fmt.Sprintf("the graph has too many %s once its %ss are expanded", what, x.kind), nil)
}

// uniqueIDs reports ids that became equal by expansion.
func (x *expander) uniqueIDs(b Board) {
	seen := map[string]*Node{}
	origin := func(n *Node) string {
		if n.home == "" {
			return "a node of the graph"
		}
		return fmt.Sprintf("%q in %q", n.local, n.home)
	}
	for _, n := range b.Nodes {
		if other, ok := seen[n.ID]; ok {
			x.f.Add(x.stage, finding.CodeDuplicateID, n.ID, fmt.Sprintf("node %q comes twice of expanding: %s and %s; rename one", n.ID, origin(other), origin(n)), nil)
			continue
		}
		seen[n.ID] = n
	}
}

// roots lists the nodes that no other node of the board feeds.
func (b Board) roots() []string {
	fed := map[string]bool{}
	for _, e := range b.Edges {
		if !e.Trigger && e.Source != e.Target {
			fed[e.Target] = true
		}
	}
	var roots []string
	for _, n := range b.Nodes {
		if !fed[n.ID] {
			roots = append(roots, n.ID)
		}
	}
	return roots
}

// ByID gives the nodes by id.
func (b Board) ByID() map[string]*Node {
	byID := make(map[string]*Node, len(b.Nodes))
	for _, n := range b.Nodes {
		byID[n.ID] = n
	}
	return byID
}

// Duplicates lists each id that several nodes have, once.
func (b Board) Duplicates() []string {
	count := map[string]int{}
	var twice []string
	for _, n := range b.Nodes {
		if count[n.ID]++; count[n.ID] == 2 {
			twice = append(twice, n.ID)
		}
	}
	return twice
}

// Firsts leaves out nodes whose id came before.
func (b Board) Firsts() Board {
	seen := map[string]bool{}
	nodes := make([]*Node, 0, len(b.Nodes))
	for _, n := range b.Nodes {
		if !seen[n.ID] {
			seen[n.ID] = true
			nodes = append(nodes, n)
		}
	}
	return Board{Nodes: nodes, Edges: b.Edges}
}
