package sweepcmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

func newCancel(e *env.Env, d Deps) *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "cancel SWEEP",
		Short: "Stop the variants of a sweep that have not ended",
		Example: `  cdui sweep cancel 3f1c9a
  cdui sweep cancel 3f1c9a --json | jq .cancelled`,
		Args:              env.Args(1, 1, "one sweep"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := d.Client().CancelSweep(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case asJSON:
				return e.JSON(r)
			case quiet:
				e.Print("%s", r.SweepID)
				return nil
			case r.Cancelled == 0:
				e.Print("sweep %s had ended already", run.Short(r.SweepID))
				return nil
			}
			ended := ""
			if r.AlreadyFinished > 0 {
				ended = fmt.Sprintf("; %d had ended already", r.AlreadyFinished)
			}
			e.Print("sweep %s: %s stopped or stopping%s", run.Short(r.SweepID), text.Plural(r.Cancelled, "variant"), ended)
			return nil
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print one JSON document", env.One[api.SweepCancelReply]())
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the id alone")
	return cmd
}

func newRerun(e *env.Env, d Deps) *cobra.Command {
	var failed, asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "rerun --failed SWEEP",
		Short: "Queue the variants again that failed, were stopped or are missing",
		Long: `Queue the variants of a sweep again that failed, were cancelled or interrupted, or
whose run is gone without a result. What succeeded stays as it is.`,
		Example: `  cdui sweep rerun --failed 3f1c9a
  cdui sweep rerun --failed 3f1c9a && cdui sweep wait 3f1c9a`,
		Args:              env.Args(1, 1, "one sweep"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !failed {
				return env.Usagef("say which variants: cdui sweep rerun --failed %s", args[0])
			}
			r, err := d.Client().RerunSweep(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case asJSON:
				return e.JSON(r)
			case quiet:
				for _, v := range r.Variants {
					e.Print("%s", v.RunID)
				}
				return nil
			case len(r.Variants) == 0:
				e.Print("sweep %s: nothing to run again", run.Short(r.SweepID))
				return nil
			}
			e.Print("sweep %s: %s queued again", run.Short(r.SweepID), text.Plural(len(r.Variants), "variant"))
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&failed, "failed", false, "those that did not succeed")
	env.JSONFlag(f, &asJSON, "print one JSON document", env.One[api.SweepRerunReply]())
	f.BoolVarP(&quiet, "quiet", "q", false, "print the new runs' ids alone")
	return cmd
}
