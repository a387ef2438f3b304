package workerscmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/noun"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

func newShow(e *env.Env, d Deps) *cobra.Command {
	answer := noun.Answer[api.Worker]{
		Ask: func(ctx context.Context, args []string) (api.Worker, error) {
			if err := named(args); err != nil {
				return api.Worker{}, err
			}
			return d.Client().Worker(ctx, args[0])
		},
		Show: func(w api.Worker) error { return show(e, w) },
	}
	return answer.On(e, &cobra.Command{
		Use:   "show WORKER",
		Short: "Show everything about a worker",
		Example: `  cdui workers show box1
  cdui workers show box1 --json | jq .devices`,
		Args:              env.Args(1, 1, "one worker"),
		ValidArgsFunction: complete(d),
	})
}

func show(e *env.Env, w api.Worker) error {
	style, now := e.Style(), e.Now()
	is := stateOf(w, now)
	e.Print("%s %s  %s", style.Paint(is.colour, is.mark(style)), title(w), is.words)
	t := &text.Table{NoTitles: true, Columns: []text.Column{{}, {}, {Flex: true, Wrap: true, Min: 12}}}
	for _, f := range fields(w, now) {
		if f.text != "" {
			t.Add(text.Cell{}, text.Cell{Text: f.name, Colour: text.Grey}, text.Cell{Text: phrase.Clean(f.text)})
		}
	}
	if err := t.Write(e.Out, style); err != nil {
		return err
	}
	devices := &text.Table{NoTitles: true, Columns: deviceColumns()}
	for _, dev := range w.Devices {
		devices.Add(deviceRow(dev, style)...)
	}
	return devices.Write(e.Out, style)
}

type field struct{ name, text string }

func fields(w api.Worker, now time.Time) []field {
	list := []field{
		{"version", w.Version},
		{"platform", platform(w.Platform)},
		{"python", python(w)},
		{"connected", moment(w.ConnectedAt, now)},
		{"last seen", moment(w.LastSeen, now)},
		{"via", w.Via},
		{"why refused", w.RejectReason},
		{"features", strings.Join(words(w.Capabilities), ", ")},
	}
	if w.Draining {
		list = append(list, field{"draining", "it takes no new runs; cdui workers undrain " + w.Name + " lets it"})
	}
	if w.Degraded {
		list = append(list, field{"degraded", lacks(w)})
	}
	if w.ClockSkewMS != nil {
		list = append(list, field{"clock", skewWords(skewOf(w))})
	}
	for _, label := range slices.Sorted(maps.Keys(w.Mounts)) {
		list = append(list, field{"mount " + label, w.Mounts[label]})
	}
	var runs []string
	for _, id := range w.Runs {
		runs = append(runs, run.Short(id))
	}
	list = append(list, field{"runs", strings.Join(runs, ", ")})
	if w.ResumeUntil != nil {
		list = append(list, field{"resumes until", clock(*w.ResumeUntil, now)})
	}
	return list
}

func platform(p *protocol.Platform) string {
	if p == nil {
		return ""
	}
	parts := []string{p.OS + "/" + p.Arch}
	for _, s := range []string{p.Release, p.Hostname} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if p.Cores > 0 {
		parts = append(parts, text.Plural(p.Cores, "core"))
	}
	if p.MemoryMiB > 0 {
		parts = append(parts, text.MiB(p.MemoryMiB))
	}
	return strings.Join(parts, ", ")
}

func python(w api.Worker) string {
	p := w.Python
	switch {
	case p == nil && w.State == api.WorkerOnline:
		return "none that works; it takes commands alone"
	case p == nil:
		return ""
	}
	parts := []string{p.Path + " (" + p.Version + ")", torch(p)}
	if p.CUDA != nil && *p.CUDA != "" {
		parts = append(parts, "cuda "+*p.CUDA)
	}
	return strings.Join(parts, ", ")
}

func words(list protocol.Capabilities) []string {
	var out []string
	for _, c := range list {
		out = append(out, string(c))
	}
	return out
}

func skewWords(d time.Duration) string {
	if d.Abs() < time.Second {
		return "in step with the control plane's"
	}
	way := "behind"
	if d > 0 {
		way = "ahead of"
	}
	return fmt.Sprintf("%s %s the control plane's", text.Duration(d.Abs()), way)
}

func moment(t *time.Time, now time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime) + " (" + ago(*t, now) + ")"
}
