package agentcmd

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/agent"
	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
)

type stopOptions struct {
	name       string
	cancelRuns bool
	json       bool
}

func newStop(e *env.Env) *cobra.Command {
	o := &stopOptions{}
	cmd := &cobra.Command{
		Use:   "stop [NAME]",
		Short: "Stop the agent of this machine; trainings go on",
		Long: `Stop the agent. Trainings go on without it, and the next start takes them up again.
With --cancel-runs they are asked to stop first. A name is needed only where several
agents run.`,
		Example: `  cdui agent stop
  cdui agent stop box1 --cancel-runs`,
		Args:              env.Args(0, 1, "one agent"),
		ValidArgsFunction: complete(e),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.name = args[0]
			}
			return stop(cmd.Context(), e, o)
		},
	}
	cmd.Flags().BoolVar(&o.cancelRuns, "cancel-runs", false, "stop the trainings too")
	env.JSONFlag(cmd.Flags(), &o.json, "print how many trainings go on as one JSON document", env.One(api.ShutdownReply{}))
	return cmd
}

const stopTimeout = 2 * time.Minute

func stop(ctx context.Context, e *env.Env, o *stopOptions) error {
	data, err := e.DataFolder()
	if err != nil {
		return err
	}
	name, err := one(ctx, data.Path, o.name)
	if err != nil {
		return err
	}
	left := 0
	if name != "" {
		within, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		left, err = agent.Stop(within, data.Path, name, o.cancelRuns)
		switch {
		case errors.Is(err, agent.ErrNotRunning):
			name = ""
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return env.Failed("%s", err)
		}
	}
	switch {
	case o.json:
		return e.JSON(api.ShutdownReply{Left: left})
	case name == "":
		e.Say("no agent is running here")
	case left == 1:
		e.Print("stopped %s; 1 training goes on without it, and cdui agent start takes it up again", name)
	case left > 1:
		e.Print("stopped %s; %s go on without it, and cdui agent start takes them up again", name, text.Plural(left, "training"))
	default:
		e.Print("stopped %s", name)
	}
	return nil
}

// one gives the agent that is meant: the named one, else the only one that
// runs, empty when none does.
func one(ctx context.Context, dataDir, name string) (string, error) {
	if name != "" {
		return name, nil
	}
	list, err := running(ctx, dataDir)
	if err != nil {
		return "", err
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	if len(names) > 1 {
		return "", env.Usagef("several agents run here: %s; name one", strings.Join(names, ", "))
	}
	return strings.Join(names, ""), nil
}

// running asks all agents of the data folder how they stand.
func running(ctx context.Context, dataDir string) ([]agent.Status, error) {
	names, err := agent.List(dataDir)
	if err != nil {
		return nil, env.Failed("%s", err)
	}
	out := []agent.Status{}
	for _, name := range names {
		if s, err := agent.Query(ctx, dataDir, name); err == nil {
			out = append(out, s)
		} else if !errors.Is(err, agent.ErrNotRunning) {
			return nil, env.Failed("%s", err)
		}
	}
	return out, nil
}

// complete offers the names of running agents to the shell.
func complete(e *env.Env) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		data, err := e.DataFolder()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
		defer cancel()
		list, err := running(ctx, data.Path)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, s := range list {
			if strings.HasPrefix(s.Name, prefix) {
				out = append(out, cobra.CompletionWithDesc(s.Name, s.Control))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}
