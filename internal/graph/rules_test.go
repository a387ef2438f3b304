package graph_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"cdui/internal/catalog"
	"cdui/internal/graph"
	"cdui/internal/graph/finding"
)

// TestEachKindOfFindingHasItsFile: TestFindings compares what is said of each
// file; this is which file shows which kind.
func TestEachKindOfFindingHasItsFile(t *testing.T) {
	cat := labCatalog(t)
	for kind, files := range map[string]map[string][]string{
		"A.9.1: bypass on a container":                   {"bypass_not_allowed": {finding.CodeBypassNotAllowed}},
		"A.9.2: duplicate ids":                           {"duplicate_id": {finding.CodeDuplicateID}},
		"A.9.3: a preset that holds a subgraph instance": {"preset_with_subgraph": {finding.CodePresetSubgraph}},
		"A.9.4: subgraphs that can't be expanded": {
			"unknown_subgraph": {finding.CodeUnknownSubgraph}, "unreadable_subgraph": {finding.CodeUnreadableSubgraph},
			"trigger_target": {finding.CodeTriggerTarget}, "subgraph_port": {finding.CodeSubgraphPort},
			"recursion": {finding.CodeRecursion}, "too_deep": {finding.CodeTooDeep}, "duplicate_id_expanded": {finding.CodeDuplicateID},
		},
		"A.9.5: a bypass that nothing can stand in for": {"bypass_no_input": {finding.CodeBypassNoInput}},
		"A.9.6: unknown types and presets": {
			"unknown_type": {finding.CodeUnknownType}, "unknown_preset": {finding.CodeUnknownPreset}, "unreadable_preset": {finding.CodeUnreadablePreset},
		},
		"A.9.7: required inputs without an edge": {
			"missing_input": {finding.CodeMissingInput}, "missing_input_bypassed": {finding.CodeMissingInputBypass},
		},
		"A.9.8: values out of range":               {"ranges": {finding.CodeAboveMaximum, finding.CodeBelowMinimum, finding.CodeNotANumber}},
		"A.9.9: edges to nodes that are not there": {"missing_node": {finding.CodeMissingNode}},
		"A.9.10: unknown ports":                    {"unknown_ports": {finding.CodeUnknownOutput, finding.CodeUnknownInput}},
		"A.9.11: types that don't fit":             {"type_mismatch": {finding.CodeTypeMismatch}},
		"A.9.12: no entry point":                   {"no_entry_point": {finding.CodeNoEntryPoint}, "no_nodes": {finding.CodeNoEntryPoint}},
		"A.9.13: cycles":                           {"cycle": {finding.CodeCycle}, "cycle_in_subgraphs": {finding.CodeCycle}},
	} {
		t.Run(kind, func(t *testing.T) {
			for file, want := range files {
				var c struct{ Graph json.RawMessage }
				content, err := os.ReadFile("testdata/findings/" + file + ".json")
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(content, &c); err != nil {
					t.Fatal(err)
				}
				got := codes(graph.Validate(c.Graph, cat))
				for _, code := range want {
					if !slices.Contains(got, code) {
						t.Errorf("%s.json gives %v, which lacks %s", file, got, code)
					}
				}
			}
		})
	}
}

func codes(found []finding.Finding) []string {
	var out []string
	for _, f := range found {
		out = append(out, f.Code)
	}
	return out
}

// A.9: all kinds at once come in the order of the kinds, whatever the order of
// nodes and edges in the file.
func TestFindingsOfAllKindsComeInOrder(t *testing.T) {
	nodes := []string{
		`{"id":"x","type":"TensorCreate"}`, `{"id":"m","type":"SequentialModel"}`,
		`{"id":"range","type":"Dropout","data":{"params":{"p":2}}}`,
		`{"id":"type","type":"Conv9x"}`,
		`{"id":"stuck","type":"SequentialModel","data":{"bypassed":true}}`,
		`{"id":"block","type":"subgraph:nowhere"}`,
		`{"id":"wrap","type":"preset:Wrap"}`,
		`{"id":"twin","type":"Print"}`, `{"id":"twin","type":"Print"}`,
		`{"id":"muted","type":"preset:Halve","data":{"bypassed":true}}`,
	}
	edges := []string{
		`{"source":"m","sourceHandle":"model","target":"range","targetHandle":"tensor"}`,
		`{"source":"x","sourceHandle":"tnsor","target":"range","targetHandle":"tensor"}`,
		`{"source":"gone","sourceHandle":"a","target":"range","targetHandle":"tensor"}`,
		`{"source":"stuck","sourceHandle":"model","target":"range","targetHandle":"tensor"}`,
	}
	const presets = `"presets":[{"preset_name":"Wrap","nodes":[{"id":"b","type":"subgraph:nowhere"}]}]`
	want := []string{
		finding.CodeBypassNotAllowed, finding.CodeDuplicateID, finding.CodePresetSubgraph, finding.CodeUnknownSubgraph, finding.CodeBypassNoInput,
		finding.CodeUnknownType, finding.CodeMissingInput, finding.CodeAboveMaximum, finding.CodeMissingNode, finding.CodeUnknownOutput,
		finding.CodeTypeMismatch, finding.CodeNoEntryPoint,
	}
	for range 2 {
		raw := `{"nodes":[` + strings.Join(nodes, ",") + `],"edges":[` + strings.Join(edges, ",") + `],` + presets + `}`
		if got := slices.Compact(codes(graph.Validate(json.RawMessage(raw), labCatalog(t)))); !slices.Equal(got, want) {
			t.Errorf("kinds in the order\n\t%v\nwant\n\t%v", got, want)
		}
		slices.Reverse(nodes)
		slices.Reverse(edges)
	}
}

