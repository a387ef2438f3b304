package flat

import (
	"fmt"
	"maps"
	"slices"

	"cdui/internal/graph/finding"
)

// InlineSubgraphs replaces subgraph instances. Where that fails it reports why
// and gives the board as it was, on which other checks can go on.
func (d *Document) InlineSubgraphs(b Board, f *finding.List) Board {
	n := nesting{done: map[string]extent{}, children: func(id string) (int, []string) {
		s := d.subgraphs[id]
		if s == nil {
			return 1, nil
		}
		plain := 0
		var inner []string
		for _, x := range s.Nodes {
			if id, ok := x.SubgraphID(); ok {
				inner = append(inner, id)
			} else {
				plain++
			}
		}
		return plain, inner
	}}
	if n.refuses(b, "subgraph", (*Node).SubgraphID, finding.StageSubgraphs, f) {
		return b
	}
	templates := map[string]*template{}
	x := expander{
		kind: "subgraph", separator: "/", block: true,
		portStage: finding.StageSubgraphs, portCode: finding.CodeSubgraphPort, stage: finding.StageSubgraphs, f: f,
	}
	x.lookup = func(n *Node) *template {
		id, ok := n.SubgraphID()
		if !ok {
			return nil
		}
		t, ok := templates[id]
		if !ok {
			t = d.subgraphTemplate(n, id, f)
			templates[id] = t
		}
		return t
	}
	if expanded, ok := x.expand(b); ok {
		return expanded
	}
	return b
}

func (d *Document) subgraphTemplate(n *Node, id string, f *finding.List) *template {
	refuse := func(code, format string, args ...any) {
		f.Add(finding.StageSubgraphs, code, n.ID, fmt.Sprintf("%s: ", n.Label())+fmt.Sprintf(format, args...), map[string]any{"subgraph": id})
	}
	s := d.subgraphs[id]
	switch {
	case id == "":
		refuse(finding.CodeUnknownSubgraph, "the type names no subgraph")
		return nil
	case s == nil:
		refuse(finding.CodeUnknownSubgraph, "there is no subgraph %q%s", id, f.Suggest(id, slices.Sorted(maps.Keys(d.subgraphs))))
		return nil
	case s.err != nil:
		refuse(finding.CodeUnreadableSubgraph, "the subgraph %q can't be read: %s", id, finding.Short(s.err.Error()))
		return nil
	}
	CheckBypassed(s.Board, f)
	for _, twice := range s.Duplicates() {
		refuse(finding.CodeDuplicateID, "the subgraph %q has two nodes %q", id, twice)
	}
	t := &template{Board: s.Firsts(), inputs: s.inputs, outputs: s.outputs, starts: s.starts()}
	ids := t.ByID()
	for _, target := range t.starts {
		if ids[target] == nil {
			refuse(finding.CodeTriggerTarget, "the subgraph %q is to start its node %q, which it doesn't have", id, target)
		}
	}
	return t
}

// starts lists what a trigger into the subgraph starts.
func (s *subgraph) starts() []string {
	if len(s.triggerTargets) == 0 {
		return s.roots()
	}
	targets := slices.Clone(s.triggerTargets)
	slices.Sort(targets)
	return slices.Compact(targets)
}

// CheckBypassed reports muted nodes that stand for others or for the ports of the
// graph, and unmutes them.
func CheckBypassed(b Board, f *finding.List) {
	for _, n := range b.Nodes {
		if n.Bypassed && (n.IsContainer() || n.Type == TypeGraphInput || n.Type == TypeGraphOutput) {
			f.Add(finding.StageBypassedContainers, finding.CodeBypassNotAllowed, n.ID, n.Label()+": it can't be bypassed; bypass or unwire the nodes after it", nil)
			n.Bypassed = false
		}
	}
}
