package catalog_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"cdui/internal/catalog"
)

func builtin(t *testing.T) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A.5: the three built-in presets are there.
func TestBuiltin(t *testing.T) {
	c := builtin(t)
	d, candidates, ok := c.Node("Conv2d")
	if !ok || candidates != nil || d.Category != "CNN" || len(d.Inputs) != 1 {
		t.Errorf("Conv2d: %+v, %v, %v", d, candidates, ok)
	}
	if p, ok := d.Param("in_channels"); !ok || string(p.Default) != "1" {
		t.Errorf("in_channels: %+v", p)
	}
	if got := c.PresetNames(); !reflect.DeepEqual(got, []string{"LSTM Sequence", "Simple CNN Classifier", "Training Pipeline"}) {
		t.Errorf("presets: %v", got)
	}
}

// TestBuiltinPresetsFit: nodes, ports and params of the built-in presets are
// those of the built-in types.
func TestBuiltinPresetsFit(t *testing.T) {
	c := builtin(t)
	for _, p := range c.Presets() {
		types := map[string]catalog.Definition{}
		for _, n := range p.Nodes {
			d, _, ok := c.Node(n.Type)
			if !ok {
				t.Errorf("%s: no type %s", p.Name, n.Type)
			}
			types[n.ID] = d
			for name := range n.Params {
				if _, ok := d.Param(name); !ok {
					t.Errorf("%s: %s has no param %s", p.Name, n.ID, name)
				}
			}
		}
		port := func(ports []catalog.Port, name string) bool {
			for _, p := range ports {
				if p.Name == name {
					return true
				}
			}
			return false
		}
		for _, e := range p.Edges {
			if !port(types[e.Source].Outputs, e.SourceHandle) || !port(types[e.Target].Inputs, e.TargetHandle) {
				t.Errorf("%s: edge %+v", p.Name, e)
			}
		}
		for _, x := range p.ExposedInputs {
			if !port(types[x.InternalNode].Inputs, x.InternalPort) {
				t.Errorf("%s: input %+v", p.Name, x)
			}
		}
		for _, x := range p.ExposedOutputs {
			if !port(types[x.InternalNode].Outputs, x.InternalPort) {
				t.Errorf("%s: output %+v", p.Name, x)
			}
		}
		for _, x := range p.ExposedParams {
			if _, ok := types[x.InternalNode].Param(x.ParamName); !ok {
				t.Errorf("%s: param %+v", p.Name, x)
			}
		}
	}
}

func TestWithKeepsWhatIsThere(t *testing.T) {
	c, problems := builtin(t).With(
		[]catalog.Definition{{NodeName: "Conv2d", Category: "Mine"}, {NodeName: "lab:Conv4d"}},
		[]catalog.Preset{{Name: "LSTM Sequence", Category: "Mine"}, {Name: "Mine"}},
	)
	if len(problems) != 2 || problems[0].File != "Conv2d" || problems[1].File != "LSTM Sequence" {
		t.Errorf("problems: %+v", problems)
	}
	if d, _, _ := c.Node("Conv2d"); d.Category != "CNN" {
		t.Errorf("a user's file replaced Conv2d: %+v", d)
	}
	if d, _, ok := c.Node("Conv4d"); !ok || d.NodeName != "lab:Conv4d" {
		t.Errorf("bare name of a plugin's type: %+v, %v", d, ok)
	}
	if _, ok := c.Preset("Mine"); !ok {
		t.Error("the new preset is missing")
	}
}

