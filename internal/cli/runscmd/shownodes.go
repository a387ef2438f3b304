package runscmd

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"cdui/internal/api"
	"cdui/internal/cli/env"
	"cdui/internal/cli/nodestate"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/graph"
	"cdui/internal/run"
)

// showNodes prints what the nodes of a graph run did; nothing for other runs,
// and for one that waits.
func showNodes(ctx context.Context, e *env.Env, c *client.Client, r api.Run) error {
	if r.Options.Script != nil || r.Options.Command != nil || r.StartedAt == nil {
		return nil
	}
	types, err := nodeTypes(ctx, c, r.ID)
	if err != nil {
		return err
	}
	board, err := readBoard(ctx, c, r)
	if err != nil {
		return err
	}
	rows := nodeRows(r, types, board.Nodes())
	if len(rows) == 0 {
		return nil
	}
	style := e.Style()
	e.Print("\n%s", style.Paint(text.Grey, "nodes"))
	t := &text.Table{NoTitles: true, Columns: []text.Column{
		{}, {}, {Flex: true, Min: 8}, {Flex: true, Min: 8, Drop: 2}, {}, {Drop: 3}, {Right: true, Drop: 1}, {Flex: true, Wrap: true, Min: 12},
	}}
	for _, row := range rows {
		mark := nodeMark(row.status)
		t.Add(text.Cell{}, text.Cell{Text: style.Mark(mark, false), Colour: text.MarkColour(mark, false)},
			text.Cell{Text: phrase.Clean(row.id)}, text.Cell{Text: phrase.Clean(row.kind)}, text.Cell{Text: row.status},
			text.Cell{Text: row.began}, text.Cell{Text: row.took(e.Now())}, text.Cell{Text: phrase.Clean(row.note)})
	}
	return t.Write(e.Out, style)
}

// nodeType is a node of the submitted graph.
type nodeType struct{ ID, Type string }

func nodeTypes(ctx context.Context, c *client.Client, id string) ([]nodeType, error) {
	raw, err := c.Snapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Nodes []nodeType `json:"nodes"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return nil, nil //nolint:nilerr // a graph that can't be read has no nodes to show
	}
	return doc.Nodes, nil
}

// readBoard folds the log of a run, as far as it went when the run was read.
func readBoard(ctx context.Context, c *client.Client, r api.Run) (*nodestate.Board, error) {
	board := &nodestate.Board{}
	const page = 2000
	for cursor := int64(0); ; {
		events, err := c.Events(ctx, r.ID, cursor, 0, page)
		if err != nil {
			return nil, err
		}
		for _, ev := range events.Events {
			board.Apply(ev)
		}
		cursor = events.Cursor
		if len(events.Events) == 0 || r.LastCursor != nil && cursor >= *r.LastCursor {
			return board, nil
		}
	}
}

// nodeRow is a node as it is shown.
type nodeRow struct {
	id, kind, status, began, note string
	started, ended                time.Time
}

func (n nodeRow) took(now time.Time) string {
	switch {
	case n.started.IsZero():
		return ""
	case n.ended.IsZero():
		return text.Duration(now.Sub(n.started).Truncate(time.Second))
	}
	return text.Duration(n.ended.Sub(n.started))
}

const (
	notRun     = "not run"
	waiting    = "waiting"
	unfinished = "unfinished"
)

// nodeRows lists the nodes that told of themselves, then those of the graph
// that didn't.
func nodeRows(r api.Run, types []nodeType, told []nodestate.Node) []nodeRow {
	kinds := map[string]string{}
	for _, n := range types {
		if n.Type == graph.TypeScript || n.Type == graph.TypeCommand {
			return nil
		}
		kinds[n.ID] = n.Type
	}
	var rows []nodeRow
	for _, n := range told {
		row := nodeRow{id: n.ID, kind: kinds[n.ID], status: n.Status, began: n.Started.Local().Format("15:04:05"), started: n.Started, ended: n.Ended, note: n.Error}
		delete(kinds, n.ID)
		if !n.Over() && !r.Active {
			row.status, row.ended = unfinished, n.Started
			if r.FinishedAt != nil {
				row.ended = *r.FinishedAt
			}
		}
		if p := n.Progress; row.note == "" && p.Known() {
			row.note = fmt.Sprintf("epoch %d", p.Epoch)
			if p.Epochs > 0 {
				row.note += fmt.Sprintf("/%d", p.Epochs)
			}
			if len(p.Loss) > 0 {
				row.note += "  loss " + text.Number(p.Loss)
			}
		}
		rows = append(rows, row)
	}
	rest := notRun
	if r.Active {
		rest = waiting
	}
	for _, n := range types {
		if _, left := kinds[n.ID]; left && n.Type != "note" {
			rows = append(rows, nodeRow{id: n.ID, kind: n.Type, status: rest})
		}
	}
	return rows
}

// nodeMark gives the status of a run that looks like a node's.
func nodeMark(status string) run.Status {
	switch status {
	case nodestate.Completed, nodestate.Cached:
		return run.Succeeded
	case nodestate.Failed:
		return run.Failed
	case nodestate.Interrupted, unfinished:
		return run.Interrupted
	case nodestate.Skipped, notRun:
		return run.Cancelled
	case nodestate.Running:
		return run.Running
	}
	return run.Queued
}
