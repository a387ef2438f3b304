package runscmd

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/follow"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

// CancelOptions is what cancel is asked.
type CancelOptions struct {
	Runs     []string
	Force    bool
	Grace    env.Duration
	GraceSet bool
	NoWait   bool
	JSON     bool
	Quiet    bool
}

// NewCancel makes `cdui runs cancel`.
func NewCancel(e *env.Env, d Deps, runF func(context.Context, *CancelOptions) error) *cobra.Command {
	o := &CancelOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *CancelOptions) error { return Cancel(ctx, e, d, o) }
	}
	var detach bool
	cmd := &cobra.Command{
		Use:   "cancel RUN...",
		Short: "Stop runs: ask first, kill at the end of the grace",
		Long: `Stop runs. One that waits is cancelled at once. One that executes is asked to
stop and has the grace to do so; what is left of it then is killed. On a terminal
the command shows the time that is left and returns when the runs have ended;
in a pipe, with --json or with --no-wait it returns at once.`,
		Example: `  cdui cancel 3f1c9a
  cdui cancel 3f1c9a --grace 2m
  cdui cancel 3f1c9a --force`,
		Args:              env.Args(1, -1, "a run"),
		ValidArgsFunction: complete(d, active()...),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Runs, o.GraceSet, o.NoWait = args, cmd.Flags().Changed("grace"), o.NoWait || detach
			if o.Force && o.GraceSet {
				return env.Usagef("--force kills at once, so --grace means nothing with it")
			}
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Force, "force", false, "kill it at once")
	f.Var(&o.Grace, "grace", "how long it may take, instead of the setting CANCEL_GRACE_S")
	f.BoolVar(&o.NoWait, "no-wait", false, "return at once")
	f.BoolVarP(&detach, "detach", "d", false, "the same as --no-wait")
	env.JSONFlag(f, &o.JSON, "print JSON, one run a line", env.Lines(api.CancelReply{}))
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print ids alone")
	return cmd
}

// Cancel asks the runs to stop and shows how they do.
func Cancel(ctx context.Context, e *env.Env, d Deps, o *CancelOptions) error {
	c := d.Client()
	body := api.CancelRequest{Force: o.Force}
	if o.GraceSet {
		s := time.Duration(o.Grace).Seconds()
		body.GraceS = &s
	}
	wait := e.ErrTTY && !o.NoWait && !o.JSON && !o.Quiet
	var stopping []string
	err := each(e, o.Runs, func(id string) error {
		reply, err := c.Cancel(ctx, id, body)
		if err != nil {
			return err
		}
		goesOn := reply.Cancelled && reply.Status.Active()
		if goesOn {
			stopping = append(stopping, reply.RunID)
		}
		switch {
		case o.JSON:
			return e.JSONLine(reply)
		case o.Quiet:
			e.Print("%s", reply.RunID)
		case !goesOn || !wait:
			e.Print("%s", cancelText(reply, o.Force))
		}
		return nil
	})
	if wait && len(stopping) > 0 {
		if werr := follow.Stopping(ctx, e, c, stopping); err == nil {
			err = werr
		}
	}
	return err
}

func cancelText(r api.CancelReply, force bool) string {
	short := run.Short(r.RunID)
	switch {
	case !r.Cancelled:
		return fmt.Sprintf("run %s had ended already: %s", short, r.Status)
	case r.Status.Terminal():
		return fmt.Sprintf("run %s is %s", short, r.Status)
	case force:
		return fmt.Sprintf("run %s is being killed", short)
	}
	return fmt.Sprintf("run %s is asked to stop; it has %s", short, text.Duration(time.Duration(r.GraceS*float64(time.Second))))
}
