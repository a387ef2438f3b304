package sweep_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"cdui/internal/catalog"
	"cdui/internal/run"
	"cdui/internal/sweep"
)

const base = `{"nodes":[
	{"id":"note","type":"note"},
	{"id":"drop","type":"Dropout","x":1.50,"data":{"params":{"p":0.25}}},
	{"id":"lin","type":"Linear","data":null},
	{"id":"act","type":"Activation"},
	{"id":"pipe","type":"preset:Training Pipeline"},
	{"id":"sub","type":"subgraph:s"},
	{"id":"odd","type":"Mystery"},
	{"id":"chat","type":"Chat"},
	{"id":"grid","type":"Conv2dKernel"},
	{"id":"twice","type":"Linear"},{"id":"twice","type":"Linear"}
]}`

var limits = sweep.Limits{Runs: 32, Params: 4, Domain: 32}

// builtin is read once.
var builtin = sync.OnceValues(catalog.Builtin)

func lab(tb testing.TB) *catalog.Catalog {
	tb.Helper()
	c, err := builtin()
	if err != nil {
		tb.Fatal(err)
	}
	c, problems := c.With([]catalog.Definition{{
		NodeName: "Chat",
		Params: []catalog.Param{
			{Name: "key", ParamType: catalog.ParamSecret},
			{Name: "on", ParamType: catalog.ParamBool},
			{Name: "mode", ParamType: catalog.ParamSelect, Options: []string{"fast", "slow"}},
			{Name: "text", ParamType: catalog.ParamString},
			{Name: "file", ParamType: catalog.ParamDataFile},
		},
	}}, nil)
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return c
}

func compile(tb testing.TB, spec string) (sweep.Plan, error) {
	tb.Helper()
	return compileBase(tb, spec, sweep.Base{Graph: json.RawMessage(base)})
}

func compileBase(tb testing.TB, spec string, b sweep.Base) (sweep.Plan, error) {
	tb.Helper()
	var s sweep.Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		tb.Fatalf("%s: %v", spec, err)
	}
	return sweep.Compile(s, b, lab(tb), limits)
}

// param is a grid over one param.
func param(address, rest string) string {
	node, name, _ := strings.Cut(address, ".")
	return fmt.Sprintf(`{"method":"grid","params":[{"node_id":%q,"param":%q,%s}]}`, node, name, rest)
}

func domainText(p sweep.Plan, i int) string {
	parts := make([]string, len(p.Params[i].Values))
	for j, v := range p.Params[i].Values {
		parts[j] = string(v)
	}
	return strings.Join(parts, " ")
}

// Proves F.1: ranges have exact ends, int values are rounded half away from
// zero and collapse, values are read as the param takes them.
func TestDomains(t *testing.T) {
	for _, c := range []struct{ address, rest, want string }{
		{"drop.p", `"values":[0.5,1,3e-1]`, "0.5 1 0.3"},
		{"drop.p", `"range":{"min":0.1,"max":0.7,"count":3}`, "0.1 0.4 0.7"},
		{"drop.p", `"range":{"min":0.0001,"max":0.1,"count":4,"scale":"log"}`, "0.0001 0.001 0.01 0.1"},
		{"drop.p", `"range":{"min":0.2,"max":0.7,"count":1}`, "0.2"},
		{"drop.p", `"range":{"min":0.2,"max":0.2,"count":3}`, "0.2"},
		{"lin.in_features", `"values":[8,16.0,3.2e1]`, "8 16 32"},
		{"lin.in_features", `"range":{"min":1,"max":4,"count":7}`, "1 2 3 4"},
		{"lin.in_features", `"range":{"min":1,"max":100,"count":3,"scale":"log","type":"int"}`, "1 10 100"},
		{"lin.in_features", `"range":{"min":2,"max":4,"count":3,"type":"float"}`, "2 3 4"},
		{"chat.on", `"values":[true,false]`, "true false"},
		{"chat.mode", `"values":["slow","fast"]`, `"slow" "fast"`},
		{"chat.text", `"values":["=1","<é>"]`, `"=1" "<é>"`},
	} {
		p, err := compile(t, param(c.address, c.rest))
		if err != nil || domainText(p, 0) != c.want {
			t.Errorf("%s %s: %v, %v; want %s", c.address, c.rest, p.Params, err, c.want)
		}
	}
}

