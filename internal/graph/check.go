package graph

import (
	"encoding/json"
	"fmt"
	"strconv"

	"cdui/internal/catalog"
	"cdui/internal/graph/finding"
	"cdui/internal/graph/flat"
)

// check is what the steps of validation share.
type check struct {
	*layout
	f *finding.List
	// runs limits the checks to these nodes; nil means all.
	runs map[string]bool
	// lost holds the inputs whose flat.Edge went with a muted node.
	lost map[flat.Endpoint]string
	// fed holds inputs that are fed from outside.
	fed map[flat.Endpoint]bool
}

func (c check) concerns(id string) bool { return c.runs == nil || c.runs[id] }

// knownTypes reports nodes of unknown types and instances of unknown presets.
func (c check) knownTypes() {
	for _, n := range c.Nodes {
		if c.concerns(n.ID) && c.types[n.ID] == nil {
			reportUnknown(n, c.layout, c.f)
		}
	}
}

func reportUnknown(n *flat.Node, l *layout, f *finding.List) {
	if name, ok := n.PresetName(); ok {
		if _, known, _ := l.presets.Find(name); !known {
			f.Add(finding.StageTypes, finding.CodeUnknownPreset, n.ID, fmt.Sprintf("%s: there is no preset %q%s", n.Label(), name, l.presets.Suggest(name, f)), map[string]any{"preset": name})
		}
		return
	}
	if _, ok := n.SubgraphID(); ok {
		return
	}
	f.Add(finding.StageTypes, finding.CodeUnknownType, n.ID, fmt.Sprintf("%s: there is no node type %q%s", n.Label(), n.Type, f.Suggest(n.Type, l.presets.Cat.NodeNames())), map[string]any{"type": n.Type})
}

// inputs reports required inputs without an edge.
func (c check) inputs() {
	fed := map[flat.Endpoint]bool{}
	for _, e := range c.Edges {
		if !e.Trigger {
			fed[end(e.Target, e.TargetHandle)] = true
		}
	}
	for _, n := range c.Nodes {
		t := c.types[n.ID]
		if t == nil || !c.concerns(n.ID) {
			continue
		}
		for _, p := range t.inputs {
			at := end(n.ID, p.Name)
			if p.Optional || fed[at] || c.fed[at] {
				continue
			}
			about := map[string]any{"port": p.Name, "data_type": p.DataType}
			if by, ok := c.lost[at]; ok {
				if by == "" {
					continue
				}
				about["bypassed"] = by
				c.f.Add(finding.StageInputs, finding.CodeMissingInputBypass, n.ID, fmt.Sprintf("%s: input %q has no edge, because %q is bypassed and nothing feeds it", n.Label(), p.Name, by), about)
				continue
			}
			c.f.Add(finding.StageInputs, finding.CodeMissingInput, n.ID, fmt.Sprintf("%s: input %q has no edge", n.Label(), p.Name), about)
		}
	}
}

// ranges reports params outside of what their definition allows. Only what the
// file gives is checked; the default is the node's own business.
func (c check) ranges() {
	for _, n := range c.Nodes {
		t := c.types[n.ID]
		if t == nil || !c.concerns(n.ID) {
			continue
		}
		for _, p := range t.definition.Params {
			given, ok := n.Params[p.Name]
			if !ok || p.MinValue == nil && p.MaxValue == nil || hidden(t.definition, p, n.Params) {
				continue
			}
			code, text, about := outOfRange(p, given)
			if code != "" {
				about["param"] = p.Name
				c.f.Add(finding.StageRanges, code, n.ID, fmt.Sprintf("%s: param %q %s", n.Label(), p.Name, text), about)
			}
		}
	}
}

func outOfRange(p catalog.Param, given json.RawMessage) (code, text string, about map[string]any) {
	var x float64
	switch string(given) {
	case "true":
		x = 1
	case "false":
	default:
		if err := json.Unmarshal(given, &x); err != nil || string(given) == "null" {
			return finding.CodeNotANumber, fmt.Sprintf("is %s, which is no number", finding.Short(string(given))), map[string]any{}
		}
	}
	switch {
	case p.MinValue != nil && x < *p.MinValue:
		return finding.CodeBelowMinimum, fmt.Sprintf("is %s, the least is %s", given, number(*p.MinValue)), map[string]any{"value": x, "min_value": *p.MinValue}
	case p.MaxValue != nil && x > *p.MaxValue:
		return finding.CodeAboveMaximum, fmt.Sprintf("is %s, the most is %s", given, number(*p.MaxValue)), map[string]any{"value": x, "max_value": *p.MaxValue}
	}
	return "", "", nil
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// wires reports edges to missing nodes, to unknown ports, and between ports
// that don't fit.
func (c check) wires() {
	for _, e := range c.Edges {
		source, target := c.byID[e.Source], c.byID[e.Target]
		if source == nil || target == nil {
			c.missingNode(e, source, target)
			continue
		}
		if e.Trigger || !c.concerns(source.ID) || !c.concerns(target.ID) {
			continue
		}
		from, to := c.types[source.ID], c.types[target.ID]
		var out, in catalog.Port
		okOut, okIn := false, false
		if from != nil {
			if out, okOut = findPort(from.outputs, e.SourceHandle); !okOut {
				c.f.Add(finding.StagePorts, finding.CodeUnknownOutput, source.ID, unknownPort(c.f, source, e, "output", e.SourceHandle, from.outputs), map[string]any{"port": e.SourceHandle})
			}
		}
		if to != nil {
			if in, okIn = findPort(to.inputs, e.TargetHandle); !okIn {
				c.f.Add(finding.StagePorts, finding.CodeUnknownInput, target.ID, unknownPort(c.f, target, e, "input", e.TargetHandle, to.inputs), map[string]any{"port": e.TargetHandle})
			}
		}
		if okOut && okIn && !compatible(out.DataType, in.DataType) {
			c.f.Add(finding.StageMismatches, finding.CodeTypeMismatch, target.ID,
				fmt.Sprintf("%s: output %q of %q is %s, input %q of %q wants %s", e.Label(), out.Name, source.ID, out.DataType, in.Name, target.ID, in.DataType),
				map[string]any{"source": source.ID, "source_port": out.Name, "source_type": out.DataType, "target_port": in.Name, "target_type": in.DataType})
		}
	}
}

func (c check) missingNode(e flat.Edge, source, target *flat.Node) {
	report := func(missing, side string, other *flat.Node) {
		id := ""
		if other != nil {
			if !c.concerns(other.ID) {
				return
			}
			id = other.ID
		} else if c.runs != nil {
			return
		}
		var ids []string
		if c.f.Hints() {
			for _, n := range c.Nodes {
				ids = append(ids, n.ID)
			}
		}
		c.f.Add(finding.StageMissingNodes, finding.CodeMissingNode, id, fmt.Sprintf("%s: its %s %q is not in the graph%s", e.Label(), side, missing, c.f.Suggest(missing, ids)), map[string]any{"missing": missing})
	}
	if source == nil {
		report(e.Source, "source", target)
	}
	if target == nil {
		report(e.Target, "target", source)
	}
}
