// Package edit changes params of a graph file by their address, as `--set`
// does: node.param=value, or presetInstance.inner.param=value. It knows from
// the catalogue what a param may be, and leaves the rest of the file alone.
package edit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/graph/flat"
	"cdui/internal/graph/tree"
)

// Set applies assignments in their order; a later one of the same address
// wins. The first that can't be applied is the error.
func Set(raw json.RawMessage, cat *catalog.Catalog, assignments []string) (json.RawMessage, error) {
	if len(assignments) == 0 {
		return raw, nil
	}
	file, err := tree.Parse(raw)
	if err != nil {
		return nil, err
	}
	e := editor{file: file, cat: cat}
	for _, a := range assignments {
		address, value, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("set %q: write node.param=value", a)
		}
		if err := e.set(address, value); err != nil {
			return nil, fmt.Errorf("set %s: %w", address, err)
		}
	}
	return tree.Bytes(file)
}

type editor struct {
	file tree.Object
	cat  *catalog.Catalog
}

func (e editor) set(address, text string) error {
	n, rest, err := e.node(address)
	if err != nil {
		return err
	}
	nodeType := tree.Text(n, "type")
	data := tree.Make(n, "data")
	into := func() tree.Object { return tree.Make(data, "params") }
	if name, ok := strings.CutPrefix(nodeType, flat.PresetPrefix); ok {
		inner, err := e.presetNodes(name)
		if err != nil {
			return err
		}
		id, param, ok := splitInner(rest, inner)
		if !ok {
			id, _, _ = strings.Cut(rest, ".")
			return fmt.Errorf("node %q is a preset instance; it has no inner node %q%s", tree.Text(n, "id"), id, choices(id, slices.Sorted(maps.Keys(inner))))
		}
		nodeType, rest = inner[id], param
		into = func() tree.Object { return tree.Make(tree.Make(data, "internalParams"), id) }
	}
	if strings.HasPrefix(nodeType, flat.PresetPrefix) {
		return fmt.Errorf("%s is a preset inside a preset, whose params can't be set from outside", nodeType)
	}
	if strings.HasPrefix(nodeType, flat.SubgraphPrefix) {
		return fmt.Errorf("node %q is an instance of a subgraph, which has no params of its own; change the subgraph in the file", tree.Text(n, "id"))
	}
	d, _, ok := e.cat.Node(nodeType)
	if !ok {
		return fmt.Errorf("there is no node type %q%s", nodeType, choices(nodeType, e.cat.NodeNames()))
	}
	p, ok := d.Param(rest)
	if !ok {
		return fmt.Errorf("%s has no param %q%s", d.NodeName, rest, choices(rest, d.ParamNames()))
	}
	v, err := Coerce(p, text)
	if err != nil {
		return err
	}
	into()[p.Name] = v
	return nil
}

// node finds the node that an address begins with. Ids may hold dots, so the
// longest id that fits is meant.
func (e editor) node(address string) (n tree.Object, rest string, err error) {
	var ids []string
	best, times := "", 0
	for _, x := range tree.List(e.file, "nodes") {
		o, ok := x.(tree.Object)
		if !ok || tree.Text(o, "type") == flat.TypeNote {
			continue
		}
		id := tree.Text(o, "id")
		ids = append(ids, id)
		after, ok := strings.CutPrefix(address, id+".")
		switch {
		case !ok || id == "" || len(id) < len(best):
		case id == best:
			times++
		default:
			n, rest, best, times = o, after, id, 1
		}
	}
	if times > 1 {
		return nil, "", fmt.Errorf("several nodes have the id %q", best)
	}
	if n == nil {
		id, _, dotted := strings.Cut(address, ".")
		if !dotted {
			return nil, "", fmt.Errorf("write node.param=value")
		}
		return nil, "", fmt.Errorf("there is no node %q%s", id, choices(id, ids))
	}
	return n, rest, nil
}

// presetNodes gives the types of a preset's nodes by id. The file's own preset
// of a name goes before an installed one.
func (e editor) presetNodes(name string) (map[string]string, error) {
	types := map[string]string{}
	for _, x := range tree.List(e.file, "presets") {
		p, ok := x.(tree.Object)
		if !ok || tree.Text(p, "preset_name") != name {
			continue
		}
		for _, n := range tree.List(p, "nodes") {
			if n, ok := n.(tree.Object); ok {
				types[tree.Text(n, "id")] = tree.Text(n, "type")
			}
		}
		return types, nil
	}
	p, ok := e.cat.Preset(name)
	if !ok {
		return nil, fmt.Errorf("there is no preset %q%s", name, choices(name, e.cat.PresetNames()))
	}
	for _, n := range p.Nodes {
		types[n.ID] = n.Type
	}
	return types, nil
}

func splitInner(rest string, inner map[string]string) (id, param string, ok bool) {
	for candidate := range inner {
		if after, fits := strings.CutPrefix(rest, candidate+"."); fits && len(candidate) >= len(id) {
			id, param, ok = candidate, after, true
		}
	}
	return id, param, ok
}

// choices ends a message with what was likely meant, else with what there is.
func choices(word string, candidates []string) string {
	if near := catalog.Nearest(word, candidates); near != "" && near != word {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	if len(candidates) == 0 {
		return "; it has none"
	}
	const limit = 12
	if len(candidates) > limit {
		return ""
	}
	return "; there are " + strings.Join(candidates, ", ")
}
