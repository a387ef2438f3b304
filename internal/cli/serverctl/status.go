package serverctl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/meter"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

// Status is what the control plane says of itself, with its workers.
type Status struct {
	api.ServerStatus
	Workers []api.Worker `json:"workers"`
}

// NewStatus makes `cdui status`.
func NewStatus(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the control plane: health, queue, cards, workers",
		Example: `  cdui status
  cdui status --json | jq .waiting`,
		Args: env.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return status(cmd.Context(), e, asJSON) },
	}
	env.JSONFlag(cmd.Flags(), &asJSON, "print one JSON document", env.One(Status{}))
	return cmd
}

func status(ctx context.Context, e *env.Env, asJSON bool) error {
	c := e.Client()
	own, err := c.Status(ctx)
	if err != nil {
		return err
	}
	list, err := c.Workers(ctx)
	if err != nil {
		return err
	}
	st := Status{ServerStatus: own, Workers: list.Workers}
	if asJSON {
		return e.JSON(st)
	}
	style := e.Style()
	up := time.Duration(st.UptimeS * float64(time.Second))
	e.Print("%s %s   pid %d   up %s   v%s", style.PaintedMark(run.Running, false), st.Server.Address, st.Server.PID, text.Age(up), st.Server.Version)
	t := &text.Table{NoTitles: true, Columns: []text.Column{{}, {}, {Flex: true, Wrap: true, Min: 12}}}
	row := func(name, value string) {
		t.Add(text.Cell{}, text.Cell{Text: name, Colour: text.Grey}, text.Cell{Text: value})
	}
	row("runs", fmt.Sprintf("%s running, %s waiting", text.Count(st.Running), text.Count(st.Waiting)))
	if len(st.Workers) > 0 {
		row("workers", workers(st.Workers))
	}
	row("data", st.DataDir)
	row("isolation", st.Isolation)
	if len(st.Spares) > 0 {
		row("spares", spares(st.Spares))
	}
	for _, p := range st.Problems {
		t.Add(text.Cell{Text: "!", Colour: text.Yellow}, text.Cell{Text: strings.ReplaceAll(p.Code, "_", " "), Colour: text.Yellow}, text.Cell{Text: phrase.Clean(p.Text)})
	}
	if err := t.Write(e.Out, style); err != nil {
		return err
	}
	return devices(st.Devices, style).Write(e.Out, style)
}

// workers counts the workers in each state, those that are online first.
func workers(list []api.Worker) string {
	counts := map[api.WorkerState]int{}
	for _, w := range list {
		counts[w.State]++
	}
	var out []string
	for _, state := range []api.WorkerState{api.WorkerOnline, api.WorkerDisconnected, api.WorkerOffline, api.WorkerRejected} {
		if n := counts[state]; n > 0 {
			out = append(out, fmt.Sprintf("%s %s", text.Count(n), state))
		}
	}
	return strings.Join(out, ", ")
}

func spares(list []api.Spare) string {
	var out []string
	for _, sp := range list {
		words := phrase.Clean(sp.Device + " " + sp.Kind)
		if !sp.Ready {
			words += " (starting)"
		}
		out = append(out, words)
	}
	return strings.Join(out, ", ")
}

func devices(list []api.Device, style text.Style) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{},
		{Title: "DEVICE"},
		{Title: "SLOTS", Right: true},
		{Title: "NAME", Flex: true, Min: 8, Drop: 4},
		{Title: "UTIL", Drop: 3},
		{Title: "MEMORY", Drop: 2},
		{Title: "TEMP", Right: true, Drop: 5},
		{Title: "POWER", Right: true, Drop: 6},
		{Title: "RUNS", Flex: true, Min: 8},
	}}
	for _, d := range list {
		t.Add(text.Text("", d.Device.Device, meter.Slots(d.Slots.Used, d.Slots.Cap), phrase.Clean(d.Name),
			meter.Util(d.Device, style), meter.Memory(d.Device, style), meter.Temperature(d.Device, style), meter.Power(d.Device),
			meter.Users(d.Device, d.Runs))...)
	}
	return t
}
