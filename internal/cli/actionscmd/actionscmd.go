// Package actionscmd is `cdui actions`: who changed what, when and from where.
package actionscmd

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/run"
)

// Deps is what the command is given beside its surroundings.
type Deps struct {
	Client func() *client.Client
}

// page is how many actions one request asks for.
const page = 1000

// New makes `cdui actions`.
func New(e *env.Env, d Deps) *cobra.Command {
	count := 0
	list := &noun.List{
		Flags: func(f *pflag.FlagSet) { f.IntVarP(&count, "number", "n", 50, "how many to show") },
		Check: func([]string) error {
			if count < 1 {
				return env.Usagef("-n is how many actions to show, 1 or more, not %d", count)
			}
			return nil
		},
		Documents: []env.Document{env.One(api.ActionList{})},
		Fetch: func(ctx context.Context) (noun.Page, error) {
			l, err := read(ctx, d.Client(), count)
			page := noun.Page{Document: l}
			for _, x := range l.Actions {
				page.Add(strconv.FormatInt(x.Seq, 10), cells(e, x)...)
			}
			return page, err
		},
		IDs:   "their numbers",
		Empty: "nobody has changed anything yet",
		Columns: []text.Column{
			{Title: "WHEN"}, {Title: "USER"}, {Title: "FROM"}, {Title: "DID"}, {Title: "WHAT", Flex: true, Min: 12}, {Title: "DETAIL", Flex: true, Min: 8},
		},
	}
	return list.On(e, &cobra.Command{
		Use:   "actions",
		Short: "Show who changed what, when and from where",
		Long: `Show the log of actions, newest first: every change that was asked for and made, the
name of the token it was made with ("local" is the control plane's own), and the
address that it came from. The last 100,000 are kept.`,
		Example: `  cdui actions
  cdui actions -n 500 --json | jq '.actions[] | select(.user=="ada")'`,
		Args: env.Args(0, 0, ""),
	})
}

func cells(_ *env.Env, a api.Action) []text.Cell {
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
	return text.Text(a.TS.Local().Format("2006-01-02 15:04:05"), phrase.Clean(user), phrase.Clean(a.From), a.Verb, phrase.Clean(what), phrase.Clean(a.Detail))
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
