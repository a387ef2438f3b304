package graphcmd

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/catalog"
	"cdui/internal/cli/env"
	"cdui/internal/cli/graphfile"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

// NewPresets makes `cdui presets`.
func NewPresets(e *env.Env, d Deps) *cobra.Command {
	list := &noun.List{
		Columns: []text.Column{
			{Title: "PRESET"},
			{Title: "CATEGORY", Drop: 1},
			{Title: "NODES", Right: true, Drop: 2},
			{Title: "WHAT IT DOES", Flex: true, Wrap: true, Min: 16},
		},
	}
	rows := func(page *noun.Page, all []catalog.Preset) {
		for _, p := range all {
			page.Add(p.Name, text.Text(phrase.Clean(p.Name), phrase.Clean(p.Category), text.Count(len(p.Nodes)), phrase.Clean(p.Description))...)
		}
	}
	return types[catalog.Preset]{
		what: "preset", name: presetName, category: presetCategory, rows: rows, show: showPreset, fetch: graphfile.Source.Presets,
		about: func(p catalog.Preset) string { return p.Description },
	}.on(e, d, list, &cobra.Command{
		Use:   "presets [NAME]",
		Short: "List presets, or show one",
		Long: `List the installed presets, pieces of graph that are used as one node. With a name:
its ports, and its nodes with their params, which a run sets by
instance.node.param.`,
		Example: `  cdui presets
  cdui presets "Training Pipeline"
  cdui run train.json --set train-pipeline.train_loop.epochs=5`,
	})
}

func presetName(p catalog.Preset) string     { return p.Name }
func presetCategory(p catalog.Preset) string { return p.Category }

// showPreset prints all of a preset.
func showPreset(e *env.Env, p catalog.Preset) error {
	style := e.Style()
	e.Print("%s  %s", style.Paint(text.Bold, phrase.Clean(p.Name)), style.Paint(text.Grey, phrase.Clean(p.Category)))
	for _, line := range text.Wrap(phrase.Clean(p.Description), style.Width) {
		e.Print("%s", line)
	}
	for _, side := range []struct {
		title string
		ports []catalog.ExposedPort
	}{{"inputs", p.ExposedInputs}, {"outputs", p.ExposedOutputs}} {
		list := make([]catalog.Port, len(side.ports))
		for i, x := range side.ports {
			list[i] = catalog.Port{Name: x.Name, DataType: x.DataType, Description: strings.TrimSuffix(x.InternalNode+"."+x.InternalPort+": "+x.Description, ": ")}
		}
		if err := ports(e, side.title, list); err != nil {
			return err
		}
	}
	e.Print("\n%s", style.Paint(text.Grey, "nodes"))
	t := &text.Table{NoTitles: true, Columns: []text.Column{{}, {}, {}, {Flex: true, Wrap: true, Min: 16}}}
	for _, n := range p.Nodes {
		var params []string
		for _, name := range slices.Sorted(maps.Keys(n.Params)) {
			params = append(params, name+"="+style.Crop(value(n.Params[name]), 28))
		}
		t.Add(text.Text("", phrase.Clean(n.ID), phrase.Clean(n.Type), phrase.Clean(strings.Join(params, "  ")))...)
	}
	return t.Write(e.Out, style)
}
