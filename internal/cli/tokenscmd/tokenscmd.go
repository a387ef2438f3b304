// Package tokenscmd is `cdui tokens`: tokens for people and programs that use
// the control plane from elsewhere, each with a role and revocable by itself.
package tokenscmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
)

// Deps is what the commands are given beside their surroundings.
type Deps struct {
	Client func() *client.Client
}

// New makes `cdui tokens`.
func New(e *env.Env, d Deps) *cobra.Command {
	rm := noun.Remove{Noun: "a token", Of: "cdui tokens", Done: "revoked", Forget: func(ctx context.Context, name string) error {
		return d.Client().RemoveToken(ctx, name)
	}}
	return noun.Group(e, func() *noun.List { return list(e, d) }, &cobra.Command{
		Use:   "tokens",
		Short: "List, add and revoke the tokens of users",
		Long: `List the tokens that people and programs use the control plane with from other
machines. Only their hashes are kept, so a token is shown once, when it is made.`,
		Example: `  cdui tokens add ada --role submit
  cdui tokens rm ada`,
	}, &cobra.Command{
		Short: "List the tokens of users", Example: "  cdui tokens ls",
	}, newAdd(e, d), rm.On(e, &cobra.Command{
		Use:   "rm NAME...",
		Short: "Revoke tokens of users",
		Example: `  cdui tokens rm ada
  cdui tokens ls -q | xargs cdui tokens rm`,
	}))
}

func list(e *env.Env, d Deps) *noun.List {
	return &noun.List{
		Documents: []env.Document{env.One(api.TokenList{})},
		Fetch: func(ctx context.Context) (noun.Page, error) {
			l, err := d.Client().Tokens(ctx)
			page := noun.Page{Document: l}
			for _, x := range l.Tokens {
				page.Add(x.Name, cells(e, x)...)
			}
			return page, err
		},
		IDs:     "names",
		Empty:   "no tokens of users; make one with: cdui tokens add NAME --role submit",
		Columns: []text.Column{{Title: "NAME", Flex: true, Min: 8}, {Title: "ROLE"}, {Title: "AGE", Right: true}, {Title: "USED"}},
	}
}

func cells(e *env.Env, t api.Token) []text.Cell {
	used, now := "never", e.Now()
	if t.LastUsed != nil {
		if used = text.Age(now.Sub(*t.LastUsed)); used != "now" {
			used += " ago"
		}
	}
	return text.Text(phrase.Clean(t.Name), string(t.Role), text.Age(now.Sub(t.CreatedAt)), used)
}

func newAdd(e *env.Env, d Deps) *cobra.Command {
	var role string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add NAME --role read|submit|admin",
		Short: "Make a token for a user, and show it this once",
		Long: `Make a token and print it. Whoever holds it may do what its role allows: read looks,
submit queues runs and changes them too, admin does everything.`,
		Example: `  cdui tokens add ada --role submit
  CDUI_TOKEN=$(cdui tokens add ci --role read) CDUI_SERVER=https://lab:8000 cdui ls`,
		Args: env.Args(1, 1, "a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.TrimSpace(args[0])
			if name == "" {
				return env.Usagef("a token needs a name, so that it can be told from others and revoked")
			}
			switch api.Role(role) {
			case api.RoleRead, api.RoleSubmit, api.RoleAdmin:
			case "":
				return env.Usagef("say what the token allows: --role read, submit or admin")
			default:
				return env.Usagef("--role is read, submit or admin, not %q", role)
			}
			reply, err := d.Client().AddToken(cmd.Context(), name, api.Role(role))
			if err != nil {
				return err
			}
			if asJSON {
				return e.JSON(reply)
			}
			e.Print("%s", reply.Token)
			if e.ErrTTY {
				e.Say("hand it over as CDUI_TOKEN, or in the token_file of a context; it is not shown again")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "what it allows: read, submit or admin")
	env.JSONFlag(cmd.Flags(), &asJSON, "print name, role and token as one JSON document", env.One(api.TokenReply{}))
	return cmd
}
