package runscmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/client"
	"cdui/internal/run"
)

// each does one thing to several runs. It goes on after a failure, says each,
// and ends with the first.
func each(e *env.Env, ids []string, do func(id string) error) error {
	var first error
	for _, id := range ids {
		err := do(id)
		if err == nil {
			continue
		}
		var gone *client.Unreachable
		if errors.As(err, &gone) {
			return err
		}
		if first == nil {
			first = err
			continue
		}
		e.Say("%s", err)
	}
	return first
}

func newHold(e *env.Env, d Deps) *cobra.Command {
	return stateCommand(e, d, "hold", "Keep waiting runs from starting", "is held; let it queue again with: cdui runs release", (*client.Client).Hold)
}

func newRelease(e *env.Env, d Deps) *cobra.Command {
	return stateCommand(e, d, "release", "Let held runs queue again", "is released", (*client.Client).Release)
}

func newPin(e *env.Env, d Deps) *cobra.Command {
	return stateCommand(e, d, "pin", "Keep logs and outputs of runs from being pruned", "is pinned", (*client.Client).Pin)
}

func newUnpin(e *env.Env, d Deps) *cobra.Command {
	return stateCommand(e, d, "unpin", "Let logs and outputs of runs be pruned again", "is no longer pinned", (*client.Client).Unpin)
}

func stateCommand(e *env.Env, d Deps, verb, short, done string, call func(*client.Client, context.Context, string) (api.RunState, error)) *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:               verb + " RUN...",
		Short:             short,
		Example:           "  cdui runs " + verb + " 3f1c9a",
		Args:              env.Args(1, -1, "a run"),
		ValidArgsFunction: complete(d, completes(verb)...),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := d.Client()
			return each(e, args, func(id string) error {
				state, err := call(c, cmd.Context(), id)
				switch {
				case err != nil:
					return err
				case asJSON:
					return e.JSONLine(state)
				case quiet:
					e.Print("%s", state.RunID)
				case verb == "hold":
					e.Print("run %s %s %s", run.Short(state.RunID), done, run.Short(state.RunID))
				default:
					e.Print("run %s %s", run.Short(state.RunID), done)
				}
				return nil
			})
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print JSON, one run a line", env.Lines(api.RunState{}))
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids alone")
	return cmd
}

// completes lists the statuses of the runs that a verb is offered.
func completes(verb string) []run.Status {
	if verb == "hold" || verb == "release" {
		return []run.Status{run.Queued}
	}
	return run.Statuses()
}

// Gone is a run that was removed.
type Gone struct {
	RunID string `json:"run_id"`
}

func newRemove(e *env.Env, d Deps) *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Remove ended runs with all that is recorded of them",
		Long: `Remove ended runs: their rows, events, metrics and console output. Files that they
produced elsewhere stay. A run that goes on is refused; cancel it first.`,
		Example: `  cdui runs rm 3f1c9a
  cdui ls --status failed -q | xargs cdui runs rm`,
		Args:              env.Args(1, -1, "a run"),
		ValidArgsFunction: complete(d, run.Succeeded, run.Failed, run.Cancelled, run.Interrupted),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := d.Client()
			return each(e, args, func(id string) error {
				r, err := c.Run(cmd.Context(), id)
				if err != nil {
					return err
				}
				if err := c.Delete(cmd.Context(), r.ID); err != nil {
					return err
				}
				switch {
				case asJSON:
					return e.JSONLine(Gone{r.ID})
				case quiet:
					e.Print("%s", r.ID)
				default:
					e.Print("run %s is removed", run.Short(r.ID))
				}
				return nil
			})
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print JSON, one run a line", env.Lines(Gone{}))
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print ids alone")
	return cmd
}
