// Package tokenscmd is `cdui tokens`: tokens for people and programs that use
// the control plane from elsewhere, each with a role and revocable by itself.
package tokenscmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
)

// Deps is what the commands are given beside their surroundings.
type Deps struct {
	Client func() *client.Client
}

type listOptions struct{ json, quiet bool }

func (o *listOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print one JSON document")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print names alone")
}

// New makes `cdui tokens`.
func New(e *env.Env, d Deps) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "List, add and revoke the tokens of users",
		Long: `List the tokens that people and programs use the control plane with from other
machines. Only their hashes are kept, so a token is shown once, when it is made.`,
		Example: `  cdui tokens add ada --role submit
  cdui tokens rm ada`,
		Args: env.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd.Context(), e, d, o) },
	}
	o.flags(cmd.Flags())
	cmd.AddCommand(newList(e, d), newAdd(e, d), newRemove(e, d))
	return cmd
}

func newList(e *env.Env, d Deps) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use: "ls", Short: "List the tokens of users", Example: "  cdui tokens ls",
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return list(cmd.Context(), e, d, o) },
	}
	o.flags(cmd.Flags())
	return cmd
}

func list(ctx context.Context, e *env.Env, d Deps, o *listOptions) error {
	reply, err := d.Client().Tokens(ctx)
	if err != nil {
		return err
	}
	switch {
	case o.json:
		return e.JSON(reply)
	case o.quiet:
		for _, t := range reply.Tokens {
			e.Print("%s", t.Name)
		}
		return nil
	case len(reply.Tokens) == 0:
		if e.OutTTY {
			e.Say("no tokens of users; make one with: cdui tokens add NAME --role submit")
		}
		return nil
	}
	t := &text.Table{Columns: []text.Column{{Title: "NAME", Flex: true, Min: 8}, {Title: "ROLE"}, {Title: "AGE", Right: true}, {Title: "USED"}}}
	now := e.Now()
	for _, k := range reply.Tokens {
		used := "never"
		if k.LastUsed != nil {
			if used = text.Age(now.Sub(*k.LastUsed)); used != "now" {
				used += " ago"
			}
		}
		t.Add(text.Text(phrase.Clean(k.Name), string(k.Role), text.Age(now.Sub(k.CreatedAt)), used)...)
	}
	return t.Write(e.Out, e.Style())
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "print name, role and token as one JSON document")
	return cmd
}

func newRemove(e *env.Env, d Deps) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rm NAME...",
		Short: "Revoke tokens of users",
		Example: `  cdui tokens rm ada
  cdui tokens ls -q | xargs cdui tokens rm`,
		Args: env.Args(1, -1, "one or more names"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := d.Client()
			for _, name := range args {
				if strings.TrimSpace(name) == "" {
					return env.Usagef("a token's name is empty; cdui tokens -q lists them")
				}
				if err := c.RemoveToken(cmd.Context(), name); err != nil {
					return err
				}
				if !asJSON {
					e.Print("revoked %s", name)
				}
			}
			if asJSON {
				return e.JSON(map[string][]string{"revoked": args})
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print their names as one JSON document")
	return cmd
}
