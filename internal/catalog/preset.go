package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Preset is a reusable piece of graph with a name, some of whose ports show.
type Preset struct {
	Name           string         `json:"preset_name"`
	Category       string         `json:"category"`
	Description    string         `json:"description"`
	Tags           []string       `json:"tags"`
	Nodes          []PresetNode   `json:"nodes"`
	Edges          []PresetEdge   `json:"edges"`
	ExposedInputs  []ExposedPort  `json:"exposed_inputs"`
	ExposedOutputs []ExposedPort  `json:"exposed_outputs"`
	ExposedParams  []ExposedParam `json:"exposed_params"`
}

// PresetNode is a node inside a preset.
type PresetNode struct {
	ID     string                     `json:"id"`
	Type   string                     `json:"type"`
	Params map[string]json.RawMessage `json:"params"`
	// InternalParams overlays the params of a preset nested in this one.
	InternalParams map[string]map[string]json.RawMessage `json:"internalParams,omitempty"`
}

// PresetEdge connects two nodes inside a preset.
type PresetEdge struct {
	Source       string `json:"source"`
	SourceHandle string `json:"sourceHandle"`
	Target       string `json:"target"`
	TargetHandle string `json:"targetHandle"`
	// Type is "trigger" or, like absent, "data".
	Type string `json:"type,omitempty"`
}

// ExposedPort is a port of an inner node that the preset shows as its own.
type ExposedPort struct {
	Name         string `json:"name"`
	InternalNode string `json:"internal_node"`
	InternalPort string `json:"internal_port"`
	DataType     string `json:"data_type,omitempty"`
	Description  string `json:"description,omitempty"`
}

// ExposedParam is a param of an inner node that the preset shows as its own.
type ExposedParam struct {
	InternalNode string          `json:"internal_node"`
	ParamName    string          `json:"param_name"`
	DisplayName  string          `json:"display_name"`
	Group        string          `json:"group,omitempty"`
	ParamDef     json.RawMessage `json:"param_def,omitempty"`
}

// ParsePreset reads a preset definition. Keys that it doesn't know are
// ignored.
func ParsePreset(raw []byte) (Preset, error) {
	var p Preset
	if err := json.Unmarshal(raw, &p); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return Preset{}, fmt.Errorf("read preset: %q can't be a %s", wrong.Field, wrong.Value)
		}
		return Preset{}, fmt.Errorf("read preset: %w", err)
	}
	if p.Name == "" {
		return Preset{}, errors.New("read preset: it has no preset_name")
	}
	for i, n := range p.Nodes {
		if n.ID == "" || n.Type == "" {
			return Preset{}, fmt.Errorf("read preset %q: node %d needs an id and a type", p.Name, i)
		}
	}
	return p, nil
}

// File is a file that somebody read.
type File struct {
	Name    string
	Content []byte
}

// ParsePresets reads preset files. A bad one is reported by its name and
// doesn't take the others down; of two with one preset name the first counts.
func ParsePresets(files []File) ([]Preset, []Problem) {
	var presets []Preset
	var problems []Problem
	from := map[string]string{}
	for _, f := range files {
		p, err := ParsePreset(f.Content)
		if err == nil && from[p.Name] != "" {
			err = fmt.Errorf("read preset %q: %s holds one of that name", p.Name, from[p.Name])
		}
		if err != nil {
			problems = append(problems, Problem{File: f.Name, Error: err.Error()})
			continue
		}
		from[p.Name] = f.Name
		presets = append(presets, p)
	}
	return presets, problems
}
