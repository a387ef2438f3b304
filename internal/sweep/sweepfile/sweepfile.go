// Package sweepfile reads a sweep as people write it, in YAML or JSON, into the
// words of the API. Errors name the line. What the values mean is decided by
// package sweep, on the control plane; this package finds what can't be meant
// at all: unknown keys, two bases, something that is no value.
package sweepfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"go.yaml.in/yaml/v4"

	"cdui/internal/sweep"
)

// File is a sweep file. One of Graph, Script and Command is set.
type File struct {
	// Graph and Script are paths, relative to the file.
	Graph, Script string
	Command       []string
	// Args are a script's own arguments, Set changes of a graph: node.param=value.
	Args, Set []string
	// Cwd, Python, Venv and Env are those of `cdui run`.
	Cwd, Python, Venv string
	Env, Files        []string
	NoFiles           bool

	Name         string
	Key          string
	Spec         sweep.Spec
	SeedVariants bool
	Objective    sweep.Objective
	// Options are run options by the API's names; nil when there are none.
	Options map[string]json.RawMessage
}

type document struct {
	Graph        string            `yaml:"graph"`
	Script       string            `yaml:"script"`
	Command      []string          `yaml:"command"`
	Args         []string          `yaml:"args"`
	Set          []string          `yaml:"set"`
	Cwd          string            `yaml:"cwd"`
	Python       string            `yaml:"python"`
	Venv         string            `yaml:"venv"`
	Env          []string          `yaml:"env"`
	Files        []string          `yaml:"files"`
	NoFiles      bool              `yaml:"no_files"`
	Name         string            `yaml:"name"`
	Key          string            `yaml:"key"`
	Method       string            `yaml:"method"`
	Seed         *int64            `yaml:"seed"`
	Samples      *int              `yaml:"samples"`
	SeedVariants bool              `yaml:"seed_variants"`
	Params       []param           `yaml:"params"`
	Objective    objective         `yaml:"objective"`
	Options      map[string]*value `yaml:"options"`
}

type param struct {
	Node  string `yaml:"node"`
	Param string `yaml:"param"`
	Arg   string `yaml:"arg"`
	// Values are pointers: an empty one would be left out of a list of values.
	Values []*value `yaml:"values"`
	Range  *bounds  `yaml:"range"`
}

type bounds struct {
	Min   *value `yaml:"min"`
	Max   *value `yaml:"max"`
	Count *int   `yaml:"count"`
	Scale string `yaml:"scale"`
	Type  string `yaml:"type"`
}

type objective struct {
	Metric    string `yaml:"metric"`
	Direction string `yaml:"direction"`
}

// value is any value, as JSON.
type value struct{ json.RawMessage }

func (v *value) empty() bool {
	return v == nil || len(v.RawMessage) == 0 || string(v.RawMessage) == "null"
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *value) UnmarshalYAML(n *yaml.Node) error {
	var any any
	if err := n.Decode(&any); err != nil {
		return err
	}
	if f, ok := any.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return fmt.Errorf("line %d: %s is no finite number", n.Line, n.Value)
	}
	raw, err := json.Marshal(any)
	if err != nil {
		return fmt.Errorf("line %d: it can't be written as JSON: %w", n.Line, err)
	}
	v.RawMessage = raw
	return nil
}

// Parse reads a file.
func Parse(raw []byte) (File, error) {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	var doc document
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return File{}, errors.New("the file is empty")
	case err != nil:
		return File{}, plain(err)
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return File{}, errors.New("it holds more than one document; a sweep file has one")
	}
	return doc.file()
}

// plain makes one short line of what the YAML library says.
func plain(err error) error {
	text := err.Error()
	if all, ok := errors.AsType[*yaml.LoadErrors](err); ok && len(all.Errors) > 0 {
		text = all.Errors[0].Error()
	}
	text = strings.TrimPrefix(strings.Join(strings.Fields(text), " "), "yaml: ")
	// The names of our own types say nothing to anybody.
	for _, name := range []string{"document", "param", "bounds", "objective"} {
		text = strings.ReplaceAll(text, " not found in type sweepfile."+name, " is not known here")
		text = strings.ReplaceAll(text, " into []sweepfile."+name, ", where a list is expected")
		text = strings.ReplaceAll(text, " into sweepfile."+name, ", where a mapping is expected")
	}
	return errors.New(text)
}

func (d document) file() (File, error) {
	f := File{
		Graph: d.Graph, Script: d.Script, Command: d.Command, Args: d.Args, Set: d.Set, Cwd: d.Cwd, Python: d.Python, Venv: d.Venv, Env: d.Env, Files: d.Files, NoFiles: d.NoFiles,
		Name: d.Name, Key: d.Key, SeedVariants: d.SeedVariants, Objective: sweep.Objective(d.Objective),
		Spec: sweep.Spec{Method: d.Method, Seed: d.Seed, Samples: d.Samples},
	}
	bases := 0
	for _, given := range []bool{d.Graph != "", d.Script != "", len(d.Command) > 0} {
		if given {
			bases++
		}
	}
	switch {
	case bases != 1:
		return f, errors.New("name what to sweep with one of graph, script and command")
	case len(d.Args) > 0 && d.Script == "":
		return f, errors.New("args: they go with a script; a command has its own")
	case len(d.Set) > 0 && d.Graph == "":
		return f, errors.New("set: it changes params of a graph")
	}
	if f.Spec.Method == "" {
		f.Spec.Method = sweep.Grid
	}
	for i, p := range d.Params {
		made, err := p.param()
		if err != nil {
			return f, fmt.Errorf("params[%d]: %w", i, err)
		}
		f.Spec.Params = append(f.Spec.Params, made)
	}
	if len(d.Options) > 0 {
		f.Options = make(map[string]json.RawMessage, len(d.Options))
		for k, v := range d.Options {
			f.Options[k] = json.RawMessage("null")
			if !v.empty() {
				f.Options[k] = v.RawMessage
			}
		}
	}
	return f, nil
}

func (p param) param() (sweep.Param, error) {
	out := sweep.Param{Address: sweep.Address{NodeID: p.Node, Param: p.Param, Arg: p.Arg}}
	for _, v := range p.Values {
		if v.empty() {
			return out, errors.New("a value is empty")
		}
		out.Values = append(out.Values, v.RawMessage)
	}
	if p.Range == nil {
		return out, nil
	}
	low, err := p.Range.Min.number("min")
	if err != nil {
		return out, err
	}
	high, err := p.Range.Max.number("max")
	out.Range = &sweep.Range{Min: low, Max: high, Count: p.Range.Count, Scale: p.Range.Scale, Type: p.Range.Type}
	return out, err
}

func (v *value) number(what string) (*json.Number, error) {
	if v.empty() {
		return nil, nil
	}
	var n json.Number
	if err := json.Unmarshal(v.RawMessage, &n); err != nil || v.RawMessage[0] == '"' {
		return nil, fmt.Errorf("range.%s: %s is no number", what, v.RawMessage)
	}
	return &n, nil
}
