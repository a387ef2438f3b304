package graph_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"cdui/internal/graph"
	"cdui/internal/run"
)

// A.1, D.1: the envelope is all that a submit checks; devices are trimmed and lower-cased.
func TestParseEnvelopeNamesTheFault(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:           "must be an object",
		`null`:         "must be an object",
		`{}`:           "no nodes",
		`{"nodes":[]}`: "no nodes",
		`{"nodes":{}}`: `"nodes" must be a list`,
		`{"nodes":[{"id":"a","type":"Start"}],"edges":{}}`:                  `"edges" must be a list`,
		`{"nodes":[{"id":"a","type":"Start"}],"settings":[]}`:               `"settings" must be an object`,
		`{"nodes":[{"id":"a","type":"Start"}],"settings":{"device":"gpu"}}`: "settings.device",
	} {
		if _, err := graph.ParseEnvelope(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
	e, err := graph.ParseEnvelope(json.RawMessage(`{"nodes":[{"id":"a","type":"Start"}],"edges":null,"settings":{"device":" CUDA:1 "}}`))
	if err != nil || e.Settings.Device != "cuda:1" {
		t.Errorf("%+v, %v", e, err)
	}
}

// a script is a graph of one node.
func TestProgramRoundTrip(t *testing.T) {
	script := run.ScriptSpec{Path: "/x/train.py", Args: []string{"--lr", "3e-4"}, Cwd: "/x", Interpreter: "/usr/bin/python3"}
	raw, err := graph.ForScript(script)
	if err != nil {
		t.Fatal(err)
	}
	e, err := graph.ParseEnvelope(raw)
	if err != nil {
		t.Fatal(err)
	}
	p, ok, err := e.Program()
	if err != nil || !ok || p.NodeID != "script" || !reflect.DeepEqual(*p.Script, script) {
		t.Errorf("%+v, %v, %v", p, ok, err)
	}
}

func TestProgramRefusesCompany(t *testing.T) {
	for in, want := range map[string]string{
		`{"nodes":[{"id":"a","type":"Script"},{"id":"b","type":"Conv2d"}]}`:                  "beside other nodes",
		`{"nodes":[{"id":"a","type":"Script"},{"id":"b","type":"Command"}]}`:                 "one Script or Command",
		`{"nodes":[{"id":"a","type":"Script","data":{"params":{"path":"rel.py"}}}]}`:         "absolute path",
		`{"nodes":[{"id":"a","type":"Command","data":{"params":{"argv":[],"cwd":"/"}}}]}`:    "argv must name a program",
		`{"nodes":[{"id":"a","type":"Command","data":{"params":{"argv":["x"],"dir":"/"}}}]}`: "unknown field",
	} {
		e, err := graph.ParseEnvelope(json.RawMessage(in))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.Program(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add([]byte(`{"nodes":[{"id":"a","type":"Script","data":{"params":{"path":"/a"}}}],"edges":[]}`))
	f.Add([]byte(`{"nodes":[null]}`))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		e, err := graph.ParseEnvelope(raw)
		if err != nil {
			return
		}
		_, _, _ = e.Program()
	})
}
