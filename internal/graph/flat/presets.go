package flat

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/graph/finding"
)

// Presets finds presets by name: the file's own first, even those that
// can't be read, then the installed ones.
type Presets struct {
	own map[string]embedded
	Cat *catalog.Catalog
}

// Presets gives those of the file before those of the catalogue.
func (d *Document) Presets(cat *catalog.Catalog) Presets {
	return Presets{own: d.presets, Cat: cat}
}

// Find gives a preset; ok is false where there is none of that name.
func (s Presets) Find(name string) (p catalog.Preset, ok bool, err error) {
	if e, own := s.own[name]; own {
		return e.preset, true, e.err
	}
	p, ok = s.Cat.Preset(name)
	return p, ok, nil
}

// Suggest ends a message about an unknown preset.
func (s Presets) Suggest(name string, f *finding.List) string {
	return f.Suggest(name, append(s.Cat.PresetNames(), slices.Sorted(maps.Keys(s.own))...))
}

// ExpandPresets replaces preset instances. Instances of unknown presets stay
// as they are. It says false where it has reported something.
func ExpandPresets(b Board, source Presets, f *finding.List) (Board, bool) {
	n := nesting{done: map[string]extent{}, children: func(name string) (int, []string) {
		p, ok, err := source.Find(name)
		if !ok || err != nil {
			return 1, nil
		}
		plain := 0
		var inner []string
		for _, x := range p.Nodes {
			if name, ok := strings.CutPrefix(x.Type, PresetPrefix); ok {
				inner = append(inner, name)
			} else {
				plain++
			}
		}
		return plain, inner
	}}
	if n.refuses(b, "preset", (*Node).PresetName, finding.StageTypes, f) {
		return b, false
	}
	templates := map[string]*template{}
	x := expander{kind: "preset", separator: "__", portStage: finding.StagePorts, portCode: finding.CodePresetPort, stage: finding.StageTypes, f: f}
	x.lookup = func(n *Node) *template {
		name, ok := n.PresetName()
		if !ok {
			return nil
		}
		t, ok := templates[name]
		if !ok {
			t = presetTemplate(n, name, source, f)
			templates[name] = t
		}
		return t
	}
	return x.expand(b)
}

func presetTemplate(n *Node, name string, source Presets, f *finding.List) *template {
	p, ok, err := source.Find(name)
	if !ok {
		return nil
	}
	about := map[string]any{"preset": name}
	if err != nil {
		f.Add(finding.StageTypes, finding.CodeUnreadablePreset, n.ID, fmt.Sprintf("%s: the preset that the graph brings along can't be read: %s", n.Label(), finding.Short(err.Error())), about)
		return nil
	}
	t := &template{inputs: exposed(p.ExposedInputs), outputs: exposed(p.ExposedOutputs)}
	for _, x := range p.Nodes {
		if x.Type == TypeNote {
			continue
		}
		if strings.HasPrefix(x.Type, SubgraphPrefix) {
			f.Add(finding.StagePresetSubgraphs, finding.CodePresetSubgraph, n.ID, fmt.Sprintf("%s: the preset holds the subgraph instance %q; subgraphs belong to one file, so a preset can't hold one", n.Label(), x.ID), about)
			return nil
		}
		t.Nodes = append(t.Nodes, &Node{ID: x.ID, local: x.ID, Type: x.Type, Params: x.Params, Internal: x.InternalParams})
	}
	for _, twice := range t.Duplicates() {
		f.Add(finding.StageTypes, finding.CodeDuplicateID, n.ID, fmt.Sprintf("%s: the preset has two nodes %q", n.Label(), twice), about)
	}
	notes := map[string]bool{}
	for _, x := range p.Nodes {
		notes[x.ID] = notes[x.ID] || x.Type == TypeNote
	}
	for _, e := range p.Edges {
		if notes[e.Source] || notes[e.Target] {
			continue
		}
		t.Edges = append(t.Edges, Edge{
			Source: e.Source, SourceHandle: e.SourceHandle,
			Target: e.Target, TargetHandle: e.TargetHandle, Trigger: e.Type == "trigger",
		})
	}
	t.Board = t.Firsts()
	t.starts = t.roots()
	return t
}

func exposed(ports []catalog.ExposedPort) map[string][]Endpoint {
	m := map[string][]Endpoint{}
	for _, p := range ports {
		end := Endpoint{p.InternalNode, p.InternalPort}
		if !slices.Contains(m[p.Name], end) {
			m[p.Name] = append(m[p.Name], end)
		}
	}
	return m
}
