package graph_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"cdui/internal/catalog"
	"cdui/internal/graph"
)

// TestDynamicPorts: which ports a node has follows from its params, however
// odd these are.
// A.8: counts are read as browsers read them, and clamped.
func TestDynamicPorts(t *testing.T) {
	param := func(name, kind, value string) catalog.Param {
		return catalog.Param{Name: name, ParamType: kind, Default: json.RawMessage(value)}
	}
	tensor := catalog.Port{Name: "tensor", DataType: "TENSOR"}
	cat, _ := catalog.New([]catalog.Definition{
		{NodeName: "Start", Outputs: []catalog.Port{{Name: "trigger", DataType: "TRIGGER"}}},
		{NodeName: "X", Outputs: []catalog.Port{tensor}},
		{NodeName: "Split", Inputs: []catalog.Port{tensor}, Params: []catalog.Param{param("chunks", "int", "2")}},
		{NodeName: "PythonScript", Params: []catalog.Param{
			param("input_ports", "int", "1"), param("output_ports", "int", "1"), param("input_types", "string", `""`), param("output_types", "string", `""`),
		}},
		{NodeName: "ComposeTransform", Params: []catalog.Param{param("steps", "int", "2")}, Outputs: []catalog.Port{{Name: "transform", DataType: "TRANSFORM"}}},
		{NodeName: "Print", Inputs: []catalog.Port{{Name: "value", DataType: "ANY"}}},
		{NodeName: "Sink", Inputs: []catalog.Port{{Name: "model", DataType: "MODEL"}}},
	}, nil)
	for _, c := range []struct{ kind, params, in, out, sink, code string }{
		{"Split", `{}`, "tensor", "chunk_1", "Print", ""},
		{"Split", `{}`, "tensor", "chunk_2", "Print", "unknown_output"},
		{"Split", `{"chunks":4}`, "tensor", "chunk_3", "Print", ""},
		{"Split", `{"chunks":3.9}`, "tensor", "chunk_3", "Print", "unknown_output"},
		{"Split", `{"chunks":" 4 pieces"}`, "tensor", "chunk_3", "Print", ""},
		{"Split", `{"chunks":true}`, "tensor", "chunk_1", "Print", ""},
		{"Split", `{"chunks":[9]}`, "tensor", "chunk_2", "Print", "unknown_output"},
		{"Split", `{"chunks":1e300}`, "tensor", "chunk_31", "Print", ""},
		{"Split", `{"chunks":1e300}`, "tensor", "chunk_32", "Print", "unknown_output"},
		{"Split", `{"chunks":-5}`, "tensor", "chunk_1", "Print", "unknown_output"},
		{"ComposeTransform", `{"steps":3}`, "step_4", "transform", "Print", "unknown_input"},
		{"ComposeTransform", `{"steps":3}`, "step_3", "transform", "Print", "type_mismatch"},
		{"PythonScript", `{}`, "in1", "out1", "Print", ""},
		{"PythonScript", `{}`, "in2", "out1", "Print", "unknown_input"},
		{"PythonScript", `{"input_ports":2,"output_ports":9}`, "in2", "out8", "Print", ""},
		{"PythonScript", `{"input_types":"model"}`, "in1", "out1", "Print", "type_mismatch"},
		{"PythonScript", `{"output_ports":2,"output_types":"tensor, model"}`, "in1", "out2", "Sink", ""},
		{"PythonScript", `{"output_types":"tensor"}`, "in1", "out1", "Sink", "type_mismatch"},
	} {
		port := "value"
		if c.sink == "Sink" {
			port = "model"
		}
		raw := fmt.Sprintf(`{"nodes":[{"id":"s","type":"Start"},{"id":"x","type":"X"},{"id":"n","type":%q,"data":{"params":%s}},{"id":"p","type":%q}],
			"edges":[{"source":"s","target":"x","type":"trigger"},
			{"source":"x","sourceHandle":"tensor","target":"n","targetHandle":%q},{"source":"n","sourceHandle":%q,"target":"p","targetHandle":%q}]}`,
			c.kind, c.params, c.sink, c.in, c.out, port)
		code := ""
		for _, f := range graph.Validate(json.RawMessage(raw), cat) {
			code += f.Code
		}
		if code != c.code {
			t.Errorf("%s %s %s → %s: %q, want %q", c.kind, c.params, c.in, c.out, code, c.code)
		}
	}
}

// TestHiddenParamsAreNotChecked: what a param's siblings hide means "not set".
// B.1: visible_when.
func TestHiddenParamsAreNotChecked(t *testing.T) {
	top := 8.0
	cat, _ := catalog.New([]catalog.Definition{
		{NodeName: "Start", Outputs: []catalog.Port{{Name: "trigger", DataType: "TRIGGER"}}},
		{NodeName: "N", Params: []catalog.Param{
			{Name: "mode", ParamType: "select", Default: json.RawMessage(`"a"`)},
			{
				Name: "size", ParamType: "int", MaxValue: &top, Default: json.RawMessage("1"),
				VisibleWhen: map[string]json.RawMessage{"mode": json.RawMessage(`["b","c"]`)},
			},
		}},
	}, nil)
	for params, want := range map[string]int{
		`{"size":9}`:            0,
		`{"size":9,"mode":"b"}`: 1,
		`{"size":9,"mode":"a"}`: 0,
		`{"size":7,"mode":"c"}`: 0,
	} {
		raw := `{"nodes":[{"id":"s","type":"Start"},{"id":"n","type":"N","data":{"params":` + params + `}}],"edges":[{"source":"s","target":"n","type":"trigger"}]}`
		if found := graph.Validate(json.RawMessage(raw), cat); len(found) != want {
			t.Errorf("%s: %+v", params, found)
		}
	}
}
