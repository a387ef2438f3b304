package sweepcmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/follow"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/run"
	"cdui/internal/sweep"
)

func list(e *env.Env, d Deps) *noun.List {
	part := &noun.Part{}
	return &noun.List{
		Flags:     part.Flags,
		Check:     part.Check,
		Documents: []env.Document{env.One(api.SweepList{})},
		Fetch: func(ctx context.Context) (noun.Page, error) {
			l, err := d.Client().Sweeps(ctx, part.Limit, part.Offset)
			page := noun.Page{Document: l}
			for _, x := range l.Sweeps {
				page.Add(x.SweepID, cells(e, x)...)
			}
			return page, err
		},
		IDs:   "ids",
		Empty: "no sweeps yet; queue one with: cdui sweep run FILE",
		Columns: []text.Column{
			{},
			{Title: "SWEEP"},
			{Title: "NAME", Flex: true, Min: 10},
			{Title: "STATE"},
			{Title: "DONE", Right: true},
			{Title: "BEST", Flex: true, Min: 10, Drop: 1},
			{Title: "AGE", Right: true},
		},
	}
}

func cells(e *env.Env, w api.SweepSummary) []text.Cell {
	style, now := e.Style(), e.Now()
	done, all := phrase.SweepProgress(w)
	mark := phrase.SweepStatus(w)
	return []text.Cell{
		{Text: style.Mark(mark, false), Colour: text.MarkColour(mark, false)},
		{Text: run.Short(w.SweepID)},
		{Text: name(w.Name)},
		{Text: string(w.State)},
		{Text: fmt.Sprintf("%d/%d", done, all)},
		{Text: phrase.SweepBest(w)},
		{Text: text.Age(now.Sub(w.CreatedAt))},
	}
}

func name(s string) string {
	if s = phrase.Clean(s); s == "" {
		return text.Dash
	}
	return s
}

