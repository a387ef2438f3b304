package graph

import (
	"fmt"

	"cdui/internal/catalog"
	"cdui/internal/graph/finding"
	"cdui/internal/graph/flat"
)

// maxBypassSteps bounds the search through muted nodes, which only a graph
// made for that purpose exceeds.
const maxBypassSteps = 1_000_000

// bypass takes the muted nodes out of a board: what is wired to one goes on to
// what feeds it, by the first input of a fitting type.
type bypass struct {
	layout *layout
	f      *finding.List
	// into is the edge that counts for an input: the last one.
	into map[flat.Endpoint]flat.Edge
	// known are results of follow.
	known map[flat.Endpoint]passage
	steps int
}

// passage is where a muted node's output comes from; ok is false where it
// comes from nowhere.
type passage struct {
	from flat.Endpoint
	ok   bool
	// reported says that the reason is a finding already.
	reported bool
}

// resolveBypass gives the board without its muted nodes, and for each input
// that lost its edge by that the muted node to blame, "" where a finding says
// so already.
func resolveBypass(l *layout, f *finding.List) (flat.Board, map[flat.Endpoint]string) {
	b := bypass{layout: l, f: f, into: map[flat.Endpoint]flat.Edge{}, known: map[flat.Endpoint]passage{}}
	muted := false
	for _, n := range l.Nodes {
		muted = muted || n.Bypassed
	}
	if !muted {
		return l.Board, nil
	}
	for _, e := range l.Edges {
		if !e.Trigger {
			b.into[end(e.Target, e.TargetHandle)] = e
		}
	}
	var out flat.Board
	for _, n := range l.Nodes {
		if !n.Bypassed {
			out.Nodes = append(out.Nodes, n)
		}
	}
	lost := map[flat.Endpoint]string{}
	for _, e := range l.Edges {
		switch {
		case b.muted(e.Target) && e.Trigger && !b.muted(e.Source):
			out.Edges = append(out.Edges, b.triggers(e)...)
		case b.muted(e.Target), e.Trigger && b.muted(e.Source):
		case b.muted(e.Source):
			p := b.follow(e)
			if !p.ok {
				lost[end(e.Target, e.TargetHandle)] = e.Source
				if p.reported {
					lost[end(e.Target, e.TargetHandle)] = ""
				}
				continue
			}
			e.Source, e.SourceHandle = p.from.Node, p.from.Port
			out.Edges = append(out.Edges, e)
		default:
			out.Edges = append(out.Edges, e)
		}
	}
	return out, lost
}

func (b *bypass) muted(id string) bool {
	n := b.layout.byID[id]
	return n != nil && n.Bypassed
}

// follow goes from the output that e starts at back to one of a node that is
// not muted. Chains collapse; a ring leads nowhere.
func (b *bypass) follow(e flat.Edge) passage {
	at := end(e.Source, e.SourceHandle)
	var path []flat.Endpoint
	onPath := map[flat.Endpoint]bool{}
	result := passage{}
	for {
		if known, ok := b.known[at]; ok {
			result = known
			break
		}
		if !b.muted(at.Node) {
			result = passage{from: at, ok: true}
			break
		}
		if onPath[at] {
			break
		}
		onPath[at] = true
		path = append(path, at)
		before := b.f.Len()
		next, ok := b.forward(e, at)
		if !ok {
			result.reported = b.f.Len() > before
			break
		}
		at = next
	}
	for _, p := range path {
		b.known[p] = result
	}
	return result
}

// forward gives what feeds a muted node's output.
func (b *bypass) forward(e flat.Edge, at flat.Endpoint) (flat.Endpoint, bool) {
	n, t := b.layout.byID[at.Node], b.layout.types[at.Node]
	if t == nil {
		reportUnknown(n, b.layout, b.f)
		return flat.Endpoint{}, false
	}
	out, ok := findPort(t.outputs, at.Port)
	if !ok {
		b.f.Add(finding.StagePorts, finding.CodeUnknownOutput, n.ID, unknownPort(b.f, n, e, "output", at.Port, t.outputs), map[string]any{"port": at.Port})
		return flat.Endpoint{}, false
	}
	for _, in := range t.inputs {
		if in.DataType != catalog.PortTrigger && compatible(in.DataType, out.DataType) {
			fed, ok := b.into[end(n.ID, in.Name)]
			return end(fed.Source, fed.SourceHandle), ok
		}
	}
	b.f.Add(finding.StageBypass, finding.CodeBypassNoInput, n.ID,
		fmt.Sprintf("%s: it can't be bypassed: no input can stand in for its output %q (%s)", n.Label(), out.Name, out.DataType),
		map[string]any{"port": out.Name, "data_type": out.DataType})
	return flat.Endpoint{}, false
}

// triggers moves a trigger into a muted node to the first nodes after it that
// are not muted.
func (b *bypass) triggers(e flat.Edge) []flat.Edge {
	var moved []flat.Edge
	seen := map[string]bool{e.Target: true}
	for queue := []string{e.Target}; len(queue) > 0; queue = queue[1:] {
		for _, next := range b.layout.after[queue[0]] {
			if b.steps++; b.steps > maxBypassSteps {
				if b.steps == maxBypassSteps+1 {
					b.f.Add(finding.StageBypass, finding.CodeTooLarge, "", "too many triggers lead through too many bypassed nodes", nil)
				}
				return moved
			}
			if seen[next] {
				continue
			}
			seen[next] = true
			if b.muted(next) {
				queue = append(queue, next)
			} else {
				moved = append(moved, flat.Edge{ID: e.ID, Source: e.Source, SourceHandle: e.SourceHandle, Target: next, Trigger: true})
			}
		}
	}
	return moved
}
