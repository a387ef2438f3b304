package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cdui/internal/cli/actionscmd"
	"cdui/internal/cli/agentcmd"
	"cdui/internal/cli/contextcmd"
	"cdui/internal/cli/demo"
	"cdui/internal/cli/doctor"
	"cdui/internal/cli/env"
	"cdui/internal/cli/graphcmd"
	"cdui/internal/cli/hookscmd"
	"cdui/internal/cli/offer"
	"cdui/internal/cli/runcmd"
	"cdui/internal/cli/runscmd"
	"cdui/internal/cli/serverctl"
	"cdui/internal/cli/sshcmd"
	"cdui/internal/cli/studycmd"
	"cdui/internal/cli/sweepcmd"
	"cdui/internal/cli/tokenscmd"
	"cdui/internal/cli/tuicmd"
	"cdui/internal/cli/workerscmd"
	"cdui/internal/pyruntime"
	"cdui/internal/version"
)

// The groups that help lists commands in.
const (
	groupRuns   = "runs"
	groupGraphs = "graphs"
	groupServer = "server"
	groupWork   = "workers"
	groupMore   = "more"
)

// newRoot builds the command tree.
func newRoot(e *env.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "cdui",
		Short: "Queue, run and watch trainings",
		Long: `cdui queues training scripts, commands and graphs, runs them one after the other on
each device, and keeps what they put out. Nothing that happens to the terminal or to
cdui itself stops a training.`,
		Example: `  cdui demo                      # from nothing to a finished training
  cdui start                     # the control plane, in the background
  cdui run train.py -- --lr 3e-4
  cdui ls`,
		Args:              env.UnknownCommand,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	// Not cobra's own flag: its SetVersionTemplate would bring text/template, with
	// which the linker can drop no method that nobody calls, a tenth of the program.
	showVersion := root.Flags().BoolP("version", "v", false, "version for cdui")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *showVersion {
			_, err := fmt.Fprintf(e.Out, "cdui %s\n", version.String())
			return err
		}
		return cmd.Help()
	}
	root.SetIn(e.In)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	root.SetFlagErrorFunc(flagError)
	f := root.PersistentFlags()
	f.StringVar(&e.Flags.Server, "server", "", "control plane to talk to, such as http://lab:8000")
	f.StringVar(&e.Flags.Context, "context", "", "context to use, by its name in the config file (see cdui context)")
	f.StringVar(&e.Flags.Data, "data", "", "data folder (default $CDUI_HOME, else in $XDG_DATA_HOME)")
	root.AddGroup(&cobra.Group{ID: groupRuns, Title: "Runs:"}, &cobra.Group{ID: groupGraphs, Title: "Graphs:"},
		&cobra.Group{ID: groupServer, Title: "Control plane:"}, &cobra.Group{ID: groupWork, Title: "Workers:"},
		&cobra.Group{ID: groupMore, Title: "More:"})
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
		}
		root.AddCommand(cmds...)
	}
	newClient := e.Client
	runDeps := runcmd.Deps{Control: func() runcmd.Control { return newClient() }, Display: newDisplay}
	graphDeps := graphcmd.Deps{Client: newClient}
	runsDeps := runscmd.Deps{Client: newClient, Display: newDisplay}
	rerun := runcmd.NewRerun(e, runDeps, func() runcmd.Rerunner { return newClient() }, nil)
	add(groupRuns, runcmd.New(e, runDeps, nil), runscmd.New(e, runsDeps, rerun),
		runscmd.NewList(e, runsDeps), runscmd.NewLogs(e, runsDeps, nil), runscmd.NewCancel(e, runsDeps, nil), newQueue(e),
		sweepcmd.New(e, sweepcmd.Deps{Client: newClient}), studycmd.New(e, studycmd.Deps{Client: newClient}),
		tuicmd.New(e, tuicmd.Deps{Client: newClient, Run: runDeps}, nil))
	add(groupGraphs, graphcmd.NewValidate(e, graphDeps, nil), graphcmd.NewNodes(e, graphDeps), graphcmd.NewPresets(e, graphDeps))
	add(groupServer, serverctl.NewStart(e, serverctl.Deps{Serve: serverctl.Serve}, nil), serverctl.NewStop(e, nil), serverctl.NewStatus(e),
		doctor.New(e, doctor.Checks(e)), tokenscmd.New(e, tokenscmd.Deps{Client: newClient}),
		actionscmd.New(e, actionscmd.Deps{Client: newClient}), hookscmd.New(e, hookscmd.Deps{Client: newClient}), contextcmd.New(e), newDB(e), newConfig(e))
	add(groupWork, agentcmd.New(e, agentcmd.Real(), sshcmd.New(e, sshcmd.Deps{Client: newClient}, nil)), workerscmd.New(e, workerscmd.Deps{Client: newClient}))
	add(groupMore, demo.New(e, demo.Deps{Serve: serverctl.Serve, Run: runDeps, Probe: pyruntime.Probe}, nil), newCompletion(e), newMan(e))
	root.SetHelpCommandGroupID(groupMore)
	root.CompletionOptions.DisableDefaultCmd = true
	complete(root, offer.New(e))
	return root
}

// complete gives commands and flags the completion that they don't have
// themselves.
func complete(root *cobra.Command, o *offer.Offers) {
	o.Flags(root)
	for path, f := range map[string]cobra.CompletionFunc{
		"queue": o.Keys(), "queue hold": o.Keys(), "queue release": o.Keys(),
		"runs rerun": one(o.Runs()),
		"hooks rm":   o.Hooks(), "hooks test": one(o.Hooks()), "tokens rm": o.Tokens(),
		"context use": one(o.Contexts()), "context rm": o.Contexts(),
	} {
		if cmd, _, err := root.Find(strings.Fields(path)); err == nil {
			cmd.ValidArgsFunction = f
		}
	}
}

// one completes the first argument alone.
func one(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, prefix)
	}
}

// flagError makes a usage error of what the flag parser says, with what was
// probably meant.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		name, _, _ = strings.Cut(name, "=")
		if near := nearFlag(cmd, name); near != "" {
			return env.Usagef("%s has no flag --%s. Did you mean --%s?", cmd.CommandPath(), name, near)
		}
		return env.Usagef("%s has no flag --%s: see %s --help", cmd.CommandPath(), name, cmd.CommandPath())
	}
	return env.Usagef("%s: %s", cmd.CommandPath(), text)
}

// nearFlag gives the flag whose name is nearest, "" when none is near.
func nearFlag(cmd *cobra.Command, name string) string {
	best, bestAt := "", max(2, len(name)/3)+1
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		at := distance(name, f.Name)
		if strings.HasPrefix(f.Name, name) {
			at = 1
		}
		if at < bestAt {
			best, bestAt = f.Name, at
		}
	})
	return best
}

// distance is how many letters must change to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
