package workerscmd

import (
	"context"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/text"
	"cdui/internal/client"
)

func newDrain(e *env.Env, d Deps) *cobra.Command {
	return newChange(e, d, change{
		use: "drain WORKER...", short: "Keep new runs from workers; what runs there goes on",
		example: "  cdui workers drain box1\n  cdui workers drain box1 && cdui runs wait $(cdui ls -a -q)",
		do: func(ctx context.Context, c *client.Client, name string) (api.Worker, error) {
			return c.Drain(ctx, name)
		},
		said: func(w api.Worker) string {
			switch n := len(w.Runs); n {
			case 0:
				return w.Name + " takes no new runs; nothing runs there"
			case 1:
				return w.Name + " takes no new runs; 1 run there goes on"
			default:
				return w.Name + " takes no new runs; " + text.Count(n) + " runs there go on"
			}
		},
	})
}

func newUndrain(e *env.Env, d Deps) *cobra.Command {
	return newChange(e, d, change{
		use: "undrain WORKER...", short: "Let workers take runs again",
		example: "  cdui workers undrain box1",
		do: func(ctx context.Context, c *client.Client, name string) (api.Worker, error) {
			return c.Undrain(ctx, name)
		},
		said: func(w api.Worker) string { return w.Name + " takes runs again" },
	})
}

// change is a command that changes workers, one after the other.
type change struct {
	use, short, example string
	do                  func(ctx context.Context, c *client.Client, name string) (api.Worker, error)
	said                func(w api.Worker) string
}

func newChange(e *env.Env, d Deps, ch change) *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use: ch.use, Short: ch.short, Example: ch.example,
		Args:              env.Args(1, -1, "one or more workers"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := named(args); err != nil {
				return err
			}
			c := d.Client()
			list := api.WorkerList{Workers: []api.Worker{}}
			for _, name := range args {
				w, err := ch.do(cmd.Context(), c, name)
				if err != nil {
					return err
				}
				list.Workers = append(list.Workers, w)
				switch {
				case asJSON:
				case quiet:
					e.Print("%s", w.Name)
				default:
					e.Print("%s", ch.said(w))
				}
			}
			if asJSON {
				return e.JSON(list)
			}
			return nil
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print the rows as one JSON document", env.One(api.WorkerList{}))
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print their names alone")
	return cmd
}

func newRemove(e *env.Env, d Deps) *cobra.Command {
	rm := noun.Remove{Noun: "a worker", Of: "cdui workers", Done: "removed", Forget: func(ctx context.Context, name string) error {
		return d.Client().RemoveWorker(ctx, name)
	}}
	return rm.On(e, &cobra.Command{
		Use:   "rm WORKER...",
		Short: "Forget workers; what runs there ends as interrupted",
		Long: `Forget workers: their token is good no more, their connection is closed, runs that
wait for them by name fail, and runs that execute there end as interrupted. To let
those finish, drain the worker first and wait.`,
		Example:           `  cdui workers rm box1`,
		ValidArgsFunction: complete(d),
	})
}
