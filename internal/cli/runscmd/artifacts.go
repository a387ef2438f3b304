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
	list := &noun.List[api.Artifacts, api.Artifact]{
		Flags: func(f *pflag.FlagSet) { f.StringVar(&kind, "kind", "", "only files of this kind") },
		Check: func(args []string) error {
			id = args[0]
			return nil
		},
		Fetch: func(ctx context.Context) (api.Artifacts, error) { return d.Client().Artifacts(ctx, id, kind) },
		Rows:  func(l api.Artifacts) []api.Artifact { return l.Artifacts },
		ID:    func(a api.Artifact) string { return a.Path }, IDs: "paths",
		Empty: "no files; a script names them with cdui.artifact(path)",
		Columns: []text.Column{
			{Title: "KIND"},
			{Title: "PATH", Flex: true, Min: 12},
			{Title: "NODE", Drop: 2},
			{Title: "META", Flex: true, Min: 8, Drop: 3},
			{Title: "AGE", Right: true, Drop: 1},
		},
		Cells: func(e *env.Env, a api.Artifact) []text.Cell {
			meta := phrase.Clean(text.Compact(a.Meta))
			if meta == "null" || meta == "{}" {
				meta = ""
			}
			return text.Text(phrase.Clean(a.Kind), phrase.Clean(a.Path), phrase.Clean(a.NodeID), meta, text.Age(e.Now().Sub(a.CreatedAt)))
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

func sortedNames(m map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(m)) }
