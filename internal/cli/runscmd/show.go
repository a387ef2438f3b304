package runscmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/run"
)

func newShow(e *env.Env, d Deps) *cobra.Command {
	answer := noun.Answer[api.Run]{
		Ask: func(ctx context.Context, args []string) (api.Run, error) { return d.Client().Run(ctx, args[0]) },
		ID:  func(r api.Run) string { return r.ID }, IDs: "its whole id",
	}
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show everything about a run",
		Example: `  cdui runs show 3f1c9a
  cdui runs show 3f1c9a --json`,
		Args:              env.Args(1, 1, "one run"),
		ValidArgsFunction: complete(d),
	}
	answer.Show = func(r api.Run) error { return show(cmd.Context(), e, d.Client(), r) }
	return answer.On(e, cmd)
}

func show(ctx context.Context, e *env.Env, c *client.Client, r api.Run) error {
	style, now := e.Style(), e.Now()
	head := fmt.Sprintf("%s %s  %s", style.PaintedMark(r.Status, phrase.Held(r)), run.Short(r.ID), phrase.Title(r.Row))
	e.Print("%s", head)
	t := &text.Table{NoTitles: true, Columns: []text.Column{{}, {}, {Flex: true, Wrap: true, Min: 12}}}
	for _, f := range fields(r, now) {
		if f.text != "" {
			t.Add(text.Cell{}, text.Cell{Text: f.name, Colour: text.Grey}, text.Cell{Text: f.text})
		}
	}
	if err := t.Write(e.Out, style); err != nil {
		return err
	}
	if err := showNodes(ctx, e, c, r); err != nil {
		return err
	}
	if tail := phrase.OutputTail(r.Row); tail != "" && r.Status != run.Succeeded {
		e.Print("\nlast output")
		for line := range strings.SplitSeq(strings.TrimRight(tail, "\n"), "\n") {
			indent := len(line) - len(strings.TrimLeft(line, " "))
			e.Print("  %s%s", line[:indent], phrase.Clean(line))
		}
	}
	return nil
}

type field struct{ name, text string }

func fields(r api.Run, now time.Time) []field {
	o := r.Options
	list := []field{
		{"id", r.ID},
		{"status", statusText(r, now)},
		{"why", phrase.Failure(r.Row)},
		{"end class", string(r.EndClass)},
		{"metrics", strings.Join(phrase.FinalMetrics(r.FinalMetrics), ", ")},
		{"where", phrase.Where(r.Row)},
		{"asked for", o.Device},
		{"submitted", moment(&r.CreatedAt, now)},
		{"started", moment(r.StartedAt, now)},
		{"ended", moment(r.FinishedAt, now)},
	}
	if r.StartedAt != nil {
		list = append(list, field{"took", text.Duration(phrase.Took(r.Row, now))})
	}
	switch {
	case o.Script != nil:
		list = append(list, field{"script", strings.Join(append([]string{o.Script.Path}, quoted(o.Script.Args)...), " ")},
			field{"folder", o.Script.Cwd}, field{"python", o.Script.Interpreter}, field{"environment", o.Script.Venv},
			field{"variables", variables(o.Script.Env)})
	case o.Command != nil:
		list = append(list, field{"command", strings.Join(quoted(o.Command.Argv), " ")},
			field{"folder", o.Command.Cwd}, field{"environment", o.Command.Venv}, field{"variables", variables(o.Command.Env)})
	}
	list = append(list, more(r)...)
	for i := range list {
		list[i].text = phrase.Clean(list[i].text)
	}
	return list
}

// more is what only some runs have.
func more(r api.Run) []field {
	o := r.Options
	var list []field
	add := func(name, value string, given bool) {
		if given {
			list = append(list, field{name, value})
		}
	}
	if o.Seed != nil {
		add("seed", strconv.FormatInt(*o.Seed, 10), true)
	}
	add("error mode", o.ErrorMode, o.ErrorMode != "" && o.ErrorMode != "fail_fast")
	add("retries", strconv.Itoa(o.MaxRetries), o.MaxRetries > 0)
	add("tags", strings.Join(o.Tags, ", "), len(o.Tags) > 0)
	add("note", o.Note, o.Note != "")
	add("key", o.Key, o.Key != "")
	for _, a := range o.After {
		add("after", run.Short(a.Run)+" ("+string(a.Condition)+")", true)
	}
	add("time limit", text.Duration(time.Duration(o.MaxRunSeconds*float64(time.Second))), o.MaxRunSeconds > 0)
	if t := o.Target; t != nil && t.MemoryGiB > 0 {
		add("memory", text.MiB(t.BudgetMiB())+memorySource(t), true)
	}
	add("priority", strconv.Itoa(o.Priority), o.Priority != 0)
	if re := o.Retry; re != nil {
		add("retry", strconv.Itoa(re.Number)+" of "+strconv.Itoa(re.Limit), true)
	}
	add("repeats", run.Short(r.RetryOf), r.RetryOf != "")
	add("repeated as", run.Short(phrase.RetriedAs(r.Row)), phrase.RetriedAs(r.Row) != "")
	add("copy of", run.Short(r.RerunOf), r.RerunOf != "")
	if r.GitCommit != "" {
		state := ""
		if r.GitDirty != nil && *r.GitDirty {
			state = " with changes"
		}
		add("git", r.GitCommit[:min(12, len(r.GitCommit))]+state, true)
	}
	add("attempt", strconv.Itoa(r.Attempt), r.Attempt > 1)
	add("user", r.User, r.User != "")
	add("isolation", phrase.Isolation(r.Row), phrase.Isolation(r.Row) != "")
	add("peak memory", phrase.PeakMemory(r.Row), phrase.PeakMemory(r.Row) != "")
	add("left over", strings.Join(phrase.Leftovers(r.Row), ", ")+", killed", len(phrase.Leftovers(r.Row)) > 0)
	return list
}

func memorySource(t *run.Target) string {
	switch {
	case t.Raised:
		return ", an estimate that was raised"
	case t.MemorySource == run.MemoryEstimate:
		return ", an estimate"
	}
	return ""
}

func statusText(r api.Run, now time.Time) string {
	s := string(r.Status)
	switch {
	case r.Status == run.Queued:
		s += ": " + phrase.Waiting(r.QueuePosition, r.QueueKey, r.QueueReason)
	case r.Status.Active() && r.CancelRequestedAt != nil:
		s += ", " + phrase.Stopping(r, now)
	case r.Status.Active() && r.PID != nil:
		s += fmt.Sprintf(", pid %d", *r.PID)
	}
	if code, ok := phrase.ExitCode(r.Row); ok && r.Status == run.Failed {
		s += fmt.Sprintf(", exit code %d", code)
	}
	return s
}

func moment(t *time.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	s := t.Local().Format("2006-01-02 15:04:05")
	if age := text.Age(now.Sub(*t)); age != "now" {
		return s + " (" + age + " ago)"
	}
	return s + " (now)"
}

// quoted writes arguments as a shell would take them.
func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`*?[]{}();&|<>#~!") {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return out
}

func variables(m map[string]string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, k+"="+quoted([]string{m[k]})[0])
	}
	return strings.Join(list, " ")
}