// A.8: what connects to what, for every pair of types.
func TestPortTypesConnectAsListed(t *testing.T) {
	types := []string{
		"TENSOR", "MODEL", "DATASET", "DATALOADER", "OPTIMIZER", "LOSS_FN", "SCALAR", "STRING", "IMAGE", "LIST", "ANY", "TRIGGER", "TRANSFORM",
	}
	defs := []catalog.Definition{{NodeName: "Start", Outputs: []catalog.Port{{Name: "trigger", DataType: "TRIGGER"}}}}
	for _, typ := range types {
		defs = append(defs,
			catalog.Definition{NodeName: "Give" + typ, Outputs: []catalog.Port{{Name: "x", DataType: typ}}},
			catalog.Definition{NodeName: "Take" + typ, Inputs: []catalog.Port{{Name: "x", DataType: typ}}})
	}
	cat, problems := catalog.New(defs, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, from := range types {
		for _, to := range types {
			fits := from == to || from == "IMAGE" && to == "TENSOR"
			if from != "TRIGGER" && to != "TRIGGER" {
				fits = fits || from == "ANY" || to == "ANY"
			}
			raw := fmt.Sprintf(`{"nodes":[{"id":"s","type":"Start"},{"id":"a","type":"Give%s"},{"id":"b","type":"Take%s"}],
				"edges":[{"source":"s","target":"a","type":"trigger"},{"source":"a","sourceHandle":"x","target":"b","targetHandle":"x"}]}`, from, to)
			var want []string
			if !fits {
				want = []string{finding.CodeTypeMismatch}
			}
			if got := codes(graph.Validate(json.RawMessage(raw), cat)); !slices.Equal(got, want) {
				t.Errorf("%s into %s: %v, want %v", from, to, got, want)
			}
		}
	}
}

// A.3, A.4: a trigger starts its target and nothing more: it adds neither order
// nor a cycle, and Start is a node of the first level.
func TestTriggersOnlyMarkWhereAGraphBegins(t *testing.T) {
	p := prepare(t, `{"nodes":[
		{"id":"b","type":"Print"},{"id":"a","type":"TensorCreate"},{"id":"s","type":"Start"}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"b","type":"trigger"},
		{"source":"b","sourceHandle":"trigger","target":"a","type":"trigger"},
		{"source":"a","sourceHandle":"tensor","target":"b","targetHandle":"value"}
	]}`)
	if len(p.Levels) != 2 || !slices.Contains(p.Levels[0], "s") || !slices.Contains(p.Levels[0], "a") || !slices.Equal(p.Levels[1], []string{"b"}) {
		t.Errorf("levels %v", p.Levels)
	}
}

// A.4: of a container all inner nodes run when one does, with what feeds them.
func TestAContainerRunsAsAWhole(t *testing.T) {
	p := prepare(t, `{"nodes":[
		{"id":"s","type":"Start"},{"id":"x","type":"TensorCreate"},{"id":"y","type":"TensorCreate"},{"id":"box","type":"subgraph:two"}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"x","type":"trigger"},
		{"source":"x","sourceHandle":"tensor","target":"box","targetHandle":"in1"},
		{"source":"y","sourceHandle":"tensor","target":"box","targetHandle":"in2"}
	],"subgraphs":[{"id":"two","nodes":[{"id":"a","type":"Print"},{"id":"b","type":"Print"}],"edges":[],
		"interface":{"inputs":[{"port":"in1","innerNode":"a","innerPort":"value"},{"port":"in2","innerNode":"b","innerPort":"value"}]}}]}`)
	got := ids(p)
	slices.Sort(got)
	equal(t, "nodes", got, []string{"box/a", "box/b", "s", "x", "y"})
}

// A.5: the graph's own definition of a preset wins over an installed one, a
// broken one that nothing uses is no matter, and a trigger into an instance
// starts the inner nodes that no other one feeds.
func TestAGraphsOwnPresets(t *testing.T) {
	p := prepare(t, `{"nodes":[
		{"id":"s","type":"Start"},{"id":"x","type":"TensorCreate"},{"id":"h","type":"preset:Halve"},{"id":"made","type":"preset:Source"}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"x","type":"trigger"},
		{"source":"s","sourceHandle":"trigger","target":"made","type":"trigger"},
		{"source":"x","sourceHandle":"tensor","target":"h","targetHandle":"tensor"}
	],"presets":[
		{"preset_name":"Halve","nodes":[{"id":"mine","type":"ScalarMultiply","params":{"scalar":0.25}}],
		 "exposed_inputs":[{"name":"tensor","internal_node":"mine","internal_port":"tensor"}]},
		{"preset_name":"Source","nodes":[{"id":"t","type":"TensorCreate"},{"id":"p","type":"Print"}],
		 "edges":[{"source":"t","sourceHandle":"tensor","target":"p","targetHandle":"value"}]},
		{"preset_name":"Unused","nodes":"broken"}
	]}`)
	equal(t, "nodes", ids(p), []string{"s", "x", "h__mine", "made__t", "made__p"})
	equal(t, "the own definition's param", string(p.Nodes[2].Params["scalar"]), "0.25")
}

// A.6: without trigger targets the inner roots start, and definitions that no
// instance reaches may be broken or recursive.
func TestSubgraphsStartAtTheirRoots(t *testing.T) {
	p := prepare(t, `{"nodes":[{"id":"s","type":"Start"},{"id":"b","type":"subgraph:block"}],
	"edges":[{"source":"s","sourceHandle":"trigger","target":"b","type":"trigger"}],
	"subgraphs":[
		{"id":"block","nodes":[{"id":"x","type":"TensorCreate"},{"id":"p","type":"Print"}],
		 "edges":[{"source":"x","sourceHandle":"tensor","target":"p","targetHandle":"value"}]},
		{"id":"self","nodes":[{"id":"again","type":"subgraph:self"}],"edges":[]},
		{"id":"broken","nodes":7}
	]}`)
	equal(t, "levels", p.Levels, [][]string{{"s", "b/x"}, {"b/p"}})
}

// C.1: notes go first, blocks open before presets, bypass is resolved in what
// they give, and only then is decided what runs.
func TestPreparationGoesInItsOrder(t *testing.T) {
	p := prepare(t, `{"nodes":[
		{"id":"s","type":"Start"},{"id":"n","type":"note"},{"id":"box","type":"subgraph:b"},{"id":"draft","type":"TensorCreate"}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"box","type":"trigger"},
		{"source":"n","target":"draft","targetHandle":"x"}
	],"subgraphs":[{"id":"b","nodes":[
		{"id":"x","type":"TensorCreate"},{"id":"mute","type":"Dropout","data":{"bypassed":true}},{"id":"h","type":"preset:Double"}],
		"edges":[{"source":"x","sourceHandle":"tensor","target":"mute","targetHandle":"tensor"},
			{"source":"mute","sourceHandle":"tensor","target":"h","targetHandle":"tensor"}]}]}`)
	equal(t, "edges", wires(p.Edges), []string{
		"box/h__add.tensor>box/h__inner__scale.tensor", "box/x.tensor>box/h__add.tensor_a", "box/x.tensor>box/h__add.tensor_b",
	})
	equal(t, "levels", p.Levels, [][]string{{"s", "box/x"}, {"box/h__add"}, {"box/h__inner__scale"}})
	for _, n := range p.Nodes[1:] {
		if n.Container == nil || *n.Container != "box" {
			t.Errorf("%s doesn't report as box", n.ID)
		}
	}
}

// A.9: of a preset instance validation sees the types alone; inputs, ranges and
// ports inside are checked when it is run.
func TestAPresetInstanceIsCheckedInsideWhenItRuns(t *testing.T) {
	raw := json.RawMessage(`{"nodes":[{"id":"s","type":"Start"},{"id":"b","type":"preset:Broken"}],
		"edges":[{"source":"s","sourceHandle":"trigger","target":"b","type":"trigger"}]}`)
	cat := labCatalog(t)
	if got := codes(graph.Validate(raw, cat)); !slices.Equal(got, []string{finding.CodeUnknownType}) {
		t.Errorf("validate says %v", got)
	}
	if _, found := graph.Prepare(raw, cat); !slices.Equal(codes(found), []string{finding.CodeUnknownType, finding.CodeMissingInput}) {
		t.Errorf("prepare says %+v", found)
	}
}