// Proves F.1: what can't be swept, and specs that say nothing.
func TestCompileSaysWhatIsWrong(t *testing.T) {
	many := func(n int) string {
		var v []string
		for i := range n {
			v = append(v, fmt.Sprint(i+1))
		}
		return `"values":[` + strings.Join(v, ",") + `]`
	}
	two := func(a, b string) string {
		return `{"method":"grid","params":[{"node_id":"lin","param":"in_features",` + a + `},{"node_id":"lin","param":"out_features",` + b + `}]}`
	}
	for spec, want := range map[string]string{
		param("dorp.p", `"values":[1]`):                                                                    "params[0] (dorp.p): there is no node \"dorp\"; did you mean drop?",
		param("note.p", `"values":[1]`):                                                                    "there is no node",
		param("twice.in_features", `"values":[1]`):                                                         "2 nodes have the id",
		param("pipe.epochs", `"values":[1]`):                                                               "instance of a preset",
		param("sub.p", `"values":[1]`):                                                                     "instance of a subgraph",
		param("odd.p", `"values":[1]`):                                                                     `no node type "Mystery"`,
		param("lin.in_feature", `"values":[1]`):                                                            "did you mean in_features?",
		param("chat.key", `"values":["x"]`):                                                                "is a secret",
		param("chat.file", `"values":["x"]`):                                                               "is a data_file",
		param("grid.weights", `"values":[[1]]`):                                                            "is a tensor_grid",
		param("lin.in_features", `"values":[1.5]`):                                                         "it takes whole numbers",
		param("lin.in_features", `"values":[true]`):                                                        "it takes whole numbers",
		param("lin.in_features", `"values":["8"]`):                                                         "it takes whole numbers",
		param("lin.in_features", `"values":[null]`):                                                        "a value is a number",
		param("lin.in_features", `"values":[[1]]`):                                                         "a value is a number",
		param("drop.p", `"values":[-1]`):                                                                   "the least is 0",
		param("lin.in_features", `"values":[]`):                                                            "either values or a range",
		param("lin.in_features", `"values":[1],"range":{"min":1}`):                                         "either values or a range",
		param("lin.in_features", `"values":[8,8.0]`):                                                       "values 1 and 2 are both 8",
		param("lin.in_features", many(33)):                                                                 "the limit is 32",
		param("drop.p", `"values":[1e999]`):                                                                "must be finite",
		param("drop.p", `"values":[2]`):                                                                    "the most is 1",
		param("chat.on", `"values":[1]`):                                                                   "it takes true and false",
		param("chat.mode", `"values":["slwo"]`):                                                            "did you mean slow?",
		param("chat.mode", `"values":[true]`):                                                              "it takes fast, slow",
		param("chat.mode", `"range":{"min":1,"max":2,"count":2}`):                                          "list the values",
		param("drop.p", `"range":{"min":0,"max":1,"count":3,"scale":"log"}`):                               "one above 0",
		param("drop.p", `"range":{"min":1,"max":0,"count":3}`):                                             "above max",
		param("drop.p", `"range":{"min":0,"max":1,"count":33}`):                                            "1 to 32",
		param("drop.p", `"range":{"min":0,"max":1,"count":0}`):                                             "1 to 32",
		param("drop.p", `"range":{"min":0,"max":1}`):                                                       "needs min, max and count",
		param("drop.p", `"range":{"min":-1e308,"max":1e308,"count":3}`):                                    "finite",
		param("drop.p", `"range":{"min":0.5,"max":1,"count":2,"type":"int"}`):                              "whole numbers",
		param("drop.p", `"range":{"min":0,"max":1,"count":2,"scale":"cubic"}`):                             "scale is",
		param("drop.p", `"range":{"min":0,"max":1,"count":2,"type":"complex"}`):                            "type is",
		param("lin.in_features", `"range":{"min":1.5,"max":3,"count":2}`):                                  "whole numbers",
		two(many(7), many(5)):                                                                              "35 runs, the limit is 32 (setting MAX_SWEEP_RUNS)",
		`{"method":"grid","params":[]}`:                                                                    "nothing is swept",
		`{"method":"grid","samples":3,"params":[{"node_id":"drop","param":"p","values":[1]}]}`:             "samples",
		`{"method":"random","seed":1,"params":[{"node_id":"drop","param":"p","values":[1]}]}`:              "needs samples and seed",
		`{"method":"random","seed":1,"samples":2,"params":[{"node_id":"drop","param":"p","values":[1]}]}`:  "drawn from 1 combinations",
		`{"method":"random","seed":1,"samples":0,"params":[{"node_id":"drop","param":"p","values":[1]}]}`:  "draw 1 or more",
		`{"method":"random","seed":-1,"samples":1,"params":[{"node_id":"drop","param":"p","values":[1]}]}`: "seed",
		`{"method":"bayes","params":[{"node_id":"drop","param":"p","values":[1]}]}`:                        "method",
		`{"method":"grid","params":[{"arg":"--lr","values":[1]}]}`:                                         "a graph has no arguments",
		`{"method":"grid","params":[{"arg":"--lr","node_id":"drop","values":[1]}]}`:                        "either a node and its param, or an arg",
		`{"method":"grid","params":[{"node_id":"drop","values":[1]}]}`:                                     "name a node and its param",
		`{"method":"grid","params":[` + strings.TrimSuffix(strings.Repeat(`{"node_id":"drop","param":"p","values":[1]},`, 2), ",") + `]}`: "is swept twice",
		`{"method":"grid","params":[` + strings.TrimSuffix(strings.Repeat(`{"node_id":"drop","param":"p","values":[1]},`, 5), ",") + `]}`: "the limit is 4",
	} {
		if _, err := compile(t, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tgives %v, want %q", spec, err, want)
		}
	}
	script := sweep.Base{Script: &run.ScriptSpec{Path: "/t.py"}}
	for spec, want := range map[string]string{
		`{"method":"grid","params":[{"node_id":"drop","param":"p","values":[1]}]}`: "name an arg",
		`{"method":"grid","params":[{"arg":"--lr=3","values":[1]}]}`:               "a name without value",
		`{"method":"grid","params":[{"arg":"--lr","values":[1,1.0]}]}`:             "are both 1",
	} {
		if _, err := compileBase(t, spec, script); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tgives %v, want %q", spec, err, want)
		}
	}
	if _, err := compileBase(t, `{"method":"grid","params":[{"node_id":"a","param":"b","values":[1]}]}`, sweep.Base{}); err == nil || !strings.Contains(err.Error(), "no base") {
		t.Errorf("no base: %v", err)
	}
}

