package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/childproto"
	"cdui/internal/sheet"
	"cdui/internal/store"
)

// metrics answers with all points of a run. Every value is valid JSON: a value
// that is not finite is null, with its name beside it.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	id, err := s.find(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	format := cmp.Or(q.Get("format"), "json")
	if format != "json" && format != "csv" {
		return api.Errorf(api.Invalid, "format is %q; use json or csv", format)
	}
	flushes, err := s.cfg.Store.Metrics(r.Context(), id, q.Get("name"))
	if err != nil {
		return err
	}
	out, err := collect(id, q.Get("name"), flushes)
	if err != nil {
		return err
	}
	if format == "json" {
		s.write(w, http.StatusOK, out)
		return nil
	}
	body, err := metricsCSV(out)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="run-%s-metrics.csv"`, id))
	_, err = w.Write(body)
	return gone(err)
}

// collect unpacks stored flushes, ordered by name, then step, then time.
func collect(id, name string, flushes []store.Metrics) (api.Metrics, error) {
	out := api.Metrics{RunID: id, Names: []string{}, Metrics: []api.Metric{}}
	for _, f := range flushes {
		var points []childproto.Point
		if err := json.Unmarshal(f.Points, &points); err != nil {
			return out, fmt.Errorf("read metrics of run %s: %w", id, err)
		}
		for _, p := range points {
			if name != "" && p.Name != name {
				continue
			}
			m := api.Metric{NodeID: p.NodeID, Name: p.Name, Step: p.Step, Value: p.Value, Nonfinite: p.Nonfinite, TS: f.TS}
			if len(m.Value) == 0 {
				m.Value = json.RawMessage("null")
			}
			if len(m.Step) == 0 {
				m.Step = json.RawMessage("null")
			}
			out.Metrics = append(out.Metrics, m)
		}
	}
	slices.SortStableFunc(out.Metrics, func(a, b api.Metric) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(number(a.Step), number(b.Step)))
	})
	for _, m := range out.Metrics {
		if n := len(out.Names); n == 0 || out.Names[n-1] != m.Name {
			out.Names = append(out.Names, m.Name)
		}
	}
	return out, nil
}

func number(raw json.RawMessage) float64 {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0
	}
	return f
}

// metricsCSV writes the columns run_id, node_id, name, step, value, ts.
func metricsCSV(m api.Metrics) ([]byte, error) {
	rows := [][]string{{"run_id", "node_id", "name", "step", "value", "ts"}}
	for _, p := range m.Metrics {
		value := nullAsEmpty(p.Value)
		if p.Nonfinite != "" {
			value = p.Nonfinite
		}
		rows = append(rows, []string{
			m.RunID, sheet.Text(p.NodeID), sheet.Text(p.Name), nullAsEmpty(p.Step), value, p.TS.UTC().Format(time.RFC3339Nano),
		})
	}
	return sheet.CSV(rows)
}

func nullAsEmpty(raw json.RawMessage) string {
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}
