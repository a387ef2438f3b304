package graph_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cdui/internal/catalog"
	"cdui/internal/graph"
	"cdui/internal/graph/finding"
)

// labCatalog is the built-in catalogue with a few types and presets that tests
// need.
func labCatalog(tb testing.TB) *catalog.Catalog {
	tb.Helper()
	c, err := catalog.Builtin()
	if err != nil {
		tb.Fatal(err)
	}
	tensor := catalog.Port{Name: "tensor", DataType: "TENSOR"}
	c, problems := c.With([]catalog.Definition{
		{NodeName: "alpha:Twin", Inputs: []catalog.Port{tensor}, Outputs: []catalog.Port{tensor}},
		{NodeName: "beta:Twin", Inputs: []catalog.Port{tensor}, Outputs: []catalog.Port{tensor}},
		{NodeName: "alpha:Solo", Inputs: []catalog.Port{tensor}, Outputs: []catalog.Port{tensor}},
	}, []catalog.Preset{
		{
			Name:           "Double",
			Nodes:          []catalog.PresetNode{{ID: "add", Type: "Add"}, {ID: "inner", Type: "preset:Halve"}},
			Edges:          []catalog.PresetEdge{{Source: "add", SourceHandle: "tensor", Target: "inner", TargetHandle: "tensor"}},
			ExposedInputs:  []catalog.ExposedPort{{Name: "tensor", InternalNode: "add", InternalPort: "tensor_a"}, {Name: "tensor", InternalNode: "add", InternalPort: "tensor_b"}},
			ExposedOutputs: []catalog.ExposedPort{{Name: "tensor", InternalNode: "inner", InternalPort: "tensor"}},
		},
		{
			Name:  "Broken",
			Nodes: []catalog.PresetNode{{ID: "add", Type: "Ad"}, {ID: "lin", Type: "Linear"}},
		},
		{
			Name:           "Halve",
			Nodes:          []catalog.PresetNode{{ID: "scale", Type: "ScalarMultiply", Params: map[string]json.RawMessage{"scalar": json.RawMessage("0.5")}}},
			ExposedInputs:  []catalog.ExposedPort{{Name: "tensor", InternalNode: "scale", InternalPort: "tensor"}},
			ExposedOutputs: []catalog.ExposedPort{{Name: "tensor", InternalNode: "scale", InternalPort: "tensor"}},
		},
	})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return c
}

// TestFindings has a file for each kind of finding, with what Validate and
// Prepare say of it beside it. `prepare` is absent where both say the same.
func TestFindings(t *testing.T) {
	cat := labCatalog(t)
	files, err := filepath.Glob("testdata/findings/*.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			var c struct {
				Graph    json.RawMessage
				Validate []finding.Finding
				Prepare  *[]finding.Finding
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(content, &c); err != nil {
				t.Fatal(err)
			}
			if c.Prepare == nil {
				c.Prepare = &c.Validate
			}
			compare(t, "Validate", graph.Validate(c.Graph, cat), c.Validate)
			_, found := graph.Prepare(c.Graph, cat)
			compare(t, "Prepare", found, *c.Prepare)
			for _, f := range append(c.Validate, *c.Prepare...) {
				seen[f.Code] = true
			}
		})
	}
	for _, code := range finding.Codes() {
		if !seen[code] && code != finding.CodeTooMany {
			t.Errorf("no file shows the finding %s", code)
		}
	}
}

func compare(t *testing.T, who string, got, want []finding.Finding) {
	t.Helper()
	text := func(l []finding.Finding) []string {
		lines := make([]string, len(l))
		for i, f := range l {
			line, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			lines[i] = string(line)
		}
		return lines
	}
	if !slices.Equal(text(got), text(want)) {
		t.Errorf("%s says\n\t%s\nwant\n\t%s", who, strings.Join(text(got), "\n\t"), strings.Join(text(want), "\n\t"))
	}
}

// TestSharedGraphs: graph files of others validate clean and can be prepared.
// A.1, A.2, A.3: the files beside the repository are of the format as others write it.
func TestSharedGraphs(t *testing.T) {
	cat := labCatalog(t)
	files, err := filepath.Glob("../../../shared/graphs/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no graph files beside the repository")
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if r := graph.Inspect(content, cat); len(r.Findings)+len(r.Warnings) > 0 {
			t.Errorf("%s: %+v", file, r)
		}
		p, found := graph.Prepare(content, cat)
		if len(found) > 0 || len(p.Nodes) == 0 || len(p.Levels) == 0 {
			t.Errorf("%s: %+v", file, found)
		}
	}
}

// seeds gives a fuzz target the graphs of TestFindings.
func seeds(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/findings/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var c struct{ Graph json.RawMessage }
		if err := json.Unmarshal(content, &c); err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(c.Graph))
	}
}

func TestDocumentListsEveryCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/graphs.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range append(finding.Codes(), finding.CodeNewerFormat, finding.CodeAmbiguousType) {
		if !strings.Contains(string(page), "`"+code+"`") {
			t.Errorf("docs/graphs.md says nothing of %s", code)
		}
	}
}