// Proves F.1, SW-01: a grid is the cartesian product, the last param fastest;
// each variant's graph has its values and is otherwise the base's.
func TestAGridAndItsGraphs(t *testing.T) {
	p, err := compile(t, `{"method":"grid","params":[{"node_id":"drop","param":"p","values":[0.1,0.2]},{"node_id":"lin","param":"in_features","values":[8,16,32]}]}`)
	if err != nil || p.Total != 6 || len(p.Variants) != 6 {
		t.Fatalf("%+v, %v", p, err)
	}
	var got []string
	for i, v := range p.Variants {
		if v.Index != i || v.DomainIndex != i {
			t.Errorf("variant %d: %+v", i, v)
		}
		b, err := p.Apply(sweep.Base{Graph: json.RawMessage(base)}, v)
		if err != nil || !strings.Contains(string(b.Graph), `"x":1.50`) || !strings.Contains(string(b.Graph), fmt.Sprintf(`"params":{"in_features":%s}`, v.Values[1])) ||
			!strings.Contains(string(b.Graph), fmt.Sprintf(`"params":{"p":%s}`, v.Values[0])) {
			t.Errorf("variant %d: %s, %v", i, b.Graph, err)
		}
		got = append(got, string(v.Values[0])+"/"+string(v.Values[1]))
	}
	if want := []string{"0.1/8", "0.1/16", "0.1/32", "0.2/8", "0.2/16", "0.2/32"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Proves F.1: a random sweep tries the drawn cells in the order of the draw.
func TestARandomSweep(t *testing.T) {
	p, err := compile(t, `{"method":"random","seed":0,"samples":4,"params":[{"node_id":"drop","param":"p","values":[0.1,0.2,0.3]},{"node_id":"lin","param":"in_features","values":[8,16,32]}]}`)
	if err != nil || p.Total != 9 {
		t.Fatalf("%+v, %v", p, err)
	}
	var cells []int
	var values []string
	for _, v := range p.Variants {
		cells = append(cells, v.DomainIndex)
		values = append(values, string(v.Values[0])+"/"+string(v.Values[1]))
	}
	if !slices.Equal(cells, []int{8, 7, 5, 0}) || !slices.Equal(values, []string{"0.3/32", "0.3/16", "0.2/32", "0.1/8"}) {
		t.Errorf("%v %v", cells, values)
	}
}

// arguments of scripts and of commands can be swept.
func TestArgumentsOfPrograms(t *testing.T) {
	spec := `{"method":"grid","params":[{"arg":"--lr","range":{"min":1e-4,"max":1e-2,"count":3,"scale":"log"}},{"arg":"--amp","values":[true]}]}`
	script := sweep.Base{Script: &run.ScriptSpec{Path: "/t.py", Args: []string{"--lr", "1", "x"}}}
	p, err := compileBase(t, spec, script)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Apply(script, p.Variants[1])
	if err != nil || !slices.Equal(b.Script.Args, []string{"--lr", "0.001", "x", "--amp"}) || script.Script.Args[1] != "1" {
		t.Errorf("%+v of %+v, %v", b.Script, script.Script, err)
	}
	command := sweep.Base{Command: &run.CommandSpec{Argv: []string{"--lr", "--epochs", "3"}}}
	if b, err = p.Apply(command, p.Variants[0]); err != nil || !slices.Equal(b.Command.Argv, []string{"--lr", "--epochs", "3", "--lr", "0.0001", "--amp"}) {
		t.Errorf("%+v, %v", b.Command, err)
	}
}

// Proves F.1: names stay within the limit of a run's, unnamed stay unnamed, and
// seeds wrap around.
func TestNamesAndSeeds(t *testing.T) {
	long := strings.Repeat("é", 64)
	for _, c := range []struct {
		name string
		i    int
		want string
	}{{"", 3, ""}, {"lr", 0, "lr #1"}, {long, 9, strings.Repeat("é", 60) + " #10"}} {
		if got := run.ChildName(c.name, c.i); got != c.want || utf8.RuneCountInString(got) > run.MaxNameChars {
			t.Errorf("%q", got)
		}
	}
	if a, b := run.ChildSeed(4294967295, 0), run.ChildSeed(4294967295, 1); a != 4294967295 || b != 0 {
		t.Errorf("%d %d", a, b)
	}
}

// Proves F.1: options that can't hold for every variant.
func TestOptionsOfASweep(t *testing.T) {
	seed := int64(1)
	for _, c := range []struct {
		options      string
		seeded, seed bool
		variants     int
		want         string
	}{
		{``, false, false, 3, ""},
		{`{"seed":null,"key":null,"target":{"worker":"any"}}`, true, true, 3, ""},
		{`{"seed":3}`, false, false, 3, "seed"},
		{`{"key":"k"}`, false, false, 3, "key"},
		{`{"lane":"interactive"}`, false, false, 3, "lane"},
		{`{"record_outputs":true}`, false, false, 20, ""},
		{`{"record_outputs":true}`, false, false, 21, "record_outputs"},
		{`{}`, true, false, 3, "seed_variants"},
		{`[]`, false, false, 3, "must be an object"},
	} {
		spec := sweep.Spec{}
		if c.seed {
			spec.Seed = &seed
		}
		err := sweep.CheckOptions(json.RawMessage(c.options), spec, c.seeded, c.variants)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.options, err, c.want)
		}
	}
	for _, o := range []sweep.Objective{{}, {Metric: "  ", Direction: "minimize"}, {Metric: strings.Repeat("x", 129), Direction: "minimize"}, {Metric: "loss", Direction: "down"}} {
		if o.Check() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if err := (sweep.Objective{Metric: "loss", Direction: "maximize"}).Check(); err != nil {
		t.Error(err)
	}
}

func number(v string) *run.Last {
	switch v {
	case "":
		return nil
	case "nan", "inf", "-inf":
		return &run.Last{Value: json.RawMessage("null"), Nonfinite: v}
	}
	return &run.Last{Value: json.RawMessage(v)}
}

// Proves F.1: failed runs rank too, running ones don't, ties go by index, NaN is worst.
func TestRanks(t *testing.T) {
	results := []sweep.Result{
		{0, run.Succeeded, number("0.5")},
		{1, run.Failed, number("0.25")},
		{2, run.Succeeded, number("nan")},
		{3, run.Succeeded, nil},
		{4, run.Running, number("0.1")},
		{5, run.Succeeded, number("0.5")},
		{6, sweep.Missing, nil},
		{7, run.Succeeded, number("inf")},
	}
	for direction, want := range map[string][]int{sweep.Minimize: {1, 0, 5, 7, 2, 3, 4, 6}, sweep.Maximize: {7, 0, 5, 1, 2, 3, 4, 6}} {
		ranks, order := sweep.Rank(results, direction)
		if !slices.Equal(order, want) {
			t.Errorf("%s: %v, want %v", direction, order, want)
		}
		for place, i := range order {
			if wantRank := place + 1; place < 5 && ranks[i] != wantRank || place >= 5 && ranks[i] != 0 {
				t.Errorf("%s: variant %d has rank %d at place %d", direction, i, ranks[i], place)
			}
		}
	}
}

func TestRanksDontDependOnTheOrder(t *testing.T) {
	values := []string{"", "nan", "inf", "-inf", "0", "1", "1.5", "-3"}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		results := make([]sweep.Result, n)
		for i := range results {
			results[i] = sweep.Result{Index: i, Status: run.Succeeded, Objective: number(rapid.SampledFrom(values).Draw(t, "value"))}
		}
		direction := rapid.SampledFrom([]string{sweep.Minimize, sweep.Maximize}).Draw(t, "direction")
		indices := func(list []sweep.Result) []int {
			_, order := sweep.Rank(list, direction)
			out := make([]int, n)
			for i, j := range order {
				out[i] = list[j].Index
			}
			return out
		}
		shuffled := rapid.Permutation(results).Draw(t, "shuffled")
		if a, b := indices(results), indices(shuffled); !slices.Equal(a, b) {
			t.Fatalf("%v and %v", a, b)
		}
	})
}

