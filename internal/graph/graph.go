// Package graph knows the graph.json format: what a submitted graph must look
// like and which node of it is a whole program of its own. It parses and
// decides; it reads no files and executes nothing.
package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cdui/internal/run"
)

// The node types that are a program of their own.
const (
	TypeScript  = "Script"
	TypeCommand = "Command"
)

// ErrEnvelope is wrapped by the errors of ParseEnvelope.
var ErrEnvelope = errors.New("bad graph")

// Envelope is the outer shape of a graph, all that a submit checks.
type Envelope struct {
	Nodes    []Node `json:"nodes"`
	Settings struct {
		Device string `json:"device"`
	} `json:"settings"`
}

// Node is a node as far as the control plane needs it.
type Node struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		Params json.RawMessage `json:"params"`
	} `json:"data"`
}

// ParseEnvelope checks a submitted graph: nodes is a list that is not empty,
// edges, presets and subgraphs are lists when present, settings is an object,
// and settings.device, when set, is a device. Null counts as absent.
func ParseEnvelope(raw json.RawMessage) (Envelope, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil || keys == nil {
		return Envelope{}, fmt.Errorf("%w: it must be an object with nodes and edges", ErrEnvelope)
	}
	for _, name := range []string{"nodes", "edges", "presets", "subgraphs"} {
		if v, ok := keys[name]; ok && string(v) != "null" && first(v) != '[' {
			return Envelope{}, fmt.Errorf("%w: %q must be a list", ErrEnvelope, name)
		}
	}
	if v, ok := keys["settings"]; ok && string(v) != "null" && first(v) != '{' {
		return Envelope{}, fmt.Errorf("%w: %q must be an object", ErrEnvelope, "settings")
	}
	var e Envelope
	if err := json.Unmarshal(raw, &e); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	if len(e.Nodes) == 0 {
		return Envelope{}, fmt.Errorf("%w: it has no nodes", ErrEnvelope)
	}
	if d := strings.TrimSpace(e.Settings.Device); d != "" {
		var err error
		if e.Settings.Device, err = run.ParseDevice(d); err != nil {
			return Envelope{}, fmt.Errorf("%w: settings.device: %w", ErrEnvelope, err)
		}
	}
	return e, nil
}

func first(raw json.RawMessage) byte {
	if t := strings.TrimSpace(string(raw)); t != "" {
		return t[0]
	}
	return 0
}

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
