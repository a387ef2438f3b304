package sweepfile_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cdui/internal/sweep/sweepfile"
)

// SW-01: a file in either language becomes the words of the API.
func TestFiles(t *testing.T) {
	yaml := `# what to try
graph: graph.json
name: learning rate
set: [trainer.epochs=2]
method: random
seed: 7
samples: 3
seed_variants: true
params:
  - node: optimizer
    param: lr
    range: {min: 1e-4, max: 0.1, count: 4, scale: log}
  - {node: model, param: act, values: [relu, 3, 1.5e-3, true]}
objective: {metric: val_loss, direction: minimize}
options:
  target: {worker: any}
  tags: [nightly]
  note: null
`
	js := `{"graph":"graph.json","name":"learning rate","set":["trainer.epochs=2"],"method":"random","seed":7,"samples":3,"seed_variants":true,
		"params":[{"node":"optimizer","param":"lr","range":{"min":1e-4,"max":0.1,"count":4,"scale":"log"}},{"node":"model","param":"act","values":["relu",3,1.5e-3,true]}],
		"objective":{"metric":"val_loss","direction":"minimize"},"options":{"target":{"worker":"any"},"tags":["nightly"],"note":null}}`
	for _, text := range []string{yaml, js} {
		f, err := sweepfile.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := json.Marshal(f.Spec)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"method":"random","seed":7,"samples":3,"params":[{"node_id":"optimizer","param":"lr","range":{"min":0.0001,"max":0.1,"count":4,"scale":"log"}},` +
			`{"node_id":"model","param":"act","values":["relu",3,0.0015,true]}]}`
		if string(spec) != want || f.Graph != "graph.json" || f.Name != "learning rate" || !f.SeedVariants || f.Set[0] != "trainer.epochs=2" ||
			f.Objective.Metric != "val_loss" || string(f.Options["target"]) != `{"worker":"any"}` || string(f.Options["note"]) != "null" {
			t.Errorf("%s\n%+v", spec, f)
		}
	}
	f, err := sweepfile.Parse([]byte("script: train.py\nargs: [--epochs, 3]\nparams:\n- arg: --lr\n  values: [0.1]\nobjective: {metric: loss, direction: minimize}\n"))
	if err != nil || f.Spec.Method != "grid" || f.Script != "train.py" || strings.Join(f.Args, " ") != "--epochs 3" || f.Spec.Params[0].Arg != "--lr" {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestFaultsNameTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "empty",
		"graph: a\nparms: []\n": "line 2: field parms is not known here",
		"graph: a\nparams:\n- {node: a, parm: b}":                             "line 3: field parm is not known here",
		"graph: a\nobjective: {metrics: a}":                                   "line 2: field metrics is not known here",
		"graph: [\n":                                                          "line ",
		"graph: a\nseed: many":                                                "line 2:",
		"graph: a\nparams: 3":                                                 "line 2:",
		"graph: a\ngraph: b":                                                  "line 2:",
		"graph: a\nparams:\n- {node: a, param: b, values: [.nan]}":            "line 3: .nan is no finite number",
		"graph: a\nparams:\n- {node: a, param: b, values: [~]}":               "params[0]: a value is empty",
		"graph: a\nparams:\n- {node: a, param: b, range: {min: low, max: 3}}": "range.min",
		"graph: a\n---\ngraph: b":                                             "more than one document",
		"name: x":                                                             "one of graph, script and command",
		"graph: a\nscript: b":                                                 "one of graph, script and command",
		"graph: a\nargs: [x]":                                                 "args:",
		"script: a\nset: [x]":                                                 "set:",
		"just words":                                                          "line 1",
	} {
		_, err := sweepfile.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "sweepfile") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("graph: a\nparams:\n- {node: a, param: b, values: [1, x]}\noptions: {a: {b: [1]}}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := sweepfile.Parse(raw)
		if err != nil {
			return
		}
		if _, err := json.Marshal(file); err != nil {
			t.Fatalf("%+v: %v", file, err)
		}
	})
}
