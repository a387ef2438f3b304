package sweepcmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

func newCancel(e *env.Env, d Deps) *cobra.Command {
	cancel := noun.Answer[api.SweepCancelReply]{
		Ask: func(ctx context.Context, args []string) (api.SweepCancelReply, error) {
			return d.Client().CancelSweep(ctx, args[0])
		},
		ID: func(r api.SweepCancelReply) string { return r.SweepID }, IDs: "the id",
		Show: func(r api.SweepCancelReply) error {
			if r.Cancelled == 0 {
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
	return cancel.On(e, &cobra.Command{
		Use:   "cancel SWEEP",
		Short: "Stop the variants of a sweep that have not ended",
		Example: `  cdui sweep cancel 3f1c9a
  cdui sweep cancel 3f1c9a --json | jq .cancelled`,
		Args:              env.Args(1, 1, "one sweep"),
		ValidArgsFunction: complete(d),
	})
}

func newRerun(e *env.Env, d Deps) *cobra.Command {
	failed := false
	answer := noun.Answer[api.SweepRerunReply]{
		Ask: func(ctx context.Context, args []string) (api.SweepRerunReply, error) {
			if !failed {
				return api.SweepRerunReply{}, env.Usagef("say which variants: cdui sweep rerun --failed %s", args[0])
			}
			return d.Client().RerunSweep(ctx, args[0])
		},
		ID: func(r api.SweepRerunReply) string {
			ids := make([]string, len(r.Variants))
			for i, v := range r.Variants {
				ids[i] = v.RunID
			}
			return strings.Join(ids, "\n")
		}, IDs: "the new runs' ids",
		Show: func(r api.SweepRerunReply) error {
			if len(r.Variants) == 0 {
				e.Print("sweep %s: nothing to run again", run.Short(r.SweepID))
				return nil
			}
			e.Print("sweep %s: %s queued again", run.Short(r.SweepID), text.Plural(len(r.Variants), "variant"))
			return nil
		},
	}
	cmd := answer.On(e, &cobra.Command{
		Use:   "rerun --failed SWEEP",
		Short: "Queue the variants again that failed, were stopped or are missing",
		Long: `Queue the variants of a sweep again that failed, were cancelled or interrupted, or
whose run is gone without a result. What succeeded stays as it is.`,
		Example: `  cdui sweep rerun --failed 3f1c9a
  cdui sweep rerun --failed 3f1c9a && cdui sweep wait 3f1c9a`,
		Args:              env.Args(1, 1, "one sweep"),
		ValidArgsFunction: complete(d),
	})
	cmd.Flags().BoolVar(&failed, "failed", false, "those that did not succeed")
	return cmd
}