// Proves F.1: never cancelled; cancelling only while something is active.
func TestStates(t *testing.T) {
	of := func(list ...run.Status) (out []sweep.Result) {
		for i, s := range list {
			out = append(out, sweep.Result{Index: i, Status: s})
		}
		return out
	}
	for _, c := range []struct {
		results           []sweep.Result
		failed, cancelled bool
		want              sweep.State
	}{
		{of(run.Running, run.Succeeded), false, false, sweep.Running},
		{of(run.Queued, run.Succeeded), false, true, sweep.Cancelling},
		{of(run.Disconnected), false, false, sweep.Running},
		{of(run.Cancelled, run.Succeeded, sweep.Missing), false, true, sweep.Finished},
		{of(run.Running), true, false, sweep.Failed},
	} {
		if got := sweep.StateOf(c.results, c.failed, c.cancelled); got != c.want {
			t.Errorf("%+v: %s, want %s", c, got, c.want)
		}
	}
}

func TestAWarningWhereNothingIsRanked(t *testing.T) {
	o := sweep.Objective{Metric: "loss", Direction: sweep.Minimize}
	for want, results := range map[string][]sweep.Result{
		"":                       {{0, run.Succeeded, number("1")}, {1, run.Failed, nil}},
		"no variant logged":      {{0, run.Succeeded, nil}, {1, run.Failed, nil}},
		"ended with a number in": {{0, run.Succeeded, number("nan")}},
	} {
		got := sweep.Warning(results, o)
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := sweep.Warning([]sweep.Result{{0, run.Running, nil}}, o); got != "" {
		t.Errorf("a sweep that goes on: %q", got)
	}
}

// Proves F.1: columns, byte order mark, guarded text.
func TestCSV(t *testing.T) {
	params := []sweep.Domain{{Address: sweep.Address{NodeID: "=opt", Param: "lr"}}, {Address: sweep.Address{NodeID: "m", Param: "act"}}}
	got, err := sweep.CSV(params, []sweep.Row{
		{1, 2, 5, "ab", run.Succeeded, number("-0.5"), []json.RawMessage{json.RawMessage(`-0.1`), json.RawMessage(`"=cmd,x"`)}},
		{2, 0, 0, "cd", run.Failed, number("nan"), []json.RawMessage{json.RawMessage(`true`), json.RawMessage(`"relu"`)}},
		{0, 1, 1, "", sweep.Missing, nil, []json.RawMessage{json.RawMessage(`1`), json.RawMessage(`"relu"`)}},
	})
	want := "\ufeffrank,variant_index,domain_index,run_id,status,objective,'=opt.lr,m.act\n" +
		"1,2,5,ab,succeeded,-0.5,-0.1,\"'=cmd,x\"\n2,0,0,cd,failed,nan,true,relu\n,1,1,,missing,,1,relu\n"
	if err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func FuzzCompile(f *testing.F) {
	cat := lab(f)
	f.Add([]byte(`{"method":"random","seed":7,"samples":2,"params":[{"node_id":"drop","param":"p","range":{"min":1e-3,"max":1,"count":9,"scale":"log"}}]}`))
	f.Add([]byte(`{"method":"grid","params":[{"node_id":"lin","param":"in_features","range":{"min":-1e15,"max":1e15,"count":9,"type":"int"}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s sweep.Spec
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		b := sweep.Base{Graph: json.RawMessage(base)}
		p, err := sweep.Compile(s, b, cat, limits)
		if err != nil {
			return
		}
		if len(p.Variants) == 0 || len(p.Variants) > limits.Runs {
			t.Fatalf("%d variants", len(p.Variants))
		}
		for _, v := range p.Variants {
			if got, err := p.Apply(b, v); err != nil || !json.Valid(got.Graph) {
				t.Fatalf("%s: %v", got.Graph, err)
			}
		}
	})
}
