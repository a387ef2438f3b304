// Package graphfile has what the command line does with a graph file before
// anything runs: it reads it, changes params in it, and says what was found in
// it. It submits nothing, and checks nothing by itself: a Source does.
package graphfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/cli/env"
	"cdui/internal/cli/phrase"
	"cdui/internal/cli/text"
	"cdui/internal/graph/edit"
)

// Source knows node types and presets: a control plane does.
type Source interface {
	Validate(ctx context.Context, graph json.RawMessage) (api.ValidateReply, error)
	Nodes(ctx context.Context) ([]catalog.Definition, error)
	Presets(ctx context.Context) ([]catalog.Preset, error)
}

// Malformed is a file that is no JSON object.
type Malformed struct {
	// Name is the file as it was given; Text goes on from it.
	Name, Text string
}

func (m *Malformed) Error() string { return m.Name + " " + m.Text }

// Read reads a graph file. Errors name it as it was given: they are usage
// errors, and *Malformed for what was read and is no graph.
func Read(path, shown string) (json.RawMessage, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, env.Usagef("%s: no such file", shown)
	case err != nil:
		return nil, env.Usagef("%s: %v", shown, errors.Unwrap(err))
	case info.IsDir():
		return nil, env.Usagef("%s is a folder; name the graph in it", shown)
	case !info.Mode().IsRegular():
		return nil, env.Usagef("%s is no ordinary file", shown)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, env.Usagef("%s can't be read: %v", shown, errors.Unwrap(err))
	}
	var doc map[string]json.RawMessage
	var syntax *json.SyntaxError
	err = json.Unmarshal(raw, &doc)
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(raw[:min(int(syntax.Offset), len(raw))], []byte("\n"))
		return nil, &Malformed{shown, fmt.Sprintf("is not JSON: line %d: %v", line, err)}
	case err != nil || doc == nil:
		return nil, &Malformed{shown, "is no graph: it is not a JSON object"}
	}
	return raw, nil
}

// Set changes params by their address, node.param=value.
func Set(ctx context.Context, src Source, raw json.RawMessage, assignments []string) (json.RawMessage, error) {
	if len(assignments) == 0 {
		return raw, nil
	}
	nodes, err := src.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	presets, err := src.Presets(ctx)
	if err != nil {
		return nil, err
	}
	cat, _ := catalog.New(nodes, presets)
	changed, err := edit.Set(raw, cat, assignments)
	if err != nil {
		return nil, env.Usagef("--%v", err)
	}
	return changed, nil
}

// Findings are the lines that tell what keeps a graph from running; none for a
// graph that runs.
func Findings(shown string, reply api.ValidateReply) []string {
	if len(reply.Issues) == 0 {
		return nil
	}
	lines := []string{shown + ": " + text.Plural(len(reply.Issues), "finding")}
	for _, issue := range reply.Issues {
		lines = append(lines, "  "+phrase.Clean(issue.Message))
	}
	return lines
}

// Warnings are the lines that tell what a graph runs in spite of.
func Warnings(reply api.ValidateReply) []string {
	var lines []string
	for _, issue := range reply.Warnings {
		lines = append(lines, "  warning: "+phrase.Clean(issue.Message))
	}
	return lines
}

// Size counts the nodes that stand in a graph file, without its notes.
func Size(raw json.RawMessage) int {
	var doc struct {
		Nodes []struct {
			Type string `json:"type"`
		} `json:"nodes"`
	}
	_ = json.Unmarshal(raw, &doc) // what can't be read has no nodes, and is a finding
	n := 0
	for _, node := range doc.Nodes {
		if node.Type != "note" {
			n++
		}
	}
	return n
}
