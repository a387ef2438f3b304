package runscmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/client/live"
	"cdui/internal/run"
)

// which says which runs a list has.
type which struct {
	noun.Part
	statuses  []string
	active    bool
	tag, user string

	filter client.ListFilter
}

func (o *which) flags(f *pflag.FlagSet) {
	f.StringSliceVarP(&o.statuses, "status", "s", nil, "only runs in this status; may be repeated")
	f.BoolVarP(&o.active, "active", "a", false, "only runs that wait or execute")
	f.StringVar(&o.tag, "tag", "", "only runs with this tag")
	f.StringVar(&o.user, "user", "", "only runs that were submitted with the token of this user")
	o.Flags(f)
}

// NewList makes `cdui runs ls`.
func NewList(e *env.Env, d Deps) *cobra.Command {
	return list(e, d).On(e, listCommand())
}

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List runs, newest first",
		Example: `  cdui ls
  cdui ls --status failed --tag nightly
  cdui ls --watch --active
  cdui ls -a -q | xargs cdui cancel`,
		Args: env.Args(0, 0, ""),
	}
}

func list(e *env.Env, d Deps) *noun.List {
	o := &which{}
	page := func(l api.RunList) noun.Page {
		p := noun.Page{Document: l}
		for _, r := range l.Runs {
			p.Add(r.ID, cells(e, r)...)
		}
		if len(l.Runs) < l.Total {
			p.More = fmt.Sprintf("%s of %s", text.Count(len(l.Runs)), text.Plural(l.Total, "run"))
		}
		return p
	}
	l := &noun.List{
		Flags:     o.flags,
		Documents: []env.Document{env.One(api.RunList{})},
		Fetch: func(ctx context.Context) (noun.Page, error) {
			l, err := d.Client().Runs(ctx, o.filter)
			return page(l), err
		},
		Live:   func(b *live.Board) noun.Page { return page(only(b, o.filter)) },
		Client: d.Client,
		IDs:    "ids",
		Columns: []text.Column{
			{},
			{Title: "RUN"},
			{Title: "NAME", Flex: true, Min: 10},
			{Title: "WHERE", Drop: 2},
			{Title: "STATUS", Drop: 1},
			{Title: "RESULT", Flex: true, Min: 16, Drop: 3},
			{Title: "AGE", Right: true},
		},
	}
	l.Check = func(args []string) error {
		l.Empty = "no runs yet; start one with: cdui run train.py"
		if len(o.statuses) > 0 || o.tag != "" || o.user != "" || o.active || o.Offset > 0 {
			l.Empty = "no runs like that"
		}
		if err := o.Check(args); err != nil {
			return err
		}
		return o.choose()
	}
	return l
}

// choose makes a filter of the flags.
func (o *which) choose() error {
	o.filter = client.ListFilter{Tag: o.tag, User: o.user, Limit: o.Limit, Offset: o.Offset}
	for _, s := range o.statuses {
		status := run.Status(strings.ToLower(s))
		if !status.Valid() {
			return env.Usagef("--status %q is unknown; use %s", s, statusList())
		}
		o.filter.Statuses = append(o.filter.Statuses, status)
	}
	if o.active {
		if len(o.statuses) > 0 {
			return env.Usagef("--active and --status can't be given together")
		}
		o.filter.Statuses = active()
	}
	return nil
}

func active() []run.Status {
	return slices.DeleteFunc(run.Statuses(), run.Status.Terminal)
}

func statusList() string {
	var names []string
	for _, s := range run.Statuses() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// only gives the runs of the feed that a filter lets through.
func only(b *live.Board, f client.ListFilter) api.RunList {
	list := api.RunList{Runs: []api.Run{}, Limit: f.Limit, Offset: f.Offset}
	for _, r := range b.Runs() {
		if len(f.Statuses) > 0 && !slices.Contains(f.Statuses, r.Status) || f.Tag != "" && !slices.Contains(r.Options.Tags, f.Tag) || f.User != "" && r.User != f.User {
			continue
		}
		if list.Total++; list.Total > f.Offset && len(list.Runs) < f.Limit {
			list.Runs = append(list.Runs, r)
		}
	}
	if len(f.Statuses) == 0 && f.Tag == "" && f.User == "" {
		list.Total = max(list.Total, b.Counts().Runs)
	}
	return list
}

func cells(e *env.Env, r api.Run) []text.Cell {
	style, now, held := e.Style(), e.Now(), phrase.Held(r)
	status := string(r.Status)
	if held {
		status = "held"
	}
	return []text.Cell{
		{Text: style.Mark(r.Status, held), Colour: text.MarkColour(r.Status, held)},
		{Text: run.Short(r.ID)},
		{Text: phrase.Title(r.Row)},
		{Text: phrase.Where(r.Row)},
		{Text: status},
		{Text: phrase.Result(r, now)},
		{Text: text.Age(now.Sub(r.CreatedAt))},
	}
}
