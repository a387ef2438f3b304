package catalog_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"testing"

	"cdui/internal/catalog"
)

// TestBuiltinsAreThoseOfTheFormat: graph files name types, ports and params, and
// leave out what is at its default, so none of these may change. The list is
// testdata/format.jsonl: ports are name:TYPE, with ? for an optional one.
// B.3: the types of the first release. B.4: what came to them later.
func TestBuiltinsAreThoseOfTheFormat(t *testing.T) {
	content, err := os.ReadFile("testdata/format.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	c := builtin(t)
	seen := map[string]int{}
	for line := range bytes.Lines(content) {
		var want struct {
			Rule     string          `json:"rule"`
			NodeName string          `json:"node_name"`
			Inputs   []string        `json:"inputs"`
			Outputs  []string        `json:"outputs"`
			Params   []catalog.Param `json:"params"`
		}
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		seen[want.Rule]++
		d, _, ok := c.Node(want.NodeName)
		if !ok {
			t.Errorf("%s: there is no type %s", want.Rule, want.NodeName)
			continue
		}
		comparePorts(t, want.Rule+" "+d.NodeName+": inputs", d.Inputs, want.Inputs)
		comparePorts(t, want.Rule+" "+d.NodeName+": outputs", d.Outputs, want.Outputs)
		for _, w := range want.Params {
			got, ok := d.Param(w.Name)
			if !ok || got.ParamType != w.ParamType || !reflect.DeepEqual(got.MinValue, w.MinValue) || !reflect.DeepEqual(got.MaxValue, w.MaxValue) {
				t.Errorf("%s %s: param %s is %+v, want %+v", want.Rule, d.NodeName, w.Name, got, w)
			}
			if w.Default != nil && !sameJSON(t, got.Default, w.Default) {
				t.Errorf("%s %s: the default of %s is %s, want %s", want.Rule, d.NodeName, w.Name, got.Default, w.Default)
			}
			for _, o := range w.Options {
				if !slices.Contains(got.Options, o) {
					t.Errorf("%s %s: %s lacks the option %s", want.Rule, d.NodeName, w.Name, o)
				}
			}
		}
	}
	if seen["B.3"] < 100 || seen["B.4"] < 9 {
		t.Errorf("the list has %v types", seen)
	}
}

func comparePorts(t *testing.T, what string, ports []catalog.Port, want []string) {
	t.Helper()
	var got []string
	for _, p := range ports {
		name := p.Name + ":" + p.DataType
		if p.Optional {
			name += "?"
		}
		got = append(got, name)
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s are %v, without %s", what, got, w)
		}
	}
}

func sameJSON(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// CAT-02: a definition lists the options as they are declared, so that two
// machines with other cards have the same catalogue.
func TestCAT02_OptionsAreAsDeclared(t *testing.T) {
	d, _, ok := builtin(t).Node("TrainingLoop")
	if !ok {
		t.Fatal("no TrainingLoop")
	}
	if p, _ := d.Param("device"); !slices.Equal(p.Options, []string{"auto", "cpu", "cuda", "mps"}) {
		t.Errorf("the options of device are %v", p.Options)
	}
}
