package runscmd

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

type artifactsOptions struct {
	Run   string
	Kind  string
	JSON  bool
	Quiet bool
}

func newArtifacts(e *env.Env, d Deps) *cobra.Command {
	o := &artifactsOptions{}
	cmd := &cobra.Command{
		Use:   "artifacts RUN",
		Short: "List the files that a run produced",
		Example: `  cdui runs artifacts 3f1c9a
  cdui runs artifacts 3f1c9a --kind checkpoint -q`,
		Args:              env.Args(1, 1, "one run"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Run = args[0]
			return artifacts(cmd.Context(), e, d, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Kind, "kind", "", "only files of this kind")
	f.BoolVar(&o.JSON, "json", false, "print one JSON document")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print paths alone")
	return cmd
}

func artifacts(ctx context.Context, e *env.Env, d Deps, o *artifactsOptions) error {
	list, err := d.Client().Artifacts(ctx, o.Run, o.Kind)
	if err != nil {
		return err
	}
	switch {
	case o.JSON:
		return e.JSON(list)
	case o.Quiet:
		for _, a := range list.Artifacts {
			e.Print("%s", a.Path)
		}
		return nil
	case len(list.Artifacts) == 0:
		if e.OutTTY {
			e.Say("no files; a script names them with cdui.artifact(path)")
		}
		return nil
	}
	t := &text.Table{Columns: []text.Column{
		{Title: "KIND"},
		{Title: "PATH", Flex: true, Min: 12},
		{Title: "NODE", Drop: 2},
		{Title: "META", Flex: true, Min: 8, Drop: 3},
		{Title: "AGE", Right: true, Drop: 1},
	}}
	now := e.Now()
	for _, a := range list.Artifacts {
		meta := phrase.Clean(text.Compact(a.Meta))
		if meta == "null" || meta == "{}" {
			meta = ""
		}
		t.Add(text.Text(phrase.Clean(a.Kind), phrase.Clean(a.Path), phrase.Clean(a.NodeID), meta, text.Age(now.Sub(a.CreatedAt)))...)
	}
	return t.Write(e.Out, e.Style())
}

func sortedNames(m map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(m)) }
