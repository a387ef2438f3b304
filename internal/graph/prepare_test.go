package graph_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/catalog"
	"cdui/internal/graph"
	"cdui/internal/graph/finding"
)

// prepare prepares a graph that must be without findings.
func prepare(t *testing.T, raw string) graph.Prepared {
	t.Helper()
	p, found := graph.Prepare(json.RawMessage(raw), labCatalog(t))
	if len(found) > 0 {
		t.Fatalf("findings: %+v", found)
	}
	return p
}

func ids(p graph.Prepared) []string {
	var out []string
	for _, n := range p.Nodes {
		out = append(out, n.ID)
	}
	return out
}

func wires(edges []graph.PreparedEdge) []string {
	var out []string
	for _, e := range edges {
		out = append(out, e.Source+"."+e.SourceHandle+">"+e.Target+"."+e.TargetHandle)
	}
	return out
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n\tgot  %v\n\twant %v", what, got, want)
	}
}

// A.5, A.2: inner ids, internalParams over the definition's, edges moved to the inner ports.
func TestPreparePresetInstance(t *testing.T) {
	p := prepare(t, `{"nodes":[
		{"id":"s","type":"Start"},
		{"id":"x","type":"TensorCreate"},
		{"id":"d","type":"preset:Double","data":{"internalParams":{"add":{"alpha":2.50}}}},
		{"id":"p","type":"Print","data":{"params":{"label":"<out>"}}}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"x","type":"trigger"},
		{"source":"x","sourceHandle":"tensor","target":"d","targetHandle":"tensor"},
		{"source":"d","sourceHandle":"tensor","target":"p","targetHandle":"value"}
	]}`)
	equal(t, "nodes", ids(p), []string{"s", "x", "d__add", "d__inner__scale", "p"})
	equal(t, "edges", wires(p.Edges), []string{
		"d__add.tensor>d__inner__scale.tensor", "x.tensor>d__add.tensor_a", "x.tensor>d__add.tensor_b", "d__inner__scale.tensor>p.value",
	})
	equal(t, "levels", p.Levels, [][]string{{"s", "x"}, {"d__add"}, {"d__inner__scale"}, {"p"}})
	if c := p.Nodes[3].Container; c == nil || *c != "d" || p.Nodes[1].Container != nil {
		t.Errorf("containers: %v, %v", c, p.Nodes[1].Container)
	}
	// Numbers reach Python digit by digit.
	equal(t, "params", string(p.Nodes[2].Params["alpha"]), "2.50")
	equal(t, "types", p.Types(), []string{"Add", "Print", "ScalarMultiply", "Start", "TensorCreate"})
	doc, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"container":null`, `"container":"d"`, `"presets":{}`, `"params":{}`} {
		if !strings.Contains(string(doc), part) {
			t.Errorf("the document lacks %s: %s", part, doc)
		}
	}
}

// A.6, A.2: inner ids, boundary ports, trigger targets and roots; a note goes with its edges.
func TestPrepareNestedSubgraphs(t *testing.T) {
	p := prepare(t, `{"nodes":[
		{"id":"s","type":"Start"},
		{"id":"n","type":"note","position":{"x":1,"y":2}},
		{"id":"a","type":"subgraph:outer"},
		{"id":"p","type":"Print"}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"a","type":"trigger"},
		{"source":"n","target":"p","targetHandle":"value"},
		{"source":"a","sourceHandle":"out","target":"p","targetHandle":"value"}
	],"subgraphs":[
		{"id":"outer","nodes":[{"id":"i","type":"subgraph:inner"},{"id":"h","type":"preset:Halve"}],
		 "edges":[{"source":"i","sourceHandle":"out","target":"h","targetHandle":"tensor"}],
		 "interface":{"inputs":[],"outputs":[{"port":"out","innerNode":"h","innerPort":"tensor"}],"triggerTargets":[]}},
		{"id":"inner","nodes":[{"id":"x","type":"TensorCreate"},{"id":"y","type":"TensorCreate"},{"id":"c","type":"Concat"}],
		 "edges":[{"source":"x","sourceHandle":"tensor","target":"c","targetHandle":"tensor_a"},
		          {"source":"y","sourceHandle":"tensor","target":"c","targetHandle":"tensor_b"}],
		 "interface":{"outputs":[{"port":"out","innerNode":"c","innerPort":"tensor"}],"triggerTargets":["x"]}}
	]}`)
	equal(t, "levels", p.Levels, [][]string{{"s", "a/i/x", "a/i/y"}, {"a/i/c"}, {"a/h__scale"}, {"p"}})
	for _, n := range p.Nodes {
		if strings.HasPrefix(n.ID, "a/") && (n.Container == nil || *n.Container != "a") {
			t.Errorf("%s is not in container a", n.ID)
		}
	}
}

// A.4, A.3: what a running node needs runs too, drafts don't; the last edge into an input wins.
func TestPrepareReach(t *testing.T) {
	const draft = `{"id":"draft","type":"Mystery"},{"id":"ring1","type":"Activation"},{"id":"ring2","type":"Activation"}`
	const ring = `{"source":"ring1","sourceHandle":"tensor","target":"ring2","targetHandle":"tensor"},
		{"source":"ring2","sourceHandle":"tensor","target":"ring1","targetHandle":"tensor"}`
	// y is not triggered, but the sum needs it; the drafts are left alone.
	p := prepare(t, `{"nodes":[
		{"id":"s","type":"Start"},{"id":"x","type":"TensorCreate"},{"id":"y","type":"TensorCreate"},{"id":"sum","type":"Add"},`+draft+`
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"x","type":"trigger"},
		{"source":"x","sourceHandle":"tensor","target":"sum","targetHandle":"tensor_a"},
		{"source":"x","sourceHandle":"tensor","target":"sum","targetHandle":"tensor_b"},
		{"source":"y","sourceHandle":"tensor","target":"sum","targetHandle":"tensor_b"},`+ring+`
	]}`)
	equal(t, "nodes", ids(p), []string{"s", "x", "y", "sum"})
	equal(t, "the last edge into an input wins", wires(p.Edges), []string{"x.tensor>sum.tensor_a", "y.tensor>sum.tensor_b"})
}

// A.7: chains collapse, rings give nothing, triggers move on.
func TestPrepareBypass(t *testing.T) {
	// Two muted nodes in a row collapse; a trigger into the first goes on to
	// the node behind them.
	p := prepare(t, `{"nodes":[
		{"id":"s","type":"Start"},{"id":"x","type":"TensorCreate"},
		{"id":"d1","type":"Dropout","data":{"bypassed":true}},{"id":"d2","type":"Reshape","data":{"bypassed":true}},
		{"id":"p","type":"Print"}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"d1","type":"trigger"},
		{"source":"x","sourceHandle":"tensor","target":"d1","targetHandle":"tensor"},
		{"source":"d1","sourceHandle":"tensor","target":"d2","targetHandle":"tensor"},
		{"source":"d2","sourceHandle":"tensor","target":"p","targetHandle":"value"}
	]}`)
	equal(t, "nodes", ids(p), []string{"s", "x", "p"})
	equal(t, "edges", wires(p.Edges), []string{"x.tensor>p.value"})

	// A ring of muted nodes feeds nothing.
	_, found := graph.Prepare(json.RawMessage(`{"nodes":[
		{"id":"s","type":"Start"},
		{"id":"d1","type":"Dropout","data":{"bypassed":true}},{"id":"d2","type":"Dropout","data":{"bypassed":true}},
		{"id":"p","type":"Print"}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"p","type":"trigger"},
		{"source":"d1","sourceHandle":"tensor","target":"d2","targetHandle":"tensor"},
		{"source":"d2","sourceHandle":"tensor","target":"d1","targetHandle":"tensor"},
		{"source":"d2","sourceHandle":"tensor","target":"p","targetHandle":"value"}
	]}`), labCatalog(t))
	if len(found) != 1 || found[0].Code != finding.CodeMissingInputBypass {
		t.Errorf("ring: %+v", found)
	}
}

// A.1, A.2: a newer format is a warning; a bare name finds the plugin's type.
func TestPrepareResolvesPluginTypes(t *testing.T) {
	p := prepare(t, `{"format_version":2,"nodes":[
		{"id":"s","type":"Start"},{"id":"x","type":"TensorCreate"},{"id":"a","type":"Solo"},{"id":"b","type":"Twin"}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"x","type":"trigger"},
		{"source":"x","sourceHandle":"tensor","target":"a","targetHandle":"tensor"},
		{"source":"a","sourceHandle":"tensor","target":"b","targetHandle":"tensor"}
	]}`)
	equal(t, "types", p.Types(), []string{"Start", "TensorCreate", "alpha:Solo", "alpha:Twin"})
	var codes []string
	for _, w := range p.Warnings {
		codes = append(codes, w.Code)
	}
	equal(t, "warnings", codes, []string{finding.CodeNewerFormat, finding.CodeAmbiguousType})
}

// A.5, CAT-05: Map takes installed presets alone, and what they consist of
// counts among the types that a worker has to know.
func TestPrepareMap(t *testing.T) {
	p := prepare(t, `{"nodes":[
		{"id":"s","type":"Start"},{"id":"csv","type":"CSVReader"},{"id":"m","type":"Map","data":{"params":{"subgraph":"Double"}}},
		{"id":"gone","type":"Map","data":{"params":{"subgraph":"Not installed"}}}
	],"edges":[
		{"source":"s","sourceHandle":"trigger","target":"csv","type":"trigger"},
		{"source":"csv","sourceHandle":"labels","target":"m","targetHandle":"items"},
		{"source":"csv","sourceHandle":"labels","target":"gone","targetHandle":"items"}
	],"presets":[{"preset_name":"Double","nodes":"the file's own presets don't count for Map"}]}`)
	doc, err := json.Marshal(p.Presets)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "presets", string(doc), `{"Double":{"nodes":[`+
		`{"id":"add","type":"Add","params":{},"container":null},`+
		`{"id":"inner__scale","type":"ScalarMultiply","params":{"scalar":0.5},"container":"inner"}],`+
		`"edges":[{"source":"add","sourceHandle":"tensor","target":"inner__scale","targetHandle":"tensor"}],`+
		`"levels":[["add"],["inner__scale"]],`+
		`"inputs":[{"name":"tensor","node":"add","port":"tensor_a"},{"name":"tensor","node":"add","port":"tensor_b"}],`+
		`"outputs":[{"name":"tensor","node":"inner__scale","port":"tensor"}]}}`)
	equal(t, "types", slices.Contains(p.Types(), "ScalarMultiply"), true)
}

// chainGraph is x → n0 → n1 → …
func chainGraph(n int) json.RawMessage {
	var nodes, edges strings.Builder
	nodes.WriteString(`{"id":"s","type":"Start"},{"id":"x","type":"TensorCreate"}`)
	edges.WriteString(`{"source":"s","sourceHandle":"trigger","target":"x","type":"trigger"}`)
	before := "x"
	for i := range n {
		id := fmt.Sprintf("n%d", i)
		fmt.Fprintf(&nodes, `,{"id":%q,"type":"Activation"}`, id)
		fmt.Fprintf(&edges, `,{"source":%q,"sourceHandle":"tensor","target":%q,"targetHandle":"tensor"}`, before, id)
		before = id
	}
	return json.RawMessage(`{"nodes":[` + nodes.String() + `],"edges":[` + edges.String() + `]}`)
}

func TestLargeGraphs(t *testing.T) {
	cat := labCatalog(t)
	for _, n := range []int{500, 2000} {
		raw := chainGraph(n)
		if found := graph.Validate(raw, cat); len(found) > 0 {
			t.Fatalf("%d: %+v", n, found[0])
		}
		p, found := graph.Prepare(raw, cat)
		if len(found) > 0 || len(p.Levels) != n+1 {
			t.Fatalf("%d levels, %+v", len(p.Levels), found)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	cat := labCatalog(b)
	for _, n := range []int{500, 2000} {
		raw := chainGraph(n)
		b.Run(fmt.Sprintf("%d levels", n), func(b *testing.B) {
			for b.Loop() {
				graph.Validate(raw, cat)
			}
		})
	}
}

func TestFindingsAreBounded(t *testing.T) {
	nodes := make([]string, 3000)
	for i := range nodes {
		nodes[i] = fmt.Sprintf(`{"id":"n%d","type":"Mystery%d"}`, i, i)
	}
	found := graph.Validate(json.RawMessage(`{"nodes":[`+strings.Join(nodes, ",")+`]}`), labCatalog(t))
	if last := found[len(found)-1]; len(found) != 1001 || last.Code != finding.CodeTooMany {
		t.Errorf("%d findings, the last is %+v", len(found), last)
	}
}

// TestPreparedOrder: in any graph levels respect edges, every node is in one
// level, and ids are unique.
// C.2: levels follow the edges.
func TestPreparedOrder(t *testing.T) {
	cat := labCatalog(t)
	rapid.Check(t, func(rt *rapid.T) {
		p, found := graph.Prepare(drawGraph(rt), cat)
		if len(found) > 0 {
			return
		}
		checkPrepared(rt, p)
	})
}

func checkPrepared(t rapid.TB, p graph.Prepared) {
	level := map[string]int{}
	for i, l := range p.Levels {
		if len(l) == 0 {
			t.Fatalf("level %d is empty", i)
		}
		for _, id := range l {
			if _, twice := level[id]; twice {
				t.Fatalf("%q is in two levels", id)
			}
			level[id] = i
		}
	}
	seen := map[string]bool{}
	for _, n := range p.Nodes {
		if _, ok := level[n.ID]; !ok || seen[n.ID] {
			t.Fatalf("%q: in a level %v, seen before %v", n.ID, ok, seen[n.ID])
		}
		seen[n.ID] = true
	}
	if len(seen) != len(level) {
		t.Fatalf("%d nodes, %d in levels", len(seen), len(level))
	}
	into := map[string]bool{}
	for _, e := range p.Edges {
		if level[e.Source] >= level[e.Target] {
			t.Fatalf("%s (level %d) feeds %s (level %d)", e.Source, level[e.Source], e.Target, level[e.Target])
		}
		to := e.Target + "\x00" + e.TargetHandle
		if into[to] {
			t.Fatalf("two edges into %s of %s", e.TargetHandle, e.Target)
		}
		into[to] = true
	}
}

// drawGraph draws a graph of adders, instances and muted nodes that has few
// faults beside cycles.
func drawGraph(t *rapid.T) json.RawMessage {
	type any = map[string]interface{}
	kinds := []string{"Activation", "Add", "preset:Double", "preset:Halve", "subgraph:two", "TensorCreate"}
	n := rapid.IntRange(1, 12).Draw(t, "nodes")
	nodes := []any{{"id": "s", "type": "Start"}}
	edges := []any{}
	block := any{
		"id": "two", "nodes": []any{{"id": "l", "type": "preset:Halve"}, {"id": "r", "type": "Activation"}},
		"edges": []any{{"source": "l", "sourceHandle": "tensor", "target": "r", "targetHandle": "tensor"}},
		"interface": any{
			"inputs":  []any{{"port": "tensor", "innerNode": "l", "innerPort": "tensor"}},
			"outputs": []any{{"port": "tensor", "innerNode": "r", "innerPort": "tensor"}},
		},
	}
	for i := range n {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		if i == 0 {
			kind = "TensorCreate"
		}
		id := fmt.Sprintf("n%d", i)
		muted := kind == "Activation" && rapid.IntRange(0, 4).Draw(t, "muted") == 0
		nodes = append(nodes, any{"id": id, "type": kind, "data": any{"bypassed": muted}})
		inputs := []string{"tensor"}
		switch kind {
		case "TensorCreate":
			inputs = nil
		case "Add":
			inputs = []string{"tensor_a", "tensor_b"}
		}
		for _, in := range inputs {
			high := i - 1
			if rapid.IntRange(0, 20).Draw(t, "backwards") == 0 {
				high = n - 1
			}
			from := fmt.Sprintf("n%d", rapid.IntRange(0, high).Draw(t, "from"))
			edges = append(edges, any{"source": from, "sourceHandle": "tensor", "target": id, "targetHandle": in})
		}
		if rapid.IntRange(0, 3).Draw(t, "trigger") == 0 {
			edges = append(edges, any{"source": "s", "sourceHandle": "trigger", "target": id, "type": "trigger"})
		}
	}
	raw, err := json.Marshal(any{"nodes": nodes, "edges": edges, "subgraphs": []any{block}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func fuzzCatalog(f *testing.F) *catalog.Catalog {
	f.Helper()
	seeds(f)
	return labCatalog(f)
}

func FuzzValidate(f *testing.F) {
	cat := fuzzCatalog(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, x := range graph.Validate(raw, cat) {
			if x.Code == "" || x.Message == "" {
				t.Errorf("finding without code or message: %+v", x)
			}
		}
	})
}

func FuzzPrepare(f *testing.F) {
	cat := fuzzCatalog(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, found := graph.Prepare(raw, cat)
		if len(found) > 0 {
			return
		}
		checkPrepared(t, p)
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
	})
}

// TestTriggersThroughMutedNodesAreBounded: each of many triggers into a long
// chain of muted nodes is followed to the chain's end.
func TestTriggersThroughMutedNodesAreBounded(t *testing.T) {
	var nodes, edges []string
	for i := range 3000 {
		nodes = append(nodes, fmt.Sprintf(`{"id":"n%d","type":"Dropout","data":{"bypassed":true}}`, i))
		edges = append(edges,
			fmt.Sprintf(`{"source":"n%d","sourceHandle":"tensor","target":"n%d","targetHandle":"tensor"}`, i, i+1),
			fmt.Sprintf(`{"source":"s","target":"n%d","type":"trigger"}`, i))
	}
	raw := `{"nodes":[{"id":"s","type":"Start"},{"id":"n3000","type":"Dropout"},` + strings.Join(nodes, ",") + `],"edges":[` + strings.Join(edges, ",") + `]}`
	found := graph.Validate(json.RawMessage(raw), labCatalog(t))
	if len(found) == 0 || found[0].Code != finding.CodeTooLarge {
		t.Errorf("%+v", found)
	}
}
