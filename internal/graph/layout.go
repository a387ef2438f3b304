package graph

import (
	"fmt"
	"slices"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/graph/finding"
	"cdui/internal/graph/flat"
)

// layout is a board with what the catalogue says about its nodes.
type layout struct {
	flat.Board
	byID map[string]*flat.Node
	// types holds the nodes whose type is known; instances that were not
	// expanded are not in it.
	types map[string]*resolved
	// before and after list, by id, the nodes that data edges come from and
	// lead to.
	before, after map[string][]string
	presets       flat.Presets
	warnings      []finding.Finding
}

// resolved is a node's definition with the ports that its params give it.
type resolved struct {
	definition      catalog.Definition
	inputs, outputs []catalog.Port
}

func layOut(b flat.Board, presets flat.Presets) *layout {
	l := &layout{
		Board: b, presets: presets, byID: b.ByID(), types: map[string]*resolved{},
		before: map[string][]string{}, after: map[string][]string{},
	}
	warned := map[string]bool{}
	for _, n := range b.Nodes {
		if n.IsContainer() {
			continue
		}
		d, candidates, ok := presets.Cat.Node(n.Type)
		if !ok {
			continue
		}
		if len(candidates) > 0 && !warned[n.Type] {
			warned[n.Type] = true
			l.warnings = append(l.warnings, finding.Finding{
				Code: finding.CodeAmbiguousType, NodeID: n.ID,
				Message: fmt.Sprintf("%s: several plugins have this type (%s); %s is taken", n.Label(), strings.Join(candidates, ", "), d.NodeName),
				Params:  map[string]any{"candidates": candidates},
			})
		}
		t := &resolved{definition: d}
		t.inputs, t.outputs = portsOf(d, n.Params)
		l.types[n.ID] = t
	}
	for _, e := range b.Edges {
		if !e.Trigger {
			l.before[e.Target] = append(l.before[e.Target], e.Source)
			l.after[e.Source] = append(l.after[e.Source], e.Target)
		}
	}
	return l
}

func end(node, port string) flat.Endpoint { return flat.Endpoint{Node: node, Port: port} }

func findPort(ports []catalog.Port, name string) (catalog.Port, bool) {
	i := slices.IndexFunc(ports, func(p catalog.Port) bool { return p.Name == name })
	if i < 0 {
		return catalog.Port{}, false
	}
	return ports[i], true
}

func portNames(ports []catalog.Port) []string {
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = p.Name
	}
	return names
}

func unknownPort(f *finding.List, n *flat.Node, e flat.Edge, side, port string, ports []catalog.Port) string {
	text := fmt.Sprintf("%s: %s: there is no %s %q", n.Label(), e.Label(), side, port)
	if hint := f.Suggest(port, portNames(ports)); hint != "" {
		return text + hint
	}
	if len(ports) == 0 {
		return text + "; it has none"
	}
	return text + "; it has " + strings.Join(portNames(ports), ", ")
}
