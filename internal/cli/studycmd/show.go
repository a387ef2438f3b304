package studycmd

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
	"cdui/internal/study"
)

func list(e *env.Env, d Deps) *noun.List {
	part := &noun.Part{}
	return &noun.List{
		Flags:     part.Flags,
		Check:     part.Check,
		Documents: []env.Document{env.One(api.StudyList{})},
		Fetch: func(ctx context.Context) (noun.Page, error) {
			l, err := d.Client().Studies(ctx, part.Limit, part.Offset)
			page := noun.Page{Document: l}
			for _, x := range l.Studies {
				page.Add(x.StudyID, cells(e, x)...)
			}
			return page, err
		},
		IDs:   "ids",
		Empty: "no studies yet; queue one with: cdui study run FILE",
		Columns: []text.Column{
			{},
			{Title: "STUDY"},
			{Title: "NAME", Flex: true, Min: 10},
			{Title: "STATE"},
			{Title: "SCORED", Right: true},
			{Title: "RESULT", Flex: true, Min: 10, Drop: 1},
			{Title: "AGE", Right: true},
		},
	}
}

func cells(e *env.Env, y api.StudySummary) []text.Cell {
	style, now := e.Style(), e.Now()
	mark := phrase.StudyStatus(y)
	return []text.Cell{
		{Text: style.Mark(mark, false), Colour: text.MarkColour(mark, false)},
		{Text: run.Short(y.StudyID)},
		{Text: name(y.Name)},
		{Text: string(y.State)},
		{Text: fmt.Sprintf("%d/%d", y.Counts[study.Scored], y.Repetitions)},
		{Text: phrase.StudyResult(style, y)},
		{Text: text.Age(now.Sub(y.CreatedAt))},
	}
}

func name(s string) string {
	if s = phrase.Clean(s); s == "" {
		return text.Dash
	}
	return s
}

func newShow(e *env.Env, d Deps) *cobra.Command {
	answer := noun.Answer[api.Study]{
		Ask: func(ctx context.Context, args []string) (api.Study, error) { return d.Client().Study(ctx, args[0]) },
		ID: func(y api.Study) string {
			var runs []string
			for _, rep := range y.List {
				for _, a := range rep.Attempts {
					if a.RunID != "" {
						runs = append(runs, a.RunID)
					}
				}
			}
			return strings.Join(runs, "\n")
		}, IDs: "the runs' ids",
		Show: func(y api.Study) error { return show(e, y) },
	}
	return answer.On(e, &cobra.Command{
		Use:   "show STUDY",
		Short: "Show what came out of a study",
		Example: `  cdui study show 81d002
  cdui study show 81d002 --json | jq '.metrics[] | {name, mean, sd, ci_low, ci_high}'`,
		Args:              env.Args(1, 1, "one study"),
		ValidArgsFunction: complete(d),
	})
}

// show prints a study: its metrics, then its repetitions.
func show(e *env.Env, y api.Study) error {
	style := e.Style()
	e.Print("%s", headline(style, y.StudySummary))
	metrics := &text.Table{Columns: []text.Column{
		{Title: "METRIC", Flex: true, Min: 8},
		{Title: "MEAN", Right: true},
		{Title: "SD", Right: true},
		{Title: fmt.Sprintf("%s%% INTERVAL", text.Float(100*y.Confidence))},
		{Title: "MIN", Right: true, Drop: 2},
		{Title: "MAX", Right: true, Drop: 2},
		{Title: "N", Right: true},
	}}
	for _, m := range y.Metrics {
		n := strconv.Itoa(m.N)
		if m.Nonfinite > 0 {
			n += fmt.Sprintf(" + %d not finite", m.Nonfinite)
		}
		between := text.Dash
		if m.CILow != nil && m.CIHigh != nil {
			between = fmt.Sprintf("%s to %s", phrase.Figure(m.CILow), phrase.Figure(m.CIHigh))
		}
		metrics.Add(text.Text(phrase.Clean(m.Name), phrase.Figure(m.Mean), phrase.Figure(m.SD), between, phrase.Figure(m.Min), phrase.Figure(m.Max), n)...)
	}
	if len(y.Metrics) > 0 {
		e.Print("")
		if err := metrics.Write(e.Out, style); err != nil {
			return err
		}
	}
	e.Print("")
	return repetitions(y).Write(e.Out, style)
}

