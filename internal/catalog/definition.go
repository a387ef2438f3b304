package catalog

import (
	"encoding/json"
	"fmt"
)

// The types of ports that rules speak of.
const (
	PortAny     = "ANY"
	PortTrigger = "TRIGGER"
	PortTensor  = "TENSOR"
	PortImage   = "IMAGE"
)

// The types that a param can have.
const (
	ParamInt        = "int"
	ParamFloat      = "float"
	ParamString     = "string"
	ParamBool       = "bool"
	ParamSelect     = "select"
	ParamModelFile  = "model_file"
	ParamImageFile  = "image_file"
	ParamDataFile   = "data_file"
	ParamTensorGrid = "tensor_grid"
	ParamSecret     = "secret"
	ParamCode       = "code"
)

// Definition describes a node type.
type Definition struct {
	NodeName    string `json:"node_name"`
	Category    string `json:"category"`
	Description string `json:"description"`
	Details     string `json:"details"`
	// Provider is builtin, custom or plugin:<id>.
	Provider     string  `json:"provider"`
	RequiresPack *string `json:"requires_pack"`
	Inputs       []Port  `json:"inputs"`
	Outputs      []Port  `json:"outputs"`
	Params       []Param `json:"params"`
}

// Port is an input or output of a node type.
type Port struct {
	Name        string `json:"name"`
	DataType    string `json:"data_type"`
	Description string `json:"description"`
	Optional    bool   `json:"optional"`
	// Media names how a string result is shown.
	Media *string `json:"media"`
}

// Param is a setting of a node type.
type Param struct {
	Name        string          `json:"name"`
	ParamType   string          `json:"param_type"`
	Default     json.RawMessage `json:"default"`
	Description string          `json:"description"`
	Options     []string        `json:"options"`
	MinValue    *float64        `json:"min_value"`
	MaxValue    *float64        `json:"max_value"`
	// VisibleWhen maps a sibling to the value, or list of values, for which
	// the param means something.
	VisibleWhen map[string]json.RawMessage `json:"visible_when"`
	Advanced    bool                       `json:"advanced"`
}

// Param gives the param of that name.
func (d Definition) Param(name string) (Param, bool) {
	for _, p := range d.Params {
		if p.Name == name {
			return p, true
		}
	}
	return Param{}, false
}

// ParamNames lists the params in the order in which they are shown.
func (d Definition) ParamNames() []string {
	names := make([]string, len(d.Params))
	for i, p := range d.Params {
		names[i] = p.Name
	}
	return names
}

// Problem is a file that could not become part of the catalogue.
type Problem struct {
	File  string `json:"file"`
	Error string `json:"error"`
}

// ParseDefinitions reads what `python -m cdui.registry` prints: a list of
// definitions, in which {"file", "error"} stands for a file that failed.
func ParseDefinitions(raw []byte) ([]Definition, []Problem, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, nil, fmt.Errorf("read node definitions: %w", err)
	}
	var defs []Definition
	var problems []Problem
	for i, item := range items {
		var p Problem
		if err := json.Unmarshal(item, &p); err == nil && p.Error != "" {
			problems = append(problems, p)
			continue
		}
		var d Definition
		if err := json.Unmarshal(item, &d); err != nil {
			return nil, nil, fmt.Errorf("read node definition %d: %w", i, err)
		}
		if d.NodeName == "" {
			return nil, nil, fmt.Errorf("read node definition %d: it has no node_name", i)
		}
		defs = append(defs, d)
	}
	return defs, problems, nil
}
