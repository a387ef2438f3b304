package function_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"cdui/internal/catalog"
	"cdui/internal/graph/function"
)

func builtin(tb testing.TB) *catalog.Catalog {
	tb.Helper()
	c, err := catalog.Builtin()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Proves D.6.
func TestContractOfTheSharedGraph(t *testing.T) {
	raw, err := os.ReadFile("../../../../shared/graphs/api-function.json")
	if err != nil {
		t.Skip("no graph files beside the repository")
	}
	c, problems := function.Of(raw, builtin(t))
	if len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	doc, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"inputs":[{"name":"message","type":"string","required":false,"default":"hello from the canvas","description":"Text to echo back"}],` +
		`"outputs":[{"name":"echo","description":"The message, passed through Print"}]}`
	if string(doc) != want {
		t.Errorf("%s", doc)
	}
	values, problems := c.Arguments(map[string]json.RawMessage{})
	if len(problems) > 0 || string(values["message"]) != `"hello from the canvas"` {
		t.Errorf("%s, %+v", values, problems)
	}
}

// inputNode is a graph with one input, which Print passes on.
func inputGraph(params, more string) json.RawMessage {
	return json.RawMessage(`{"nodes":[{"id":"s","type":"Start"},{"id":"in","type":"GraphInput","data":{"params":` + params + `}},
		{"id":"out","type":"GraphOutput"}` + more + `],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"in","type":"trigger"},
		{"source":"in","sourceHandle":"value","target":"out","targetHandle":"value"}]}`)
}

// D.6, A.6: inputs and outputs inside a block are no part of the contract.
func TestContractProblems(t *testing.T) {
	for name, c := range map[string]struct {
		graph json.RawMessage
		want  []string
	}{
		"fine":          {inputGraph(`{}`, ""), nil},
		"bad name":      {inputGraph(`{"name":"1st input"}`, ""), []string{"invalid_contract in"}},
		"bad type":      {inputGraph(`{"type":"tensor"}`, ""), []string{"invalid_contract in"}},
		"bad default":   {inputGraph(`{"type":"integer","required":false,"default":"many"}`, ""), []string{"invalid_contract in"}},
		"double":        {inputGraph(`{}`, `,{"id":"in2","type":"GraphInput"}`), []string{"invalid_contract in2", "untriggered_input in2"}},
		"out of reach":  {inputGraph(`{}`, `,{"id":"x","type":"TensorCreate"},{"id":"o2","type":"GraphOutput","data":{"params":{"name":"b"}}}`), []string{"invalid_graph o2", "unreachable_output o2"}},
		"invalid":       {inputGraph(`{}`, `,{"id":"m","type":"Mystery"}`), []string{"invalid_graph m"}},
		"no entry":      {json.RawMessage(`{"nodes":[{"id":"in","type":"GraphInput"}]}`), []string{"no_entry_points "}},
		"not a graph":   {json.RawMessage(`7`), []string{"invalid_graph "}},
		"inside blocks": {json.RawMessage(`{"nodes":[{"id":"s","type":"Start"},{"id":"b","type":"subgraph:b"}],"edges":[{"source":"s","target":"b","type":"trigger"}],"subgraphs":[{"id":"b","nodes":[{"id":"i","type":"GraphInput","data":{"params":{"name":"?"}}}]}]}`), nil},
	} {
		_, problems := function.Of(c.graph, builtin(t))
		var got []string
		for _, p := range problems {
			got = append(got, p.Code+" "+p.NodeID)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

// Proves D.6.
func TestArguments(t *testing.T) {
	for _, c := range []struct{ kind, sent, want, wrong string }{
		{kind: "string", sent: `"a"`, want: `"a"`},
		{kind: "string", sent: `1`, wrong: "must be a string, not 1"},
		{kind: "number", sent: `1.50`, want: `1.50`},
		{kind: "number", sent: `" 2.5 "`, want: `2.5`},
		{kind: "number", sent: `"NaN"`, wrong: `must be a number, not "NaN"`},
		{kind: "integer", sent: `3`, want: `3`},
		{kind: "integer", sent: `3.0`, want: `3`},
		{kind: "integer", sent: `"4"`, want: `4`},
		{kind: "integer", sent: `3.5`, wrong: "must be an integer, not 3.5"},
		{kind: "integer", sent: `true`, wrong: "must be an integer, not a boolean"},
		{kind: "boolean", sent: `true`, want: `true`},
		{kind: "boolean", sent: `"False"`, want: `false`},
		{kind: "boolean", sent: `1`, wrong: "must be a boolean"},
		{kind: "json", sent: `{"a":[1,null]}`, want: `{"a":[1,null]}`},
		{kind: "json", sent: `null`, want: `null`},
		{kind: "image", sent: `"data:image/png;base64,aGk="`, want: `"aGk="`},
		{kind: "image", sent: `"???"`, wrong: "base64"},
		{kind: "number", sent: `null`, wrong: "it is required"},
	} {
		contract := function.Contract{Inputs: []function.Input{{Name: "x", Type: c.kind, Required: true}}}
		values, problems := contract.Arguments(map[string]json.RawMessage{"x": json.RawMessage(c.sent)})
		if c.wrong != "" {
			if len(problems) != 1 || problems[0].Code != function.CodeInvalidInput || !strings.Contains(problems[0].Message, c.wrong) {
				t.Errorf("%s %s: %+v, want %q", c.kind, c.sent, problems, c.wrong)
			}
			continue
		}
		if len(problems) > 0 || string(values["x"]) != c.want {
			t.Errorf("%s %s: %s, %+v", c.kind, c.sent, values["x"], problems)
		}
	}
}

// Proves D.6.
func TestArgumentsDefaultsAndStrangers(t *testing.T) {
	contract := function.Contract{Inputs: []function.Input{
		{Name: "epochs", Type: "integer", Default: "3"},
		{Name: "tags", Type: "json", Default: `["a"]`},
		{Name: "image", Type: "image"},
		{Name: "need", Type: "string", Required: true},
	}}
	values, problems := contract.Arguments(map[string]json.RawMessage{"need": json.RawMessage(`""`)})
	if len(problems) > 0 || string(values["epochs"]) != "3" || string(values["tags"]) != `["a"]` || string(values["image"]) != "null" {
		t.Errorf("%s, %+v", values, problems)
	}
	_, problems = contract.Arguments(map[string]json.RawMessage{"epoch": json.RawMessage(`1`)})
	if len(problems) != 2 || !strings.Contains(problems[0].Message, "required") || !strings.Contains(problems[1].Message, "did you mean epochs?") {
		t.Errorf("%+v", problems)
	}
}

func FuzzContract(f *testing.F) {
	cat := builtin(f)
	f.Add([]byte(inputGraph(`{"type":"number","required":false,"default":"1"}`, "")), []byte(`{"input":"2"}`))
	f.Fuzz(func(t *testing.T, raw, sent []byte) {
		c, problems := function.Of(raw, cat)
		var args map[string]json.RawMessage
		if len(problems) > 0 || json.Unmarshal(sent, &args) != nil {
			return
		}
		values, problems := c.Arguments(args)
		if len(problems) > 0 {
			return
		}
		if _, err := json.Marshal(values); err != nil {
			t.Error(err)
		}
	})
}
