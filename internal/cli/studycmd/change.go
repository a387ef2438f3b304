package studycmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/run"
)

func newCancel(e *env.Env, d Deps) *cobra.Command {
	return change(e, func(ctx context.Context, args []string) (api.Study, error) {
		return d.Client().CancelStudy(ctx, args[0])
	}, &cobra.Command{
		Use:               "cancel STUDY",
		Short:             "Stop a study and its runs",
		Example:           `  cdui study cancel 81d002`,
		Args:              env.Args(1, 1, "one study"),
		ValidArgsFunction: complete(d),
	})
}

func newResume(e *env.Env, d Deps) *cobra.Command {
	var maxRun, maxActive env.Duration
	cmd := &cobra.Command{
		Use:   "resume STUDY",
		Short: "Start the repetitions over that have no score",
		Long: `Give another attempt to each repetition that has no score and for which nothing
runs: those that failed, were stopped or got lost too often. A repetition that is
scored or still runs is left alone.`,
		Example: `  cdui study resume 81d002
  cdui study resume 81d002 --max-active 4h   # its budget was used up`,
		Args:              env.Args(1, 1, "one study"),
		ValidArgsFunction: complete(d),
	}
	f := cmd.Flags()
	f.Var(&maxRun, "max-run", "stop a run that executes longer than this; 0 is no limit")
	f.Var(&maxActive, "max-active", "stop the study when its runs have executed this long together; 0 is no limit")
	return change(e, func(ctx context.Context, args []string) (api.Study, error) {
		var body api.StudyResumeRequest
		for _, budget := range []struct {
			flag string
			d    env.Duration
			to   **float64
		}{{"max-run", maxRun, &body.MaxRunSeconds}, {"max-active", maxActive, &body.MaxActiveSeconds}} {
			if cmd.Flags().Changed(budget.flag) {
				seconds := time.Duration(budget.d).Seconds()
				*budget.to = &seconds
			}
		}
		return d.Client().ResumeStudy(ctx, args[0], body)
	}, cmd)
}

// change makes a command that is answered with how the study stands.
func change(e *env.Env, ask func(context.Context, []string) (api.Study, error), cmd *cobra.Command) *cobra.Command {
	answer := noun.Answer[api.Study]{
		Ask: ask,
		ID:  func(y api.Study) string { return y.StudyID }, IDs: "the id",
		Show: func(y api.Study) error {
			e.Print("%s", headline(e.Style(), y.StudySummary))
			if y.State == api.StudyCancelling {
				e.Say("its runs are stopping; wait for them: cdui study wait %s", run.Short(y.StudyID))
			}
			return nil
		},
	}
	return answer.On(e, cmd)
}
