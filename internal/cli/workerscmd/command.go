package workerscmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/client"
)

// Deps is what the commands are given beside their surroundings.
type Deps struct {
	Client func() *client.Client
}

// New makes `cdui workers`.
func New(e *env.Env, d Deps) *cobra.Command {
	return noun.Group(e, func() *noun.List { return list(e, d) }, &cobra.Command{
		Use:   "workers",
		Short: "List the machines that take runs, and add or change them",
		Long: `List the workers: the machines whose agents take runs from this control plane. An
agent calls the control plane and never the other way round, so a worker needs no
open port.`,
		Example: `  cdui workers
  cdui workers add box1
  cdui workers drain box1`,
	}, &cobra.Command{
		Short: "List the workers with their devices",
		Example: `  cdui workers ls
  cdui workers ls --watch
  cdui workers ls --json | jq '.workers[] | select(.state == "online").name'`,
	}, newShow(e, d), newAdd(e, d), newDrain(e, d), newUndrain(e, d), newRemove(e, d), newRekey(e, d),
		newShare(e, d), newCordon(e, d), newUncordon(e, d), newSet(e, d))
}

// complete offers the names of workers to the shell.
func complete(d Deps) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		list, err := d.Client().Workers(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, w := range list.Workers {
			if strings.HasPrefix(w.Name, prefix) {
				out = append(out, cobra.CompletionWithDesc(w.Name, string(w.State)))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// named refuses empty names, which would reach another route.
func named(names []string) error {
	for _, name := range names {
		if strings.TrimSpace(name) == "" {
			return env.Usagef("a worker's name is empty; cdui workers -q lists them")
		}
	}
	return nil
}
