package runscmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/cli/watch"
	"cdui/internal/client"
	"cdui/internal/client/live"
	"cdui/internal/run"
)

// ListOptions is what a list is asked.
type ListOptions struct {
	Statuses []string
	Active   bool
	Tag      string
	Limit    int
	Offset   int
	JSON     bool
	Quiet    bool
	Watch    bool
}

func (o *ListOptions) flags(f *pflag.FlagSet) {
	f.StringSliceVarP(&o.Statuses, "status", "s", nil, "only runs in this status; may be repeated")
	f.BoolVarP(&o.Active, "active", "a", false, "only runs that wait or execute")
	f.StringVar(&o.Tag, "tag", "", "only runs with this tag")
	f.IntVarP(&o.Limit, "limit", "n", 30, "how many, 1 to 500")
	f.IntVar(&o.Offset, "offset", 0, "how many of the newest to skip")
	f.BoolVar(&o.JSON, "json", false, "print one JSON document")
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print ids alone")
	f.BoolVarP(&o.Watch, "watch", "w", false, "go on, and show the list again when it changed")
}

// NewList makes `cdui runs ls`.
func NewList(e *env.Env, d Deps, runF func(context.Context, *ListOptions) error) *cobra.Command {
	o := &ListOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *ListOptions) error { return List(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List runs, newest first",
		Example: `  cdui ls
  cdui ls --status failed --tag nightly
  cdui ls --watch --active
  cdui ls -a -q | xargs cdui cancel`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runF(cmd.Context(), o) },
	}
	o.flags(cmd.Flags())
	return cmd
}

// filter checks the options and makes a filter of them.
func (o *ListOptions) filter() (client.ListFilter, error) {
	f := client.ListFilter{Tag: o.Tag, Limit: o.Limit, Offset: o.Offset}
	if o.Limit < 1 || o.Limit > 500 {
		return f, env.Usagef("--limit must be 1 to 500, not %d", o.Limit)
	}
	if o.Offset < 0 {
		return f, env.Usagef("--offset must be 0 or more, not %d", o.Offset)
	}
	for _, s := range o.Statuses {
		status := run.Status(strings.ToLower(s))
		if !status.Valid() {
			return f, env.Usagef("--status %q is unknown; use %s", s, statusList())
		}
		f.Statuses = append(f.Statuses, status)
	}
	if o.Active {
		if len(f.Statuses) > 0 {
			return f, env.Usagef("--active and --status can't be given together")
		}
		f.Statuses = active()
	}
	return f, nil
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

// List prints runs.
func List(ctx context.Context, e *env.Env, d Deps, o *ListOptions) error {
	filter, err := o.filter()
	if err != nil {
		return err
	}
	if o.Watch {
		return watch.Watch(ctx, e, watch.Dial(d.Client()), func(w io.Writer, b *live.Board) error {
			return o.write(e, w, only(b, filter))
		})
	}
	list, err := d.Client().Runs(ctx, filter)
	if err != nil {
		return err
	}
	return o.write(e, e.Out, list)
}

// write prints a list.
func (o *ListOptions) write(e *env.Env, w io.Writer, list api.RunList) error {
	switch {
	case o.JSON:
		return e.WriteJSON(w, list)
	case o.Quiet:
		for _, r := range list.Runs {
			fmt.Fprintln(w, r.ID)
		}
		return nil
	case len(list.Runs) == 0:
		if e.OutTTY {
			e.Say("no runs%s", emptyHint(o))
		}
		return nil
	}
	if err := table(e, list.Runs).Write(w, e.Style()); err != nil {
		return err
	}
	if e.OutTTY && len(list.Runs) < list.Total {
		more := fmt.Sprintf("%s of %s", text.Count(len(list.Runs)), text.Plural(list.Total, "run"))
		if o.Watch {
			_, err := fmt.Fprintln(w, more)
			return err
		}
		e.Say("%s", more)
	}
	return nil
}

// only gives the runs of the feed that a filter lets through.
func only(b *live.Board, f client.ListFilter) api.RunList {
	list := api.RunList{Runs: []api.Run{}, Limit: f.Limit, Offset: f.Offset}
	for _, r := range b.Runs() {
		if len(f.Statuses) > 0 && !slices.Contains(f.Statuses, r.Status) || f.Tag != "" && !slices.Contains(r.Options.Tags, f.Tag) {
			continue
		}
		if list.Total++; list.Total > f.Offset && len(list.Runs) < f.Limit {
			list.Runs = append(list.Runs, r)
		}
	}
	if len(f.Statuses) == 0 && f.Tag == "" {
		list.Total = max(list.Total, b.Counts().Runs)
	}
	return list
}

func emptyHint(o *ListOptions) string {
	if len(o.Statuses) > 0 || o.Tag != "" || o.Active || o.Offset > 0 {
		return " like that"
	}
	return " yet; start one with: cdui run train.py"
}

func table(e *env.Env, runs []api.Run) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{},
		{Title: "RUN"},
		{Title: "NAME", Flex: true, Min: 10},
		{Title: "WHERE", Drop: 2},
		{Title: "STATUS", Drop: 1},
		{Title: "RESULT", Flex: true, Min: 16, Drop: 3},
		{Title: "AGE", Right: true},
	}}
	style, now := e.Style(), e.Now()
	for _, r := range runs {
		held := phrase.Held(r)
		status := string(r.Status)
		if held {
			status = "held"
		}
		t.Add(
			text.Cell{Text: style.Mark(r.Status, held), Colour: text.MarkColour(r.Status, held)},
			text.Cell{Text: run.Short(r.ID)},
			text.Cell{Text: phrase.Title(r.Row)},
			text.Cell{Text: phrase.Where(r.Row)},
			text.Cell{Text: status},
			text.Cell{Text: phrase.Result(r, now)},
			text.Cell{Text: text.Age(now.Sub(r.CreatedAt))},
		)
	}
	return t
}
