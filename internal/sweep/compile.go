package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cdui/internal/catalog"
	"cdui/internal/graph/flat"
	"cdui/internal/graph/tree"
	"cdui/internal/run"
)

// Plan is a spec with everything decided.
type Plan struct {
	Method string `json:"method"`
	Seed   *int64 `json:"seed"`
	// Total counts all combinations; a random sweep tries some of them.
	Total    int       `json:"total_combinations"`
	Params   []Domain  `json:"params"`
	Variants []Variant `json:"variants"`
}

// Domain is the values that one param takes.
type Domain struct {
	Address
	Values []json.RawMessage `json:"domain"`
}

// Variant is one combination. DomainIndex is its rank among all of them.
type Variant struct {
	Index       int               `json:"index"`
	DomainIndex int               `json:"domain_index"`
	Values      []json.RawMessage `json:"values"`
}

// Compile decides what a spec means for a base. Its errors name the param at
// fault; nothing is cut down to fit a limit.
func Compile(spec Spec, base Base, cat *catalog.Catalog, limits Limits) (Plan, error) {
	plan := Plan{Method: spec.Method, Seed: spec.Seed, Total: 1}
	if err := spec.check(limits); err != nil {
		return Plan{}, err
	}
	nodes, err := nodesOf(base)
	if err != nil {
		return Plan{}, err
	}
	seen := map[Address]bool{}
	sizes := make([]int, len(spec.Params))
	for i, p := range spec.Params {
		at := func(err error) error { return fmt.Errorf("params[%d] (%s): %w", i, p.Label(), err) }
		k, err := p.kind(base, nodes, cat)
		if err != nil {
			return Plan{}, at(err)
		}
		if seen[p.Address] {
			return Plan{}, at(errors.New("is swept twice"))
		}
		seen[p.Address] = true
		values, err := k.domain(p, limits.Domain)
		if err != nil {
			return Plan{}, at(err)
		}
		plan.Params = append(plan.Params, Domain{Address: p.Address, Values: values})
		sizes[i] = len(values)
		plan.Total *= len(values)
	}
	cells, err := spec.cells(plan.Total, limits.Runs)
	if err != nil {
		return Plan{}, err
	}
	for i, cell := range cells {
		v := Variant{Index: i, DomainIndex: cell, Values: make([]json.RawMessage, len(sizes))}
		for j, which := range decode(cell, sizes) {
			v.Values[j] = plan.Params[j].Values[which]
		}
		plan.Variants = append(plan.Variants, v)
	}
	return plan, nil
}

func (s Spec) check(limits Limits) error {
	switch n := len(s.Params); {
	case n == 0:
		return errors.New("params: nothing is swept; name a param and its values")
	case n > limits.Params:
		return fmt.Errorf("params: %d are swept, the limit is %d (setting MAX_SWEEP_PARAMS)", n, limits.Params)
	case s.Seed != nil && (*s.Seed < 0 || *s.Seed > run.MaxSeed):
		return fmt.Errorf("seed: must be 0 to %d", run.MaxSeed)
	}
	switch s.Method {
	case Grid:
		if s.Samples != nil {
			return errors.New("samples: a grid tries every combination; leave it out, or use the method random")
		}
	case Random:
		if s.Samples == nil || s.Seed == nil {
			return errors.New("method random needs samples and seed")
		}
		if *s.Samples < 1 {
			return fmt.Errorf("samples: is %d; draw 1 or more", *s.Samples)
		}
	default:
		return fmt.Errorf("method: is %q; use %s or %s", s.Method, Grid, Random)
	}
	return nil
}

// cells lists the ranks of the combinations to try.
func (s Spec) cells(total, most int) ([]int, error) {
	n := total
	if s.Method == Random {
		n = *s.Samples
	}
	switch {
	case n > most:
		return nil, fmt.Errorf("%d runs, the limit is %d (setting MAX_SWEEP_RUNS)", n, most)
	case n > total:
		return nil, fmt.Errorf("samples: %d are to be drawn from %d combinations", n, total)
	case s.Method == Random:
		return draw(*s.Seed, n, total), nil
	}
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out, nil
}

// node is one node of a base graph.
type node struct {
	nodeType string
	times    int
}

// nodesOf lists the nodes of a base graph by id; nil for a program.
func nodesOf(base Base) (map[string]node, error) {
	switch {
	case base.Script != nil || base.Command != nil:
		return nil, nil
	case len(base.Graph) == 0:
		return nil, errors.New("no base: give base_graph, or options.script or options.command")
	}
	file, err := tree.Parse(base.Graph)
	if err != nil {
		return nil, fmt.Errorf("base_graph: %w", err)
	}
	out := map[string]node{}
	for _, x := range tree.List(file, "nodes") {
		if o, ok := x.(tree.Object); ok && tree.Text(o, "type") != flat.TypeNote {
			id := tree.Text(o, "id")
			out[id] = node{tree.Text(o, "type"), out[id].times + 1}
		}
	}
	return out, nil
}

// kind finds what a param takes, or why it can't be swept.
func (p Param) kind(base Base, nodes map[string]node, cat *catalog.Catalog) (kind, error) {
	program := base.Script != nil || base.Command != nil
	switch {
	case p.Arg != "" && (p.NodeID != "" || p.Param != ""):
		return kind{}, errors.New("give either a node and its param, or an arg")
	case p.Arg != "" && !program:
		return kind{}, errors.New("a graph has no arguments; name a node and its param")
	case p.Arg != "":
		return kind{}, checkArg(p.Arg)
	case program:
		return kind{}, errors.New("a script or command has no nodes; name an arg, such as --lr")
	case p.NodeID == "" || p.Param == "":
		return kind{}, errors.New("name a node and its param, or an arg")
	}
	n, ok := nodes[p.NodeID]
	switch {
	case !ok:
		return kind{}, fmt.Errorf("there is no node %q%s", p.NodeID, meant(p.NodeID, keys(nodes)))
	case n.times > 1:
		return kind{}, fmt.Errorf("%d nodes have the id %q", n.times, p.NodeID)
	case strings.HasPrefix(n.nodeType, flat.PresetPrefix):
		return kind{}, errors.New("is an instance of a preset, whose params can't be swept; take it apart in the editor")
	case strings.HasPrefix(n.nodeType, flat.SubgraphPrefix):
		return kind{}, errors.New("is an instance of a subgraph, which has no params of its own")
	}
	d, _, ok := cat.Node(n.nodeType)
	if !ok {
		return kind{}, fmt.Errorf("there is no node type %q%s", n.nodeType, meant(n.nodeType, cat.NodeNames()))
	}
	found, ok := d.Param(p.Param)
	if !ok {
		return kind{}, fmt.Errorf("%s has no param %q%s", d.NodeName, p.Param, meant(p.Param, d.ParamNames()))
	}
	return kindOf(found)
}

func checkArg(arg string) error {
	if strings.ContainsAny(arg, "= \t\n\x00") {
		return errors.New("an arg is a name without value, such as --lr")
	}
	return nil
}

func keys(nodes map[string]node) []string {
	out := make([]string, 0, len(nodes))
	for id := range nodes {
		out = append(out, id)
	}
	return out
}

func meant(word string, candidates []string) string {
	if near := catalog.Nearest(word, sorted(candidates)); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}