func repetitions(y api.Study) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Title: "#", Right: true},
		{Title: "SEED", Right: true},
		{Title: "OUTCOME"},
		{Title: "TRY", Right: true},
		{Title: "RUN"},
		{Title: "WHERE", Drop: 2},
		{Title: "STATUS", Flex: true, Min: 9, Drop: 3},
	}}
	for _, rep := range y.List {
		n, seed, outcome := strconv.Itoa(rep.Index+1), strconv.FormatInt(rep.Seed, 10), strings.ReplaceAll(string(rep.Outcome), "_", " ")
		if len(rep.Attempts) == 0 {
			t.Add(text.Text(n, seed, outcome)...)
		}
		for _, a := range rep.Attempts {
			t.Add(text.Text(n, seed, outcome, strconv.Itoa(a.Attempt), run.Short(a.RunID), where(a), attempt(a))...)
			n, seed, outcome = "", "", ""
		}
	}
	return t
}

func where(a api.StudyAttempt) string {
	return phrase.Where(run.Row{WorkerID: a.WorkerID, Devices: a.Devices, QueueKey: a.QueueKey})
}

// attempt says how an attempt stands, and why.
func attempt(a api.StudyAttempt) string {
	is := string(a.Status)
	if is == "" {
		is = "refused"
	}
	if a.Lost {
		is += ", lost"
	}
	if a.Stopped != study.NotStopped && a.Stopped != study.ByCancel {
		is += ", " + string(a.Stopped)
	}
	if why := phrase.Clean(a.Error); why != "" {
		is += ": " + why
	}
	return is
}

// headline is a study in a line, or in as many as it takes.
func headline(style text.Style, y api.StudySummary) string {
	mark := phrase.StudyStatus(y)
	parts := []string{fmt.Sprintf("study %s  %s  %s", run.Short(y.StudyID), name(y.Name), y.State)}
	var counts []string
	for _, o := range study.Outcomes() {
		if n := y.Counts[o]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	parts = append(parts, strings.Join(counts, ", "), "ran "+text.Duration(time.Duration(y.ActiveSeconds*float64(time.Second))))
	if y.Stopped != study.NotStopped {
		parts = append(parts, "stopped: "+string(y.Stopped))
	}
	if y.SweepID != "" && y.SweepVariant != nil {
		parts = append(parts, fmt.Sprintf("of sweep %s #%d", run.Short(y.SweepID), *y.SweepVariant+1))
	}
	return text.Marked(style, style.PaintedMark(mark, false), parts)
}

func newWait(e *env.Env, d Deps) *cobra.Command {
	var timeout env.Duration
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "wait STUDY",
		Short: "Wait until a study has ended",
		Long: `Wait until a study has ended. The exit code is 0 when every repetition was scored,
else 1, and 124 when --timeout is over.`,
		Example:           `  cdui study wait 81d002 --timeout 2h`,
		Args:              env.Args(1, 1, "one study"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := d.Client()
			y, err := c.Study(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			err = wait(cmd.Context(), e, c, y.StudyID, time.Duration(timeout), asJSON || quiet)
			if !asJSON {
				return err
			}
			if y, showErr := c.Study(cmd.Context(), y.StudyID); showErr == nil {
				if jsonErr := e.JSON(y); jsonErr != nil {
					return jsonErr
				}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.Var(&timeout, "timeout", "give up after this time, with exit code 124")
	env.JSONFlag(f, &asJSON, "print the study as one JSON document at the end", env.One(api.Study{}))
	f.BoolVarP(&quiet, "quiet", "q", false, "print nothing")
	return cmd
}

// wait waits for a study, says which attempts have ended, and prints what came
// out at the end.
func wait(ctx context.Context, e *env.Env, c *client.Client, id string, timeout time.Duration, quiet bool) error {
	short := run.Short(id)
	watched := follow.Watched{
		What: "study " + short, Again: "cdui study wait " + short, Stop: "cdui study cancel " + short, Timeout: timeout, Quiet: quiet,
	}
	told := map[[2]int]bool{}
	var last api.Study
	err := watched.Until(ctx, e, func(ctx context.Context) (bool, error) {
		y, err := c.Study(ctx, id)
		if err != nil {
			return false, err
		}
		last = y
		if !quiet {
			tell(e, y, told)
		}
		return y.State == api.StudyFinished, nil
	})
	if err != nil {
		return err
	}
	if !quiet {
		if err := show(e, last); err != nil {
			return err
		}
	}
	if last.Counts[study.Scored] != last.Repetitions {
		return env.Failed("")
	}
	return nil
}

// tell says once of each attempt that it has ended.
func tell(e *env.Env, y api.Study, told map[[2]int]bool) {
	style := e.ErrStyle()
	for _, rep := range y.List {
		for _, a := range rep.Attempts {
			at := [2]int{rep.Index, a.Attempt}
			if a.Void || a.Status.Active() || told[at] {
				continue
			}
			told[at] = true
			which := fmt.Sprintf("#%d", rep.Index+1)
			if a.Attempt > 1 {
				which += fmt.Sprintf(", try %d", a.Attempt)
			}
			e.Say("%s %s  seed %d  %s", style.PaintedMark(a.Status, false), which, rep.Seed, attempt(a))
		}
	}
}
