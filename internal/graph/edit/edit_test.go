package edit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cdui/internal/catalog"
	"cdui/internal/graph/edit"
)

func labCatalog(tb testing.TB) *catalog.Catalog {
	tb.Helper()
	c, err := catalog.Builtin()
	if err != nil {
		tb.Fatal(err)
	}
	c, problems := c.With([]catalog.Definition{{
		NodeName: "lab:Chat",
		Params:   []catalog.Param{{Name: "key", ParamType: catalog.ParamSecret}, {Name: "on", ParamType: catalog.ParamBool}},
	}}, nil)
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return c
}

const file = `{"nodes":[
	{"id":"note","type":"note"},
	{"id":"drop","type":"Dropout","x":1.50,"data":{"params":{"p":0.25}}},
	{"id":"drop.a","type":"Dropout"},
	{"id":"lin","type":"Linear","data":null},
	{"id":"act","type":"Activation"},
	{"id":"grid","type":"Conv2dKernel"},
	{"id":"train-pipeline","type":"preset:Training Pipeline","data":{"params":{},"internalParams":{"dataset":{"split":"train"}}}},
	{"id":"own","type":"preset:Own"},
	{"id":"lost","type":"preset:Lost"},
	{"id":"sub","type":"subgraph:s"},
	{"id":"odd","type":"Mystery"},
	{"id":"chat","type":"Chat"},
	{"id":"twice","type":"Linear"},{"id":"twice","type":"Linear"},
	{"id":"loop","type":"TrainingLoop"}
],"presets":[{"preset_name":"Own","nodes":[{"id":"d","type":"Dropout"},{"id":"p","type":"preset:Own"}]}]}`

func TestSet(t *testing.T) {
	for assignment, want := range map[string]string{
		"drop.p=0.5":                            `"params":{"p":0.5}`,
		"drop.p=3e-4":                           `"params":{"p":3e-4}`,
		"drop.p=.5":                             `"params":{"p":0.5}`,
		"drop.a.p=1":                            `"id":"drop.a","type":"Dropout"`,
		"lin.in_features=64":                    `"params":{"in_features":64}`,
		"lin.in_features=1e3":                   `"params":{"in_features":1000}`,
		"act.function=gelu":                     `"params":{"function":"gelu"}`,
		"grid.weights=[[1,2.50],[3,4]]":         `"params":{"weights":[[1,2.50],[3,4]]}`,
		"train-pipeline.dataset.split=test":     `"internalParams":{"dataset":{"split":"test"}}`,
		"train-pipeline.train_loop.epochs=1":    `"internalParams":{"dataset":{"split":"train"},"train_loop":{"epochs":1}}`,
		"train-pipeline.dataset.data_dir=a=b.c": `"data_dir":"a=b.c"`,
		"own.d.p=0.1":                           `"internalParams":{"d":{"p":0.1}}`,
		"chat.key=<sk>":                         `"params":{"key":"<sk>"}`,
		"chat.on=Yes":                           `"params":{"on":true}`,
		"loop.device=CUDA:1":                    `"params":{"device":"cuda:1"}`,
	} {
		raw, err := edit.Set(json.RawMessage(file), labCatalog(t), []string{assignment})
		if err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%s: %s, %v", assignment, raw, err)
		}
		if !strings.Contains(string(raw), `"x":1.50`) {
			t.Errorf("%s: the rest has changed: %s", assignment, raw)
		}
	}
}

func TestSetTheLastWins(t *testing.T) {
	raw, err := edit.Set(json.RawMessage(file), labCatalog(t), []string{"drop.p=0.5", "drop.p=0.75"})
	if err != nil || !strings.Contains(string(raw), `"p":0.75`) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestSetSaysWhatIsWrong(t *testing.T) {
	for assignment, want := range map[string]string{
		"drop":                           "write node.param=value",
		"drop=1":                         "write node.param=value",
		"dorp.p=1":                       `there is no node "dorp"; did you mean drop?`,
		"note.p=1":                       `there is no node "note"`,
		"lin.in_feature=1":               "did you mean in_features?",
		"lin.bias=1":                     "Linear has no param \"bias\"; there are in_features, out_features",
		"lin.in_features=many":           `param "in_features" is a whole number, not "many"`,
		"lin.in_features=1.5":            "whole number",
		"drop.p=nan":                     "is a number",
		"drop.p=2":                       "the most is 1",
		"act.function=rlu":               "did you mean relu?",
		"act.function=quux":              "it can be relu, sigmoid",
		"chat.on=maybe":                  "true or false",
		"grid.weights=1":                 "as JSON",
		"twice.in_features=1":            "several nodes",
		"sub.p=1":                        "instance of a subgraph",
		"odd.p=1":                        `there is no node type "Mystery"`,
		"lost.d.p=1":                     `there is no preset "Lost"`,
		"own.p.d=1":                      "a preset inside a preset",
		"train-pipeline.epochs=1":        `no inner node "epochs"; there are dataloader, dataset, loss, optimizer, train_loop`,
		"train-pipeline.trainloop.x=1":   "did you mean train_loop?",
		"train-pipeline.loss.typ=L1Loss": "did you mean type?",
	} {
		_, err := edit.Set(json.RawMessage(file), labCatalog(t), []string{assignment})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", assignment, err, want)
		}
	}
}

func FuzzSet(f *testing.F) {
	cat := labCatalog(f)
	f.Add([]byte(file), "drop.p=0.5")
	f.Add([]byte(`{"nodes":[{"id":"","type":""}]}`), ".p=1")
	f.Fuzz(func(t *testing.T, raw []byte, assignment string) {
		out, err := edit.Set(raw, cat, []string{assignment})
		if err == nil && !json.Valid(out) {
			t.Errorf("%q makes %s", assignment, out)
		}
	})
}
