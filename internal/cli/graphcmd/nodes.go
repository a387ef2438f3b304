package graphcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/cli/env"
	"cdui/internal/cli/graphfile"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
)

// ListOptions is what `cdui nodes` and `cdui presets` are asked.
type ListOptions struct {
	Name     string
	Category string
	JSON     bool
	Quiet    bool
}

// NewNodes makes `cdui nodes`. runF replaces the run in tests.
func NewNodes(e *env.Env, d Deps, runF func(context.Context, *ListOptions) error) *cobra.Command {
	if runF == nil {
		runF = func(ctx context.Context, o *ListOptions) error { return Nodes(ctx, e, d, o) }
	}
	cmd := list(runF, "one node type")
	cmd.Use = "nodes [NAME]"
	cmd.Short = "List node types, or show one"
	cmd.Long = `List the node types that graphs are made of, by category. With a name: its ports,
and its params with their defaults and what they may be.`
	cmd.Example = `  cdui nodes
  cdui nodes --category Training
  cdui nodes TrainingLoop`
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		nodes, err := d.Client().Nodes(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completions(nodes, nodeName, func(n catalog.Definition) string { return n.Description }), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// list makes what the two commands share.
func list(runF func(context.Context, *ListOptions) error, what string) *cobra.Command {
	o := &ListOptions{}
	cmd := &cobra.Command{
		Args: env.Args(0, 1, what),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Name = args[0]
			}
			if o.Name != "" && o.Category != "" {
				return env.Usagef("--category means nothing with a name")
			}
			if o.JSON && o.Quiet {
				return env.Usagef("--json and --quiet can't be given together")
			}
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Category, "category", "c", "", "only those of this category")
	f.BoolVar(&o.JSON, "json", false, "print one JSON document")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print names alone")
	return cmd
}

func completions[T any](items []T, name, about func(T) string) []cobra.Completion {
	out := make([]cobra.Completion, len(items))
	for i, item := range items {
		out[i] = cobra.CompletionWithDesc(name(item), phrase.Clean(about(item)))
	}
	return out
}

func nodeName(d catalog.Definition) string     { return d.NodeName }
func nodeCategory(d catalog.Definition) string { return d.Category }

// Nodes prints node types.
func Nodes(ctx context.Context, e *env.Env, d Deps, o *ListOptions) error {
	return d.ask(ctx, e, func(ctx context.Context, src graphfile.Source) error {
		nodes, err := src.Nodes(ctx)
		if err != nil {
			return err
		}
		if o.Name != "" {
			node, err := pick(nodes, nodeName, o.Name, "node type")
			switch {
			case err != nil:
				return err
			case o.JSON:
				return e.JSON(node)
			case o.Quiet:
				e.Print("%s", node.NodeName)
				return nil
			}
			return showNode(e, node)
		}
		if nodes, err = within(nodes, nodeCategory, o.Category); err != nil {
			return err
		}
		switch {
		case o.JSON:
			return e.JSON(nodes)
		case o.Quiet:
			return names(e, nodes, nodeName)
		}
		t := &text.Table{Columns: []text.Column{
			{Title: "CATEGORY"}, {Title: "NODE"}, {Title: "WHAT IT DOES", Flex: true, Min: 16},
		}}
		last := ""
		for _, n := range byCategory(nodes, nodeCategory, nodeName) {
			category := ""
			if n.Category != last {
				category, last = n.Category, n.Category
			}
			t.Add(text.Cell{Text: phrase.Clean(category), Colour: text.Grey}, text.Cell{Text: phrase.Clean(n.NodeName)},
				text.Cell{Text: phrase.Clean(n.Description)})
		}
		return t.Write(e.Out, e.Style())
	})
}

func names[T any](e *env.Env, items []T, name func(T) string) error {
	for _, item := range items {
		e.Print("%s", name(item))
	}
	return nil
}

func byCategory[T any](items []T, category, name func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(items), func(a, b T) int {
		return cmp.Or(cmp.Compare(category(a), category(b)), cmp.Compare(name(a), name(b)))
	})
}

// pick finds what a name means: exactly, else whatever the case is.
func pick[T any](items []T, name func(T) string, wanted, what string) (T, error) {
	known := make([]string, len(items))
	for i, item := range items {
		if known[i] = name(item); known[i] == wanted {
			return item, nil
		}
	}
	for _, item := range items {
		if strings.EqualFold(name(item), wanted) {
			return item, nil
		}
	}
	message := fmt.Sprintf("no %s is called %q", what, wanted)
	if near := catalog.Nearest(wanted, known); near != "" {
		message += ". Did you mean " + near + "?"
	}
	var none T
	return none, api.Errorf(api.NotFound, "%s", message)
}

// within keeps one category, whatever its case is.
func within[T any](items []T, category func(T) string, wanted string) ([]T, error) {
	if wanted == "" {
		return items, nil
	}
	var kept []T
	var known []string
	for _, item := range items {
		if strings.EqualFold(category(item), wanted) {
			kept = append(kept, item)
		}
		known = append(known, category(item))
	}
	if len(kept) == 0 {
		slices.Sort(known)
		return nil, env.Usagef("no category is called %q. Known: %s", wanted, strings.Join(slices.Compact(known), ", "))
	}
	return kept, nil
}
