package sweepcmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/client"
	"cdui/internal/run"
)

// Deps is what the commands are given beside their surroundings.
type Deps struct {
	Client func() *client.Client
}

// New makes `cdui sweep`.
func New(e *env.Env, d Deps) *cobra.Command {
	return noun.Group(e, func() *noun.List { return list(e, d) }, &cobra.Command{
		Use:   "sweep",
		Short: "Try combinations of values and rank what comes out",
		Long: `Try combinations of values: each is a run of its own, a variant. Variants are ranked
by the last value of one metric. What to try stands in a file, in YAML or JSON.`,
		Example: `  cdui sweep run lr.yaml
  cdui sweep show 3f1c9a
  cdui sweep rerun --failed 3f1c9a`,
	}, &cobra.Command{
		Short: "List sweeps, newest first",
		Example: `  cdui sweep ls
  cdui sweep ls --json | jq '.sweeps[] | select(.state == "running").sweep_id'`,
	}, NewRun(e, d, nil), newShow(e, d), newWait(e, d), newCancel(e, d), newRerun(e, d))
}

// complete offers the ids of sweeps to the shell.
func complete(d Deps) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		list, err := d.Client().Sweeps(ctx, 100, 0)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, w := range list.Sweeps {
			if short := run.Short(w.SweepID); len(prefix) <= len(short) && short[:len(prefix)] == prefix {
				out = append(out, cobra.CompletionWithDesc(short, fmt.Sprintf("%s  %s", w.State, phrase.Clean(w.Name))))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
