package offer

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/catalog"
	"cdui/internal/cli/graphfile"
	"cdui/internal/cli/phrase"
	"cdui/internal/client"
	"cdui/internal/graph/flat"
)

// params offers node.param= of the graph file that the command line names, and
// after the = what the param may be.
func (o *Offers) params() cobra.CompletionFunc {
	ask := o.asked(func(ctx context.Context, c *client.Client, _ *cobra.Command, args []string, prefix string) ([]cobra.Completion, error) {
		file := ""
		for _, a := range args {
			if strings.EqualFold(filepath.Ext(a), ".json") {
				file = a
			}
		}
		if file == "" {
			return nil, nil
		}
		raw, err := graphfile.Read(o.env.Abs(file), file)
		if err != nil {
			return nil, err
		}
		nodes, err := c.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		presets, err := c.Presets(ctx)
		if err != nil {
			return nil, err
		}
		cat, _ := catalog.New(nodes, presets)
		return addresses(raw, cat, prefix), nil
	})
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		out, directive := ask(cmd, args, prefix)
		if !strings.Contains(prefix, "=") {
			directive |= cobra.ShellCompDirectiveNoSpace // the value follows
		}
		return out, directive
	}
}

// node is what is read of a node of a graph file.
type node struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// addresses are the params of a graph, as --set has them.
func addresses(raw json.RawMessage, cat *catalog.Catalog, prefix string) []cobra.Completion {
	var file struct {
		Nodes   []node `json:"nodes"`
		Presets []struct {
			Name  string `json:"preset_name"`
			Nodes []node `json:"nodes"`
		} `json:"presets"`
	}
	if json.Unmarshal(raw, &file) != nil {
		return nil
	}
	inner := func(name string) []node {
		for _, p := range file.Presets {
			if p.Name == name {
				return p.Nodes
			}
		}
		p, _ := cat.Preset(name)
		out := make([]node, 0, len(p.Nodes))
		for _, n := range p.Nodes {
			out = append(out, node{n.ID, n.Type})
		}
		return out
	}
	var out []cobra.Completion
	add := func(id, nodeType string) {
		d, _, ok := cat.Node(nodeType)
		if !ok {
			return
		}
		for _, p := range d.Params {
			address := id + "." + p.Name + "="
			if !strings.HasPrefix(prefix, address) {
				out = append(out, cobra.CompletionWithDesc(address, phrase.Clean(p.Description)))
				continue
			}
			values := p.Options
			if p.ParamType == catalog.ParamBool {
				values = []string{"true", "false"}
			}
			for _, v := range values {
				out = append(out, address+v)
			}
		}
	}
	for _, n := range file.Nodes {
		name, preset := strings.CutPrefix(n.Type, flat.PresetPrefix)
		if !preset {
			add(n.ID, n.Type)
			continue
		}
		for _, in := range inner(name) {
			add(n.ID+"."+in.ID, in.Type)
		}
	}
	return out
}
