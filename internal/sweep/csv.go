package sweep

import (
	"encoding/json"
	"strconv"

	"cdui/internal/run"
	"cdui/internal/sheet"
)

// Row is a variant as a line of a table.
type Row struct {
	// Rank is 0 for one without an objective.
	Rank, Index, DomainIndex int
	RunID                    string
	Status                   run.Status
	Objective                *run.Last
	Values                   []json.RawMessage
}

// CSV writes rows in their order, a column for each param at the end.
func CSV(params []Domain, rows []Row) ([]byte, error) {
	head := []string{"rank", "variant_index", "domain_index", "run_id", "status", "objective"}
	for _, p := range params {
		head = append(head, sheet.Text(p.Label()))
	}
	out := [][]string{head}
	for _, r := range rows {
		rank := ""
		if r.Rank > 0 {
			rank = strconv.Itoa(r.Rank)
		}
		line := []string{rank, strconv.Itoa(r.Index), strconv.Itoa(r.DomainIndex), r.RunID, string(r.Status), objectiveCell(r.Objective)}
		for _, v := range r.Values {
			line = append(line, cell(v))
		}
		out = append(out, line)
	}
	return sheet.CSV(out)
}

func objectiveCell(n *run.Last) string {
	switch {
	case n == nil:
		return ""
	case n.Nonfinite != "":
		return n.Nonfinite
	}
	return string(n.Value)
}

// cell guards text; a number below zero is no formula.
func cell(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return sheet.Text(s)
	}
	return string(v)
}
