package graph

import (
	"encoding/json"
	"fmt"

	"cdui/internal/graph/flat"
	"cdui/internal/run"
)

// The node types that are a program of their own.
const (
	TypeScript  = flat.TypeScript
	TypeCommand = flat.TypeCommand
)

// Program is the one node of a graph that is a program of its own; exactly one
// of Script and Command is set.
type Program struct {
	NodeID  string
	Script  *run.ScriptSpec
	Command *run.CommandSpec
}

// Program finds the Script or Command node of a graph that consists of it. The
// second value is false for any other graph.
func (e Envelope) Program() (Program, bool, error) {
	var found *Node
	others := 0
	for i, n := range e.Nodes {
		switch n.Type {
		case TypeScript, TypeCommand:
			if found != nil {
				return Program{}, false, fmt.Errorf("%w: nodes %q and %q: a graph holds one Script or Command at most", ErrEnvelope, found.ID, n.ID)
			}
			found = &e.Nodes[i]
		case "Start", "note":
		default:
			others++
		}
	}
	if found == nil {
		return Program{}, false, nil
	}
	if others > 0 {
		return Program{}, false, fmt.Errorf("%w: node %q (%s) can't stand beside other nodes", ErrEnvelope, found.ID, found.Type)
	}
	params := found.Data.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	option := "script"
	if found.Type == TypeCommand {
		option = "command"
	}
	doc, err := json.Marshal(map[string]json.RawMessage{option: params})
	if err != nil {
		return Program{}, false, fmt.Errorf("%w: node %q: %w", ErrEnvelope, found.ID, err)
	}
	o, err := run.ParseOptions(doc)
	if err != nil {
		return Program{}, false, fmt.Errorf("%w: node %q: %w", ErrEnvelope, found.ID, err)
	}
	return Program{NodeID: found.ID, Script: o.Script, Command: o.Command}, true, nil
}

// ForScript builds the graph that a script stands for.
func ForScript(s run.ScriptSpec) (json.RawMessage, error) {
	return single("script", TypeScript, s)
}

// ForCommand builds the graph that a command stands for.
func ForCommand(c run.CommandSpec) (json.RawMessage, error) {
	return single("command", TypeCommand, c)
}

func single(id, nodeType string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(map[string]any{
		"nodes": []any{map[string]any{"id": id, "type": nodeType, "data": map[string]any{"params": params}}},
		"edges": []any{},
	})
	if err != nil {
		return nil, fmt.Errorf("build the graph of a %s: %w", id, err)
	}
	return raw, nil
}
