package studycmd

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

// New makes `cdui study`.
func New(e *env.Env, d Deps) *cobra.Command {
	return noun.Group(e, func() *noun.List { return list(e, d) }, &cobra.Command{
		Use:   "study",
		Short: "Repeat a run with other seeds, and say how sure its metrics are",
		Long: `Repeat a run: each repetition has a seed of its own, and the metrics get a mean, a
standard deviation and a confidence interval. The control plane drives a study to
its end: a repetition that gets lost with its worker is repeated and not scored.`,
		Example: `  cdui study run train.json --repetitions 5
  cdui study run --sweep 3f1c9a -n 10       # its best variant
  cdui study show 81d002`,
	}, &cobra.Command{
		Short:   "List studies, newest first",
		Example: `  cdui study ls`,
	}, NewRun(e, d, nil), newShow(e, d), newWait(e, d), newCancel(e, d), newResume(e, d))
}

// complete offers the ids of studies to the shell.
func complete(d Deps) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		list, err := d.Client().Studies(ctx, 100, 0)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, y := range list.Studies {
			if short := run.Short(y.StudyID); len(prefix) <= len(short) && short[:len(prefix)] == prefix {
				out = append(out, cobra.CompletionWithDesc(short, fmt.Sprintf("%s  %s", y.State, phrase.Clean(y.Name))))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
