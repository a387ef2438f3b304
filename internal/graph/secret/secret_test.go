package secret_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"cdui/internal/catalog"
	"cdui/internal/graph/secret"
)

func labCatalog(tb testing.TB) *catalog.Catalog {
	tb.Helper()
	c, problems := catalog.New([]catalog.Definition{
		{NodeName: "Chat", Params: []catalog.Param{{Name: "key", ParamType: catalog.ParamSecret}, {Name: "model", ParamType: catalog.ParamString}}},
		{NodeName: "Plain", Params: []catalog.Param{{Name: "key", ParamType: catalog.ParamString}}},
	}, []catalog.Preset{{Name: "Talk", Nodes: []catalog.PresetNode{{ID: "c", Type: "Chat"}, {ID: "p", Type: "Plain"}}}})
	if len(problems) > 0 {
		tb.Fatal(problems)
	}
	return c
}

const secretGraph = `{
	"name": "kept <as> it is", "later": {"n": 1.50},
	"nodes": [
		{"id":"n","type":"note","data":{"params":{"text":"not secret"}}},
		{"id":"a","type":"Chat","data":{"params":{"key":"s3cr3t-1","model":"open-1"}}},
		{"id":"a","type":"Chat","data":{"params":{"key":"s3cr3t-2"}}},
		{"id":"b","type":"Chat","data":{"params":{"key":""}}},
		{"id":"c","type":"Mystery","data":{"params":{"x":"s3cr3t-3","y":{"z":["s3cr3t-4"]},"n":12345}}},
		{"id":"d","type":"preset:Talk","data":{"internalParams":{"c":{"key":"s3cr3t-5","model":"open-2"},"p":{"key":"open-3"},"gone":{"q":"s3cr3t-6"}}}},
		{"id":"e","type":"preset:Nowhere","data":{"internalParams":{"c":{"model":"s3cr3t-7"}}}},
		{"id":"f","type":"Script","data":{"params":{"path":"open-4"}}},
		{"id":"g","type":"preset:Shadow","data":{"internalParams":{"c":{"key":"s3cr3t-8"}}}},
		"no node", 7
	],
	"presets": [
		{"preset_name":"Shadow","nodes":[{"id":"c","type":"Chat","params":{"key":"s3cr3t-9","model":"open-5"}}]},
		{"preset_name":"Broken","nodes":[{"id":"c","type":"Chat","params":{"key":"s3cr3t-10"}}],"edges":7}
	],
	"subgraphs": [{"id":"s","nodes":[{"id":"a","type":"Chat","data":{"params":{"key":"s3cr3t-11"}}}]}],
	"edges": []
}`

func decode(t *testing.T, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// A.10: every walk finds secrets, and all values of unknown types count as such.
func TestScrubAndRestore(t *testing.T) {
	cat := labCatalog(t)
	scrubbed, vault, err := secret.Scrub(json.RawMessage(secretGraph), cat)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(scrubbed), "s3cr3t") || strings.Contains(string(scrubbed), "12345") {
		t.Errorf("a secret is left: %s", scrubbed)
	}
	for i := range 5 {
		if open := fmt.Sprintf("open-%d", i+1); !strings.Contains(string(scrubbed), open) {
			t.Errorf("%s is gone", open)
		}
	}
	if !strings.Contains(string(scrubbed), "1.50") || !strings.Contains(string(scrubbed), "<as>") {
		t.Errorf("the rest has changed: %s", scrubbed)
	}
	restored, err := secret.Restore(scrubbed, vault)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(decode(t, restored), decode(t, []byte(secretGraph))) {
		t.Errorf("restored is something else: %s", restored)
	}
	again, empty, err := secret.Scrub(scrubbed, cat)
	if err != nil || !empty.Empty() || string(again) != string(scrubbed) {
		t.Errorf("scrubbing twice: %v, %v", empty, err)
	}
}

func TestRestoreRefusesAnotherGraph(t *testing.T) {
	_, vault, err := secret.Scrub(json.RawMessage(secretGraph), labCatalog(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{`{"nodes":[]}`, `{"nodes":[{},{"data":{"params":{"key":"set"}}}]}`, `[]`} {
		if _, err := secret.Restore(json.RawMessage(other), vault); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func TestVaultShowsNothing(t *testing.T) {
	_, vault, err := secret.Scrub(json.RawMessage(secretGraph), labCatalog(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(format, vault); strings.Contains(s, "s3cr3t") {
			t.Errorf("%s shows %s", format, s)
		}
	}
	if doc, err := json.Marshal(vault); err == nil {
		t.Errorf("written down: %s", doc)
	}
}

func FuzzScrub(f *testing.F) {
	cat := labCatalog(f)
	f.Add([]byte(secretGraph))
	f.Add([]byte(`{"nodes":[{"type":"Chat","data":{"params":{"key":{"a":1}}}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		scrubbed, vault, err := secret.Scrub(raw, cat)
		if err != nil {
			return
		}
		restored, err := secret.Restore(scrubbed, vault)
		if err != nil {
			t.Fatal(err)
		}
		if !vault.Empty() && !reflect.DeepEqual(decode(t, restored), decode(t, raw)) {
			t.Errorf("%s became %s", raw, restored)
		}
	})
}
