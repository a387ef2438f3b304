package noun

import (
	"context"

	"github.com/spf13/cobra"

	"cdui/internal/cli/env"
)

// Answer is a command that asks for, or changes, one thing and is answered by
// one document T.
type Answer[T any] struct {
	Ask func(ctx context.Context, args []string) (T, error)
	// ID is what -q prints, nothing where it is empty, and IDs what help calls
	// that; without ID there is no -q.
	ID  func(answer T) string
	IDs string
	// Show prints the answer for people.
	Show func(answer T) error
}

// On makes a command ask.
func (a Answer[T]) On(e *env.Env, cmd *cobra.Command) *cobra.Command {
	var asJSON, quiet bool
	env.JSONFlag(cmd.Flags(), &asJSON, "print one JSON document", env.One[T]())
	if a.ID != nil {
		cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print "+a.IDs+" alone")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asJSON && quiet {
			return errBoth()
		}
		answer, err := a.Ask(cmd.Context(), args)
		switch {
		case err != nil:
			return err
		case asJSON:
			return e.JSON(answer)
		case quiet:
			if id := a.ID(answer); id != "" {
				e.Print("%s", id)
			}
			return nil
		}
		return a.Show(answer)
	}
	return cmd
}

func errBoth() error { return env.Usagef("--json and --quiet can't be given together") }
