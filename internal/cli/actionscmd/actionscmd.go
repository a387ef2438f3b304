// Package actionscmd is `cdui actions`: who changed what, when and from where.
package actionscmd

import (
	"context"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/run"
)

// Deps is what the command is given beside its surroundings.
type Deps struct {
	Client func() *client.Client
}

type options struct {
	count int
	json  bool
}

// page is how many actions one request asks for.
const page = 1000

// New makes `cdui actions`.
func New(e *env.Env, d Deps) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "actions",
		Short: "Show who changed what, when and from where",
		Long: `Show the log of actions, newest first: every change that was asked for and made, the
name of the token it was made with ("local" is the control plane's own), and the
address that it came from. The last 100,000 are kept.`,
		Example: `  cdui actions
  cdui actions -n 500 --json | jq '.actions[] | select(.user=="ada")'`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return show(cmd.Context(), e, d, o) },
	}
	cmd.Flags().IntVarP(&o.count, "number", "n", 50, "how many to show")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON document")
	return cmd
}

func show(ctx context.Context, e *env.Env, d Deps, o *options) error {
	if o.count < 1 {
		return env.Usagef("-n is how many actions to show, 1 or more, not %d", o.count)
	}
	list, err := read(ctx, d.Client(), o.count)
	if err != nil {
		return err
	}
	switch {
	case o.json:
		return e.JSON(list)
	case len(list.Actions) == 0:
		if e.OutTTY {
			e.Say("nobody has changed anything yet")
		}
		return nil
	}
	t := &text.Table{Columns: []text.Column{
		{Title: "WHEN"}, {Title: "USER"}, {Title: "FROM"}, {Title: "DID"}, {Title: "WHAT", Flex: true, Min: 12}, {Title: "DETAIL", Flex: true, Min: 8},
	}}
	for _, a := range list.Actions {
		user, id := a.User, a.ID
		if user == "" {
			user = "-"
		}
		if run.ValidID(id) {
			id = run.Short(id)
		}
		what := a.Kind
		if id != "" {
			what += " " + id
		}
		t.Add(text.Text(a.TS.Local().Format("2006-01-02 15:04:05"), phrase.Clean(user), phrase.Clean(a.From), a.Verb, phrase.Clean(what), phrase.Clean(a.Detail))...)
	}
	return t.Write(e.Out, e.Style())
}

// read asks page by page until it has count actions or all.
func read(ctx context.Context, c *client.Client, count int) (api.ActionList, error) {
	all := api.ActionList{Actions: []api.Action{}}
	for before := int64(0); len(all.Actions) < count; {
		want := min(page, count-len(all.Actions))
		got, err := c.Actions(ctx, before, want)
		if err != nil {
			return all, err
		}
		all.Actions = append(all.Actions, got.Actions...)
		if len(got.Actions) < want {
			break
		}
		before = got.Actions[len(got.Actions)-1].Seq
	}
	return all, nil
}
