package flat

import (
	"fmt"
	"slices"
	"strings"

	"cdui/internal/graph/finding"
)

// What expansion may make of a graph. A few nested definitions can stand for
// more nodes than a machine holds, so sizes are known before anything grows.
const (
	maxDepth   = 10
	maxNodes   = 100_000
	maxEdges   = 1_000_000
	maxIDBytes = 64 << 20
)

// extent is how much a definition stands for once it is expanded.
type extent struct{ nodes, depth int }

// nesting measures definitions that contain each other.
type nesting struct {
	// children gives the number of a definition's own plain nodes and the
	// definitions that its other nodes stand for.
	children func(name string) (plain int, inner []string)
	done     map[string]extent
	open     []string
	cycle    []string
}

// measure gives the extent of a definition. A recursion that it meets for the
// first time is left in cycle.
func (n *nesting) measure(name string) extent {
	if e, ok := n.done[name]; ok {
		return e
	}
	if at := slices.Index(n.open, name); at >= 0 {
		if n.cycle == nil {
			n.cycle = append(slices.Clone(n.open[at:]), name)
		}
		return extent{}
	}
	if len(n.open) > 10*maxDepth {
		return extent{depth: 1}
	}
	n.open = append(n.open, name)
	plain, inner := n.children(name)
	e := extent{nodes: plain}
	for _, child := range inner {
		c := n.measure(child)
		e.nodes = min(e.nodes+c.nodes, maxNodes+1)
		e.depth = max(e.depth, c.depth)
	}
	e.depth++
	n.open = n.open[:len(n.open)-1]
	n.done[name] = e
	return e
}

// refuses checks what the instances on a board stand for and reports those
// that can't be expanded.
func (n *nesting) refuses(b Board, kind string, nameOf func(*Node) (string, bool), s finding.Stage, f *finding.List) bool {
	before := f.Len()
	total := 0
	for _, x := range b.Nodes {
		name, ok := nameOf(x)
		if !ok {
			total++
			continue
		}
		e := n.measure(name)
		total = min(total+e.nodes, maxNodes+1)
		switch {
		case n.cycle != nil:
			path := strings.Join(n.cycle, " → ")
			f.Add(s, finding.CodeRecursion, x.ID, fmt.Sprintf("%s: %s contains itself: %s", x.Label(), kind, path), map[string]any{"path": n.cycle})
			n.cycle = nil
		case e.depth > maxDepth:
			f.Add(s, finding.CodeTooDeep, x.ID, fmt.Sprintf("%s: %ss are nested more than %d deep", x.Label(), kind, maxDepth), map[string]any{"max_depth": maxDepth})
		}
	}
	if total > maxNodes && f.Len() == before {
		f.Add(s, finding.CodeTooLarge, "", fmt.Sprintf("the graph has more than %d nodes once its %ss are expanded", maxNodes, kind), map[string]any{"max_nodes": maxNodes})
	}
	return f.Len() > before
}