func TestParseDefinitionsKeepsTheGoodOnes(t *testing.T) {
	defs, problems, err := catalog.ParseDefinitions([]byte(`[
		{"node_name":"A","category":"X","params":[{"name":"p","param_type":"float","default":1e-05,"min_value":0.0,"visible_when":{"mode":["a","b"]}}]},
		{"file":"bad.py","error":"SyntaxError: line 3"}
	]`))
	if err != nil || len(defs) != 1 || len(problems) != 1 || problems[0].File != "bad.py" {
		t.Fatalf("%+v, %+v, %v", defs, problems, err)
	}
	if p := defs[0].Params[0]; string(p.Default) != "1e-05" || *p.MinValue != 0 || p.MaxValue != nil {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{`{}`, `[1]`, `[{"category":"X"}]`} {
		if _, _, err := catalog.ParseDefinitions([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestParsePresetsReportsEachBadFile(t *testing.T) {
	presets, problems := catalog.ParsePresets([]catalog.File{
		{Name: "a.json", Content: []byte(`{"preset_name":"A","nodes":[{"id":"x","type":"Add"}],"later":"ignored"}`)},
		{Name: "b.json", Content: []byte(`{"preset_name":"B","nodes":{}}`)},
		{Name: "c.json", Content: []byte(`not JSON`)},
		{Name: "d.json", Content: []byte(`{"preset_name":"A"}`)},
		{Name: "e.json", Content: []byte(`{"nodes":[]}`)},
		{Name: "f.json", Content: []byte(`{"preset_name":"F","nodes":[{"id":"x"}]}`)},
		{Name: "g.json", Content: []byte(`{"preset_name":"G"}`)},
	})
	var names, files []string
	for _, p := range presets {
		names = append(names, p.Name)
	}
	for _, p := range problems {
		files = append(files, p.File)
	}
	if !reflect.DeepEqual(names, []string{"A", "G"}) || !reflect.DeepEqual(files, []string{"b.json", "c.json", "d.json", "e.json", "f.json"}) {
		t.Errorf("presets %v, problems %+v", names, problems)
	}
	if !strings.Contains(problems[2].Error, "a.json") {
		t.Errorf("the clash doesn't name the other file: %s", problems[2].Error)
	}
}

func TestCAT02_HashIsOfTheDefinitionAlone(t *testing.T) {
	read := func(doc string) catalog.Definition {
		t.Helper()
		var d catalog.Definition
		if err := json.Unmarshal([]byte(doc), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	hash := func(d catalog.Definition) string {
		t.Helper()
		h, err := d.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a := hash(read(`{"node_name":"A","category":"X","params":[{"name":"p","default":{"a":1,"b":2}}]}`))
	if b := hash(read(`{"params":[{"default":{"b":2,"a":1},"name":"p"}],"category":"X","node_name":"A"}`)); a != b {
		t.Error("the order of keys changes the hash")
	}
	if b := hash(read(`{"node_name":"A","category":"X","params":[{"name":"p","default":{"a":1,"b":3}}]}`)); a == b {
		t.Error("another default has the same hash")
	}
}

func TestCAT04_Diff(t *testing.T) {
	here := map[string]string{"A": "1", "B": "2", "C": "3"}
	there := map[string]string{"A": "1", "B": "9", "D": "4"}
	got := catalog.Diff(here, there)
	want := catalog.Difference{MissingHere: []string{"D"}, MissingThere: []string{"C"}, Changed: []string{"B"}}
	if !reflect.DeepEqual(got, want) || got.Empty() || !catalog.Diff(here, here).Empty() {
		t.Errorf("%+v", got)
	}
	if catalog.HashOf(here) == catalog.HashOf(there) || catalog.HashOf(here) != catalog.HashOf(map[string]string{"C": "3", "B": "2", "A": "1"}) {
		t.Error("the catalogue's hash doesn't follow from its types' hashes alone")
	}
}

func TestCAT10_BuiltinNeedsNoPython(t *testing.T) {
	hashes, err := builtin(t).Hashes()
	if err != nil || len(hashes) < 100 {
		t.Errorf("%d types, %v", len(hashes), err)
	}
}

func TestNearest(t *testing.T) {
	names := builtin(t).NodeNames()
	for word, want := range map[string]string{
		"Conv2D": "Conv2d", "conv2": "Conv2d", "MaxPool": "MaxPool2d", "Trainingloop": "TrainingLoop",
		"TraniningLoop": "TrainingLoop", "Sofmax": "Softmax", "Quux": "", "": "",
		strings.Repeat("x", 1000): "",
	} {
		if got := catalog.Nearest(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := catalog.Nearest("Conv4", []string{"lab:Conv4d", "other"}); got != "lab:Conv4d" {
		t.Errorf("a plugin's type: %q", got)
	}
}
