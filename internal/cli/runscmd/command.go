package runscmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/cli/env"
	"cdui/internal/cli/factscmd"
	"cdui/internal/cli/follow"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/client"
	"cdui/internal/run"
)

// Deps is what the commands are given beside their surroundings.
type Deps struct {
	Client  func() *client.Client
	Display func(colour, live bool) follow.Display
}

// New makes `cdui runs`. more are commands of other packages that belong to it.
func New(e *env.Env, d Deps, more ...*cobra.Command) *cobra.Command {
	subs := append([]*cobra.Command{
		newShow(e, d), newEvents(e, d), NewLogs(e, d, nil), newMetrics(e, d),
		newArtifacts(e, d), factscmd.New(e, d.Client, complete(d)), NewCancel(e, d, nil), newHold(e, d), newRelease(e, d), newPin(e, d), newUnpin(e, d), newRemove(e, d), newWait(e, d, nil),
	}, more...)
	return noun.Group(e, func() *noun.List { return list(e, d) }, &cobra.Command{
		Use:   "runs",
		Short: "List runs, and look at or change them",
		Example: `  cdui runs --status running
  cdui runs show 3f1c9a
  cdui runs metrics 3f1c9a --plot`,
	}, listCommand(), subs...)
}

// complete offers run ids to the shell.
func complete(d Deps, statuses ...run.Status) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		list, err := d.Client().Runs(ctx, client.ListFilter{Statuses: statuses, Limit: 100})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, r := range list.Runs {
			id := run.Short(r.ID)
			if len(prefix) > len(id) {
				id = r.ID // somebody pasted more of it
			}
			if strings.HasPrefix(id, prefix) {
				out = append(out, cobra.CompletionWithDesc(id, string(r.Status)+"  "+phrase.Title(r.Row)))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
