package flat

import (
	"cdui/internal/catalog"
	"cdui/internal/graph/finding"
)

// Socket is a port of a preset and the inner port that it stands for.
type Socket struct {
	Name string `json:"name"`
	Node string `json:"node"`
	Port string `json:"port"`
}

// Function is a preset that stands by itself, to be called with values for its
// inputs.
type Function struct {
	Board
	Inputs, Outputs []Socket
}

// The ends of the edges that stand for a preset's own ports. No node of a file
// is called so by accident, and if one were it would only be in its own way.
const (
	outsideIn  = "\x00in"
	outsideOut = "\x00out"
)

// OpenPreset expands an installed preset by itself. Its ports take part as
// edges, so that they end up at nodes that are executed.
func OpenPreset(p catalog.Preset, cat *catalog.Catalog, f *finding.List) (Function, bool) {
	before := f.Len()
	source := Presets{Cat: cat}
	t := presetTemplate(&Node{ID: p.Name, Type: PresetPrefix + p.Name}, p.Name, source, f)
	if t == nil {
		return Function{}, false
	}
	b := t.Board
	for _, x := range p.ExposedInputs {
		b.Edges = append(b.Edges, Edge{Source: outsideIn, SourceHandle: x.Name, Target: x.InternalNode, TargetHandle: x.InternalPort})
	}
	for _, x := range p.ExposedOutputs {
		b.Edges = append(b.Edges, Edge{Source: x.InternalNode, SourceHandle: x.InternalPort, Target: outsideOut, TargetHandle: x.Name})
	}
	b, _ = ExpandPresets(b, source, f)
	if f.Len() > before {
		return Function{}, false
	}
	out := Function{Board: Board{Nodes: b.Nodes}, Inputs: []Socket{}, Outputs: []Socket{}}
	for _, e := range b.Edges {
		switch {
		case e.Source == outsideIn:
			out.Inputs = append(out.Inputs, Socket{e.SourceHandle, e.Target, e.TargetHandle})
		case e.Target == outsideOut:
			out.Outputs = append(out.Outputs, Socket{e.TargetHandle, e.Source, e.SourceHandle})
		default:
			out.Edges = append(out.Edges, e)
		}
	}
	return out, true
}
