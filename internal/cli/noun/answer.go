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
	c := asker{
		document: env.One(*new(T)), ids: a.IDs,
		ask:  func(ctx context.Context, args []string) (any, error) { return a.Ask(ctx, args) },
		show: func(answer any) error { return a.Show(answer.(T)) }, //nolint:forcetypeassert // it is what ask gave
	}
	if a.ID != nil {
		c.id = func(answer any) string { return a.ID(answer.(T)) } //nolint:forcetypeassert // it is what ask gave
	}
	return c.on(e, cmd)
}

// asker is an Answer without its types, as lister is of a List.
type asker struct {
	document env.Document
	ask      func(ctx context.Context, args []string) (any, error)
	id       func(answer any) string
	ids      string
	show     func(answer any) error
}

func (a asker) on(e *env.Env, cmd *cobra.Command) *cobra.Command {
	var asJSON, quiet bool
	env.JSONFlag(cmd.Flags(), &asJSON, "print one JSON document", a.document)
	if a.id != nil {
		cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print "+a.ids+" alone")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asJSON && quiet {
			return errBoth()
		}
		answer, err := a.ask(cmd.Context(), args)
		switch {
		case err != nil:
			return err
		case asJSON:
			return e.JSON(answer)
		case quiet:
			if id := a.id(answer); id != "" {
				e.Print("%s", id)
			}
			return nil
		}
		return a.show(answer)
	}
	return cmd
}

func errBoth() error { return env.Usagef("--json and --quiet can't be given together") }
