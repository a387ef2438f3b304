package runscmd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/follow"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

// WaitOptions is what wait is asked.
type WaitOptions struct {
	Runs     []string
	Any      bool
	All      bool
	Timeout  env.Duration
	ExitCode bool
	JSON     bool
	Quiet    bool
}

func newWait(e *env.Env, d Deps, runF func(context.Context, *WaitOptions) error) *cobra.Command {
	o := &WaitOptions{}
	if runF == nil {
		runF = func(ctx context.Context, o *WaitOptions) error { return Wait(ctx, e, d, o) }
	}
	cmd := &cobra.Command{
		Use:   "wait RUN...",
		Short: "Wait until runs have ended",
		Long: `Wait until all of the runs have ended, or with --any the first of them. The exit
code is 0 when those that ended succeeded, else 1, and 124 when --timeout is over.`,
		Example: `  cdui runs wait 3f1c9a && ./deploy.sh
  cdui runs wait --any --timeout 1h $(cdui ls -a -q)`,
		Args:              env.Args(1, -1, "a run"),
		ValidArgsFunction: complete(d, active()...),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Runs = args
			if o.Any && o.All {
				return env.Usagef("--any and --all can't be given together")
			}
			return runF(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Any, "any", false, "until one has ended")
	f.BoolVar(&o.All, "all", false, "until all have ended (the default)")
	f.Var(&o.Timeout, "timeout", "give up after this time, with exit code 124")
	f.BoolVar(&o.ExitCode, "exit-code", false, "exit with the code of the first that did not succeed")
	env.JSONFlag(f, &o.JSON, "print rows as JSON, one run a line, as they end", env.Lines(api.Run{}))
	f.BoolVarP(&o.Quiet, "quiet", "q", false, "print ids alone, as they end")
	return cmd
}

// Wait waits.
func Wait(ctx context.Context, e *env.Env, d Deps, o *WaitOptions) error {
	c := d.Client()
	ids := make([]string, 0, len(o.Runs))
	for _, id := range o.Runs {
		r, err := c.Run(ctx, id)
		if err != nil {
			return err
		}
		ids = append(ids, r.ID)
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		row api.Run
		err error
	}
	ends := make(chan end, len(ids))
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			row, err := follow.End(within, c, id)
			ends <- end{row, err}
		})
	}
	defer wg.Wait()
	defer cancel()
	var over <-chan time.Time
	if o.Timeout > 0 {
		t := time.NewTimer(time.Duration(o.Timeout))
		defer t.Stop()
		over = t.C
	}
	var outcome error
	for left := len(ids); left > 0; left-- {
		select {
		case got := <-ends:
			if got.err != nil {
				return stopped(ctx, got.err)
			}
			if err := ended(e, o, got.row); err != nil {
				return err
			}
			if err := follow.Outcome(got.row, o.ExitCode); err != nil && outcome == nil {
				outcome = err
			}
			if o.Any {
				return outcome
			}
		case <-over:
			return &env.Exit{Code: 124, Text: fmt.Sprintf("%s still going on after %s", areRuns(left), time.Duration(o.Timeout))}
		case <-ctx.Done():
			return stopped(ctx, ctx.Err())
		}
	}
	return outcome
}

func areRuns(n int) string {
	if n == 1 {
		return "1 run is"
	}
	return text.Plural(n, "run") + " are"
}

func ended(e *env.Env, o *WaitOptions, r api.Run) error {
	switch {
	case o.JSON:
		return e.JSONLine(r)
	case o.Quiet:
		e.Print("%s", r.ID)
	default:
		s := e.Style()
		e.Print("%s %s  %s  %s  %s", s.PaintedMark(r.Status, false), run.Short(r.ID), phrase.Title(r.Row), r.Status, text.Duration(phrase.Took(r.Row, e.Now())))
	}
	return nil
}