func newShow(e *env.Env, d Deps) *cobra.Command {
	var asJSON, quiet, csv bool
	cmd := &cobra.Command{
		Use:   "show SWEEP",
		Short: "Show a sweep's variants by rank",
		Example: `  cdui sweep show 3f1c9a
  cdui sweep show 3f1c9a --csv > lr.csv
  cdui logs $(cdui sweep show 3f1c9a -q | head -1)   # of the best run`,
		Args:              env.Args(1, 1, "one sweep"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON && csv || asJSON && quiet || csv && quiet {
				return env.Usagef("only one of --json, --csv and --quiet can be given")
			}
			if csv {
				return d.Client().SweepCSV(cmd.Context(), args[0], e.Out)
			}
			w, err := d.Client().Sweep(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case asJSON:
				return e.JSON(w)
			case quiet:
				for _, v := range w.Variants {
					e.Print("%s", v.RunID)
				}
				return nil
			}
			return show(e, w)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&csv, "csv", false, "print the variants as CSV")
	env.JSONFlag(f, &asJSON, "print one JSON document", env.One(api.Sweep{}))
	f.BoolVarP(&quiet, "quiet", "q", false, "print the runs' ids alone, by rank")
	return cmd
}

// show prints a sweep and the table of its variants.
func show(e *env.Env, w api.Sweep) error {
	style := e.Style()
	e.Print("%s", headline(style, w.SweepSummary))
	t := &text.Table{Columns: []text.Column{{Title: "RANK", Right: true}, {}, {Title: "#", Right: true}}}
	for _, p := range w.Params {
		t.Columns = append(t.Columns, text.Column{Title: phrase.Clean(p.Label()), Flex: true, Min: 6})
	}
	t.Columns = append(t.Columns,
		text.Column{Title: phrase.Clean(w.Objective.Metric), Right: true}, text.Column{Title: "SEED", Right: true, Drop: 4},
		text.Column{Title: "WHERE", Drop: 2}, text.Column{Title: "RUN"}, text.Column{Title: "STATUS", Flex: true, Min: 9, Drop: 3})
	for _, v := range w.Variants {
		rank, seed := text.Dash, ""
		if v.Rank != nil {
			rank = strconv.Itoa(*v.Rank)
		}
		if v.Seed != nil {
			seed = strconv.FormatInt(*v.Seed, 10)
		}
		cells := []text.Cell{{Text: rank}, {Text: style.Mark(v.Status, false), Colour: text.MarkColour(v.Status, false)}, {Text: strconv.Itoa(v.Index + 1)}}
		for _, p := range v.Params {
			cells = append(cells, text.Cell{Text: phrase.SweepValue(p.Value)})
		}
		is := string(v.Status)
		if why := phrase.Clean(v.Error); why != "" {
			is += ": " + why
		}
		cells = append(cells, text.Cell{Text: phrase.Objective(v.Objective, v.ObjectiveNonfinite)}, text.Cell{Text: seed},
			text.Cell{Text: where(v)}, text.Cell{Text: run.Short(v.RunID)}, text.Cell{Text: is})
		t.Add(cells...)
	}
	if err := t.Write(e.Out, style); err != nil {
		return err
	}
	for _, note := range []*string{w.ObjectiveWarning, w.Error} {
		if note != nil {
			e.Say("%s", phrase.Clean(*note))
		}
	}
	return nil
}

func where(v api.SweepVariant) string {
	return phrase.Where(run.Row{WorkerID: v.WorkerID, Devices: v.Devices, QueueKey: v.QueueKey})
}

// headline is a sweep in a line, or in as many as it takes.
func headline(style text.Style, w api.SweepSummary) string {
	mark := phrase.SweepStatus(w)
	parts := []string{fmt.Sprintf("sweep %s  %s  %s", run.Short(w.SweepID), name(w.Name), w.State), counts(w.Counts)}
	if w.Best != nil {
		parts = append(parts, "best "+phrase.SweepBest(w))
	}
	return text.Marked(style, style.PaintedMark(mark, false), parts)
}

// counts says how many variants are in which status.
func counts(all map[run.Status]int) string {
	var parts []string
	for _, s := range append(run.Statuses(), sweep.Missing) {
		if n := all[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

func newWait(e *env.Env, d Deps) *cobra.Command {
	var timeout env.Duration
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "wait SWEEP",
		Short: "Wait until a sweep's variants have ended",
		Long: `Wait until all variants have ended. The exit code is 0 when every one succeeded,
else 1, and 124 when --timeout is over.`,
		Example:           `  cdui sweep wait 3f1c9a --timeout 2h && ./report.sh`,
		Args:              env.Args(1, 1, "one sweep"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := d.Client()
			w, err := c.Sweep(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			err = wait(cmd.Context(), e, c, w.SweepID, time.Duration(timeout), asJSON || quiet)
			if !asJSON {
				return err
			}
			if w, showErr := c.Sweep(cmd.Context(), w.SweepID); showErr == nil {
				if jsonErr := e.JSON(w); jsonErr != nil {
					return jsonErr
				}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.Var(&timeout, "timeout", "give up after this time, with exit code 124")
	env.JSONFlag(f, &asJSON, "print the sweep as one JSON document at the end", env.One(api.Sweep{}))
	f.BoolVarP(&quiet, "quiet", "q", false, "print nothing")
	return cmd
}

// wait waits for a sweep, says which variants have ended, and prints the table
// at the end.
func wait(ctx context.Context, e *env.Env, c *client.Client, id string, timeout time.Duration, quiet bool) error {
	short := run.Short(id)
	watched := follow.Watched{
		What: "sweep " + short, Again: "cdui sweep wait " + short, Stop: "cdui sweep cancel " + short, Timeout: timeout, Quiet: quiet,
	}
	told := map[int]bool{}
	var last api.Sweep
	err := watched.Until(ctx, e, func(ctx context.Context) (bool, error) {
		w, err := c.Sweep(ctx, id)
		if err != nil {
			return false, err
		}
		last = w
		if !quiet {
			tell(e, w, told)
		}
		return w.State == sweep.Finished || w.State == sweep.Failed, nil
	})
	if err != nil {
		return err
	}
	if !quiet {
		if err := show(e, last); err != nil {
			return err
		}
	}
	if _, all := phrase.SweepProgress(last.SweepSummary); last.Counts[run.Succeeded] != all {
		return env.Failed("")
	}
	return nil
}

// tell says once of each variant that it has ended.
func tell(e *env.Env, w api.Sweep, told map[int]bool) {
	style := e.ErrStyle()
	for i := range w.Variants {
		v := &w.Variants[i]
		if v.Status.Active() || told[v.Index] {
			continue
		}
		told[v.Index] = true
		var params []string
		for _, p := range v.Params {
			params = append(params, phrase.Clean(p.Label())+"="+phrase.SweepValue(p.Value))
		}
		line := fmt.Sprintf("%s #%d  %s  %s", style.PaintedMark(v.Status, false), v.Index+1, strings.Join(params, " "), v.Status)
		if o := phrase.Objective(v.Objective, v.ObjectiveNonfinite); o != text.Dash {
			line += fmt.Sprintf("  %s %s", phrase.Clean(w.Objective.Metric), o)
		}
		e.Say("%s", line)
	}
}
