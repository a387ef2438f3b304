package noun

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/cli/env"
)

// Remove is a command that forgets what lists show, by name.
type Remove struct {
	// Noun is "a token", and Of the command that lists them.
	Noun, Of string
	// Done is what is said of each: "revoked".
	Done   string
	Forget func(ctx context.Context, name string) error
}

// On makes a command forget.
func (r Remove) On(e *env.Env, cmd *cobra.Command) *cobra.Command {
	var asJSON, quiet bool
	env.JSONFlag(cmd.Flags(), &asJSON, "print their names as one JSON document", env.One(env.Removed{}))
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print their names alone")
	cmd.Args = env.Args(1, -1, "one or more names")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			// An empty name would reach another route.
			if strings.TrimSpace(name) == "" {
				return env.Usagef("the name of %s is empty; %s -q lists them", r.Noun, r.Of)
			}
		}
		for _, name := range args {
			if err := r.Forget(cmd.Context(), name); err != nil {
				return err
			}
			switch {
			case asJSON:
			case quiet:
				e.Print("%s", name)
			default:
				e.Print("%s %s", r.Done, name)
			}
		}
		if asJSON {
			return e.JSON(env.Removed{Removed: args})
		}
		return nil
	}
	return cmd
}
