package runscmd

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/run"
)

type metricsOptions struct {
	Run  string
	Name string
	CSV  bool
	Plot bool
	JSON bool
}

func newMetrics(e *env.Env, d Deps) *cobra.Command {
	o := &metricsOptions{}
	cmd := &cobra.Command{
		Use:   "metrics RUN",
		Short: "Show a run's metrics, as a table, charts or CSV",
		Example: `  cdui runs metrics 3f1c9a
  cdui runs metrics 3f1c9a --plot --name train_loss
  cdui runs metrics 3f1c9a --csv > metrics.csv`,
		Args:              env.Args(1, 1, "one run"),
		ValidArgsFunction: complete(d),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Run = args[0]
			if o.CSV && o.Plot || o.CSV && o.JSON || o.Plot && o.JSON {
				return env.Usagef("--csv, --plot and --json can't be given together")
			}
			return metrics(cmd.Context(), e, d, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "only this series")
	f.BoolVar(&o.Plot, "plot", false, "draw charts")
	f.BoolVar(&o.CSV, "csv", false, "print CSV")
	env.JSONFlag(f, &o.JSON, "print one JSON document", env.One(api.Metrics{}))
	return cmd
}

func metrics(ctx context.Context, e *env.Env, d Deps, o *metricsOptions) error {
	c := d.Client()
	r, err := c.Run(ctx, o.Run)
	if err != nil {
		return err
	}
	if o.CSV {
		return stopped(ctx, c.MetricsCSV(ctx, r.ID, o.Name, e.Out))
	}
	all, err := c.Metrics(ctx, r.ID, o.Name)
	if err != nil {
		return err
	}
	if o.JSON {
		return e.JSON(all)
	}
	if len(all.Metrics) == 0 {
		if o.Name != "" && len(r.FinalMetrics) > 0 {
			return env.Failed("run %s has no series %q. It has: %s", run.Short(r.ID), o.Name, seriesNames(r))
		}
		e.Say("run %s has no metrics; a script reports some with cdui.log({\"loss\": loss})", run.Short(r.ID))
		return nil
	}
	if o.Plot {
		return Plot(e, all)
	}
	return metricsTable(all).Write(e.Out, e.Style())
}

func seriesNames(r api.Run) string {
	list := ""
	for _, name := range sortedNames(r.FinalMetrics) {
		if list != "" {
			list += ", "
		}
		list += phrase.Clean(name)
	}
	return list
}

// group splits metrics, which come by name and step, into their series. Series
// of several nodes that share a name stay apart.
func group(all api.Metrics) []text.Series {
	type key struct{ node, name string }
	var order []key
	byKey := map[key]*text.Series{}
	nodes := map[string]map[string]bool{}
	for _, m := range all.Metrics {
		k := key{m.NodeID, m.Name}
		s := byKey[k]
		if s == nil {
			s = &text.Series{Name: phrase.Clean(m.Name)}
			byKey[k] = s
			order = append(order, k)
			if nodes[m.Name] == nil {
				nodes[m.Name] = map[string]bool{}
			}
			nodes[m.Name][m.NodeID] = true
		}
		s.Values = append(s.Values, value(m))
		s.Steps = append(s.Steps, number(m.Step))
	}
	out := make([]text.Series, 0, len(order))
	for _, k := range order {
		s := *byKey[k]
		if len(nodes[k.name]) > 1 {
			s.Name += " (" + phrase.Clean(k.node) + ")"
		}
		out = append(out, s)
	}
	return out
}

func value(m api.Metric) float64 {
	switch m.Nonfinite {
	case "inf":
		return math.Inf(1)
	case "-inf":
		return math.Inf(-1)
	case "nan":
		return math.NaN()
	}
	return number(m.Value)
}

func number(raw json.RawMessage) float64 {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return math.NaN() // null, and what is beyond a float
	}
	return f
}

// Plot draws a chart of each series.
func Plot(e *env.Env, all api.Metrics) error {
	const height = 10
	for i, s := range group(all) {
		if i > 0 {
			e.Print("")
		}
		if _, err := fmt.Fprint(e.Out, e.Style().Chart(s, height)); err != nil {
			return err
		}
	}
	return nil
}

func metricsTable(all api.Metrics) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Title: "NAME", Flex: true, Min: 8},
		{Title: "LAST", Right: true},
		{Title: "LEAST", Right: true, Drop: 1},
		{Title: "MOST", Right: true, Drop: 2},
		{Title: "STEP", Right: true},
		{Title: "VALUES", Right: true, Drop: 3},
	}}
	for _, s := range group(all) {
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range s.Values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				low, high = min(low, v), max(high, v)
			}
		}
		least, most := text.Float(low), text.Float(high)
		if low > high {
			least, most = text.Dash, text.Dash
		}
		step := text.Dash
		if last := s.Steps[len(s.Steps)-1]; !math.IsNaN(last) {
			step = strconv.FormatFloat(last, 'f', -1, 64)
		}
		t.Add(text.Text(s.Name, text.Float(s.Values[len(s.Values)-1]), least, most, step, text.Count(len(s.Values)))...)
	}
	return t
}
