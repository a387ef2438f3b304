// Package function treats a graph as a function: its GraphInput nodes are the
// arguments, its GraphOutput nodes the results. Only nodes that stand in the
// file itself count, not those inside subgraphs and presets.
package function

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"cdui/internal/catalog"
	"cdui/internal/graph"
	"cdui/internal/graph/finding"
	"cdui/internal/graph/flat"
)

// The types of arguments.
const (
	TypeString  = "string"
	TypeNumber  = "number"
	TypeInteger = "integer"
	TypeBoolean = "boolean"
	TypeJSON    = "json"
	TypeImage   = "image"
)

// The codes of problems, as POST /api/graph/run answers them.
const (
	CodeInvalidContract   = "invalid_contract"
	CodeNoEntryPoints     = "no_entry_points"
	CodeUntriggeredInput  = "untriggered_input"
	CodeUnreachableOutput = "unreachable_output"
	CodeInvalidGraph      = "invalid_graph"
	CodeInvalidInput      = "invalid_input"
)

// Contract is what a graph takes and gives.
type Contract struct {
	Inputs  []Input  `json:"inputs"`
	Outputs []Output `json:"outputs"`
}

// Input is an argument.
type Input struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Required    bool   `json:"required"`
	Default     string `json:"default"`
	Description string `json:"description"`

	NodeID string `json:"-"`
}

// Output is a result.
type Output struct {
	Name        string `json:"name"`
	Description string `json:"description"`

	NodeID string `json:"-"`
}

// Problem is why a graph can't be called, or not with these arguments.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	NodeID  string `json:"node_id,omitempty"`
}

// maxName is how many characters the name of an input or output may have.
const maxName = 64

// validName tells whether a name is a letter or _, then letters, digits and _.
func validName(name string) bool {
	n := 0
	for _, c := range name {
		if c != '_' && !unicode.IsLetter(c) && (n == 0 || !unicode.IsNumber(c)) {
			return false
		}
		n++
	}
	return n > 0 && n <= maxName
}

// Of reads the contract of a graph and what stands against calling it.
func Of(raw json.RawMessage, cat *catalog.Catalog) (Contract, []Problem) {
	c := Contract{Inputs: []Input{}, Outputs: []Output{}}
	var problems []Problem
	report := func(code, nodeID, format string, args ...any) {
		problems = append(problems, Problem{Code: code, NodeID: nodeID, Message: fmt.Sprintf(format, args...)})
	}
	r := graph.Inspect(raw, cat)
	taken := map[string]string{}
	named := func(n graph.Outline, side, name string) {
		if !validName(name) {
			report(CodeInvalidContract, n.ID, "node %q: the name %q must be a letter or _ and up to 63 letters, digits and _", n.ID, name)
		}
		if other, ok := taken[side+name]; ok {
			report(CodeInvalidContract, n.ID, "nodes %q and %q: two %ss are called %q", other, n.ID, side, name)
		}
		taken[side+name] = n.ID
	}
	for _, n := range r.Nodes {
		switch n.Type {
		case flat.TypeGraphInput:
			in := input(n, cat)
			named(n, "input", in.Name)
			if err := in.check(); err != nil {
				report(CodeInvalidContract, n.ID, "node %q: %s", n.ID, err)
			}
			c.Inputs = append(c.Inputs, in)
		case flat.TypeGraphOutput:
			out := Output{Name: text(n, cat, "name"), Description: text(n, cat, "description"), NodeID: n.ID}
			named(n, "output", out.Name)
			c.Outputs = append(c.Outputs, out)
		}
	}
	started := true
	for _, f := range r.Findings {
		code := CodeInvalidGraph
		if f.Code == finding.CodeNoEntryPoint {
			code, started = CodeNoEntryPoints, false
		}
		report(code, f.NodeID, "%s", f.Message)
	}
	for _, n := range r.Nodes {
		switch {
		case n.Runs || !started:
		case n.Type == flat.TypeGraphInput:
			report(CodeUntriggeredInput, n.ID, "node %q (GraphInput): nothing that runs starts or uses it", n.ID)
		case n.Type == flat.TypeGraphOutput:
			report(CodeUnreachableOutput, n.ID, "node %q (GraphOutput): nothing that runs leads to it", n.ID)
		}
	}
	return c, problems
}

func input(n graph.Outline, cat *catalog.Catalog) Input {
	in := Input{
		Name: text(n, cat, "name"), Type: text(n, cat, "type"), Required: true,
		Default: text(n, cat, "default"), Description: text(n, cat, "description"), NodeID: n.ID,
	}
	if raw := given(n, cat, "required"); string(raw) == "false" {
		in.Required = false
	}
	return in
}

// check tries the type, and the default where it may be needed.
func (in Input) check() error {
	switch in.Type {
	case TypeString, TypeNumber, TypeInteger, TypeBoolean, TypeJSON, TypeImage:
	default:
		return fmt.Errorf("the type %q must be one of string, number, integer, boolean, json, image", in.Type)
	}
	if in.Required || strings.TrimSpace(in.Default) == "" {
		return nil
	}
	if _, err := in.fromDefault(); err != nil {
		return fmt.Errorf("the default of %q: %w", in.Name, err)
	}
	return nil
}

func given(n graph.Outline, cat *catalog.Catalog, name string) json.RawMessage {
	if v, ok := n.Params[name]; ok {
		return v
	}
	d, _, _ := cat.Node(n.Type)
	p, _ := d.Param(name)
	return p.Default
}

func text(n graph.Outline, cat *catalog.Catalog, name string) string {
	var s string
	raw := given(n, cat, name)
	if len(raw) > 0 && json.Unmarshal(raw, &s) != nil {
		// A default that was typed as a number or a list means its text.
		return string(raw)
	}
	return s
}
