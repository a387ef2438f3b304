package graphcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/cli/env"
	"cdui/internal/cli/graphfile"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/sorting"
)

// NewNodes makes `cdui nodes`.
func NewNodes(e *env.Env, d Deps) *cobra.Command {
	list := &noun.List{Columns: []text.Column{{Title: "CATEGORY"}, {Title: "NODE"}, {Title: "WHAT IT DOES", Flex: true, Min: 16}}}
	rows := func(p *noun.Page, all []catalog.Definition) {
		last := ""
		for _, n := range byCategory(all, nodeCategory, nodeName) {
			category := ""
			if n.Category != last {
				category, last = n.Category, n.Category
			}
			p.Add(n.NodeName, text.Cell{Text: phrase.Clean(category), Colour: text.Grey}, text.Cell{Text: phrase.Clean(n.NodeName)}, text.Cell{Text: phrase.Clean(n.Description)})
		}
	}
	return types[catalog.Definition]{
		what: "node type", name: nodeName, category: nodeCategory, rows: rows, show: showNode, fetch: graphfile.Source.Nodes,
		about: func(n catalog.Definition) string { return n.Description },
	}.on(e, d, list, &cobra.Command{
		Use:   "nodes [NAME]",
		Short: "List node types, or show one",
		Long: `List the node types that graphs are made of, by category. With a name: its ports,
and its params with their defaults and what they may be.`,
		Example: `  cdui nodes
  cdui nodes --category Training
  cdui nodes TrainingLoop`,
	})
}

// types is a kind of thing in the catalogue.
type types[T any] struct {
	what           string
	name, category func(T) string
	about          func(T) string
	rows           func(*noun.Page, []T)
	show           func(*env.Env, T) error
	fetch          func(graphfile.Source, context.Context) ([]T, error)
}

// on makes a command list the things, or show the one that is named.
func (k types[T]) on(e *env.Env, d Deps, list *noun.List, cmd *cobra.Command) *cobra.Command {
	var category, name string
	list.Flags = func(f *pflag.FlagSet) {
		f.StringVarP(&category, "category", "c", "", "only those of this category")
	}
	list.Check = func(args []string) error {
		if name = strings.Join(args, ""); name != "" && category != "" {
			return env.Usagef("--category means nothing with a name")
		}
		return nil
	}
	list.Fetch = func(ctx context.Context) (page noun.Page, err error) {
		err = d.ask(ctx, e, func(ctx context.Context, src graphfile.Source) error {
			all, err := k.fetch(src, ctx)
			if err != nil {
				return err
			}
			if name != "" {
				one, err := pick(all, k.name, name, k.what)
				page = noun.Page{Document: one, Rows: []noun.Row{{ID: k.name(one)}}, Draw: func(io.Writer) error { return k.show(e, one) }}
				return err
			}
			all, err = within(all, k.category, category)
			page = noun.Page{Document: all}
			k.rows(&page, all)
			return err
		})
		return page, err
	}
	list.IDs, list.Empty = "names", "no "+k.what+"s"
	list.Documents = []env.Document{env.One([]T{}), env.One(*new(T)).If("with a name")}
	cmd.Args = env.Args(0, 1, "one "+k.what)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		all, err := k.fetch(d.Client(), ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completions(all, k.name, k.about), cobra.ShellCompDirectiveNoFileComp
	}
	return list.On(e, cmd)
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

func byCategory[T any](items []T, category, name func(T) string) []T {
	return sorting.Sorted(slices.Values(items), func(a, b T) int {
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
