package runscmd

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

func newArtifacts(e *env.Env, d Deps) *cobra.Command {
	var id, kind string
	list := &noun.List{
		Flags: func(f *pflag.FlagSet) { f.StringVar(&kind, "kind", "", "only files of this kind") },
		Check: func(args []string) error {
			id = args[0]
			return nil
		},
		Documents: []env.Document{env.One(api.Artifacts{})},
		Fetch: func(ctx context.Context) (noun.Page, error) {
			l, err := d.Client().Artifacts(ctx, id, kind)
			page := noun.Page{Document: l}
			for _, x := range l.Artifacts {
				page.Add(x.Path, artifactCells(e, x)...)
			}
			return page, err
		},
		IDs:   "paths",
		Empty: "no files; a script names them with cdui.artifact(path)",
		Columns: []text.Column{
			{Title: "KIND"},
			{Title: "PATH", Flex: true, Min: 12},
			{Title: "NODE", Drop: 2},
			{Title: "META", Flex: true, Min: 8, Drop: 3},
			{Title: "AGE", Right: true, Drop: 1},
		},
	}
	return list.On(e, &cobra.Command{
		Use:   "artifacts RUN",
		Short: "List the files that a run produced",
		Example: `  cdui runs artifacts 3f1c9a
  cdui runs artifacts 3f1c9a --kind checkpoint -q`,
		Args:              env.Args(1, 1, "one run"),
		ValidArgsFunction: complete(d),
	})
}

func artifactCells(e *env.Env, a api.Artifact) []text.Cell {
	meta := phrase.Clean(text.Compact(a.Meta))
	if meta == "null" || meta == "{}" {
		meta = ""
	}
	return text.Text(phrase.Clean(a.Kind), phrase.Clean(a.Path), phrase.Clean(a.NodeID), meta, text.Age(e.Now().Sub(a.CreatedAt)))
}

func sortedNames(m map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(m)) }
