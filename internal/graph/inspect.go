package graph

import (
	"encoding/json"
	"fmt"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/graph/finding"
	"cdui/internal/graph/flat"
)

// Report is what can be said of a graph without executing it.
type Report struct {
	// Findings are what keeps it from running.
	Findings []finding.Finding
	// Warnings are what it runs in spite of.
	Warnings []finding.Finding
	// Nodes are the nodes that stand in the file itself, without those in
	// subgraphs and presets, as far as it could be read.
	Nodes []Outline
}

// Outline is a node of the file.
type Outline struct {
	ID string
	// Type is resolved where the catalogue knows it.
	Type   string
	Params map[string]json.RawMessage
	// Runs says that something starts or uses it.
	Runs bool
}

// Validate gives all findings of a graph, those of one kind together and the
// kinds in a fixed order. What preset instances consist of is not checked
// here, Prepare does that.
func Validate(raw json.RawMessage, cat *catalog.Catalog) []finding.Finding {
	return Inspect(raw, cat).Findings
}

// Inspect gives the findings of Validate, and warnings and the outline.
func Inspect(raw json.RawMessage, cat *catalog.Catalog) Report {
	f := &finding.List{}
	s, ok := open(raw, cat, f)
	if !ok {
		return Report{Findings: f.Sorted()}
	}
	fromPresets := &finding.List{}
	expanded, ok := flat.ExpandPresets(s.flat, s.presets, fromPresets)
	if !ok {
		expanded = s.flat
	}
	f.Take(fromPresets, func(x finding.Stage) bool { return x != finding.StagePorts })
	whole := layOut(expanded, s.presets)
	check{layout: whole, f: f}.knownTypes()

	opaque := layOut(s.flat, s.presets)
	fromBypass := &finding.List{}
	bare, lost := resolveBypass(opaque, fromBypass)
	f.Take(fromBypass, func(x finding.Stage) bool { return x != finding.StageTypes })
	c := check{layout: layOut(bare, s.presets), f: f, lost: lost}
	c.inputs()
	c.ranges()
	c.wires()

	// What runs depends on what containers hold; what is to be said of the
	// rest has been said of the opaque ones.
	bare, _ = resolveBypass(whole, &finding.List{})
	live := layOut(bare, s.presets)
	runs := live.reached()
	if live.needsEntry(f) {
		_, rest := live.levels(runs)
		live.cycle(rest, f)
	}
	return Report{Findings: f.Sorted(), Warnings: append(s.warnings, whole.warnings...), Nodes: s.outline(runs)}
}

// opened is a graph whose subgraphs are expanded.
type opened struct {
	doc      *flat.Document
	flat     flat.Board
	presets  flat.Presets
	warnings []finding.Finding
}

// open reads a graph and does what Inspect and Prepare begin with. It says
// false where nothing more can be said.
func open(raw json.RawMessage, cat *catalog.Catalog, f *finding.List) (opened, bool) {
	doc, err := flat.Parse(raw)
	if err != nil {
		f.Add(finding.StageRead, finding.CodeUnreadable, "", "the graph can't be read: "+finding.Short(err.Error()), nil)
		return opened{}, false
	}
	for _, n := range doc.Nodes {
		if n.Type == TypeScript || n.Type == TypeCommand {
			checkProgram(raw, n, f)
			return opened{}, false
		}
	}
	s := opened{doc: doc, presets: doc.Presets(cat)}
	if doc.Version > flat.FormatVersion {
		s.warnings = append(s.warnings, finding.Finding{
			Code:    finding.CodeNewerFormat,
			Message: fmt.Sprintf("the graph has format_version %s; this version knows %d and ignores what is new", number(doc.Version), flat.FormatVersion),
			Params:  map[string]any{"format_version": doc.Version},
		})
	}
	flat.CheckBypassed(doc.Board, f)
	for _, id := range doc.Duplicates() {
		f.Add(finding.StageDuplicates, finding.CodeDuplicateID, id, fmt.Sprintf("several nodes have the id %q", id), nil)
	}
	s.flat = doc.InlineSubgraphs(doc.Firsts(), f)
	return s, true
}

// checkProgram reports what is wrong with a graph that is one program. Such a
// graph needs no catalogue.
func checkProgram(raw json.RawMessage, n *flat.Node, f *finding.List) {
	e, err := ParseEnvelope(raw)
	if err == nil {
		_, _, err = e.Program()
	}
	if err != nil {
		f.Add(finding.StageRead, finding.CodeProgram, n.ID, strings.TrimPrefix(err.Error(), ErrEnvelope.Error()+": "), nil)
	}
}

// needsEntry reports a graph that nothing starts.
func (l *layout) needsEntry(f *finding.List) bool {
	if len(l.entryPoints()) > 0 {
		return true
	}
	text := `nothing starts the graph: wire the trigger of a Start node to its first node, with an edge of type "trigger"`
	if len(l.Nodes) == 0 {
		text = "the graph has no nodes"
	}
	f.Add(finding.StageEntryPoints, finding.CodeNoEntryPoint, "", text, nil)
	return false
}

func (s opened) outline(runs map[string]bool) []Outline {
	var out []Outline
	for _, n := range s.doc.Firsts().Nodes {
		o := Outline{ID: n.ID, Type: n.Type, Params: n.Params, Runs: runs[n.ID]}
		if d, _, ok := s.presets.Cat.Node(n.Type); ok {
			o.Type = d.NodeName
		}
		out = append(out, o)
	}
	return out
}
