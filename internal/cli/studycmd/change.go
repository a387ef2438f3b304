package studycmd

import (
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/run"
)

func newCancel(e *env.Env, d Deps) *cobra.Command {
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:               "cancel STUDY",
		Short:             "Stop a study and its runs",
		Example:           `  cdui study cancel 81d002`,
		Args:              env.Args(1, 1, "one study"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			y, err := d.Client().CancelStudy(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return said(e, y, asJSON, quiet)
		},
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print one JSON document", env.One[api.Study]())
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the id alone")
	return cmd
}

func newResume(e *env.Env, d Deps) *cobra.Command {
	var asJSON, quiet bool
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
		RunE: func(cmd *cobra.Command, args []string) error {
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
			y, err := d.Client().ResumeStudy(cmd.Context(), args[0], body)
			if err != nil {
				return err
			}
			return said(e, y, asJSON, quiet)
		},
	}
	f := cmd.Flags()
	f.Var(&maxRun, "max-run", "stop a run that executes longer than this; 0 is no limit")
	f.Var(&maxActive, "max-active", "stop the study when its runs have executed this long together; 0 is no limit")
	env.JSONFlag(f, &asJSON, "print one JSON document", env.One[api.Study]())
	f.BoolVarP(&quiet, "quiet", "q", false, "print the id alone")
	return cmd
}

// said answers a change with how the study stands.
func said(e *env.Env, y api.Study, asJSON, quiet bool) error {
	switch {
	case asJSON:
		return e.JSON(y)
	case quiet:
		e.Print("%s", y.StudyID)
		return nil
	}
	e.Print("%s", headline(e.Style(), y.StudySummary))
	if y.State == api.StudyCancelling {
		e.Say("its runs are stopping; wait for them: cdui study wait %s", run.Short(y.StudyID))
	}
	return nil
}
