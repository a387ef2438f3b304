package graphcmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/catalog"
	"cdui/internal/cli/env"
	"cdui/internal/cli/graphfile"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

// NewPresets makes `cdui presets`. runF replaces the run in tests.
func NewPresets(e *env.Env, d Deps, runF func(context.Context, *ListOptions) error) *cobra.Command {
	if runF == nil {
		runF = func(ctx context.Context, o *ListOptions) error { return Presets(ctx, e, d, o) }
	}
	cmd := list(runF, "one preset")
	cmd.Use = "presets [NAME]"
	cmd.Short = "List presets, or show one"
	cmd.Long = `List the installed presets, pieces of graph that are used as one node. With a name:
its ports, and its nodes with their params, which a run sets by
instance.node.param.`
	cmd.Example = `  cdui presets
  cdui presets "Training Pipeline"
  cdui run train.json --set train-pipeline.train_loop.epochs=5`
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		presets, err := d.Client().Presets(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completions(presets, presetName, func(p catalog.Preset) string { return p.Description }), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func presetName(p catalog.Preset) string     { return p.Name }
func presetCategory(p catalog.Preset) string { return p.Category }

// Presets prints presets.
func Presets(ctx context.Context, e *env.Env, d Deps, o *ListOptions) error {
	return d.ask(ctx, e, func(ctx context.Context, src graphfile.Source) error {
		presets, err := src.Presets(ctx)
		if err != nil {
			return err
		}
		if o.Name != "" {
			preset, err := pick(presets, presetName, o.Name, "preset")
			switch {
			case err != nil:
				return err
			case o.JSON:
				return e.JSON(preset)
			case o.Quiet:
				e.Print("%s", preset.Name)
				return nil
			}
			return showPreset(e, preset)
		}
		if presets, err = within(presets, presetCategory, o.Category); err != nil {
			return err
		}
		switch {
		case o.JSON:
			return e.JSON(presets)
		case o.Quiet:
			return names(e, presets, presetName)
		}
		t := &text.Table{Columns: []text.Column{
			{Title: "PRESET"},
			{Title: "CATEGORY", Drop: 1},
			{Title: "NODES", Right: true, Drop: 2},
			{Title: "WHAT IT DOES", Flex: true, Wrap: true, Min: 16},
		}}
		for _, p := range presets {
			t.Add(text.Text(phrase.Clean(p.Name), phrase.Clean(p.Category), text.Count(len(p.Nodes)), phrase.Clean(p.Description))...)
		}
		return t.Write(e.Out, e.Style())
	})
}

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
