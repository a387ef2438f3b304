package submission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/device"
	"cdui/internal/submission"
)

func machine() device.Inventory {
	return device.Inventory{{Device: "cpu", Kind: "cpu"}, {Device: "cuda:0", Kind: "cuda"}, {Device: "cuda:1", Kind: "cuda", Index: 1}}
}

func builtin(t *testing.T) *catalog.Catalog {
	t.Helper()
	cat, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return cat
}

// SCHED-02, SCHED-03, TGT-05, TGT-06, A.1, E: the key is the resolved device.
func TestWhereASubmissionQueues(t *testing.T) {
	const graph = `{"nodes":[{"id":"s","type":"Start"}],"edges":[],"settings":{"device":"%s"}}`
	for name, c := range map[string]struct {
		graph, options, key, device string
	}{
		"nothing asked":          {options: `{}`, key: "cpu", device: "cpu"},
		"a kind":                 {options: `{"device":"cuda"}`, key: "cuda:0", device: "cuda:0"},
		"the best":               {options: `{"device":"auto"}`, key: "cuda:0", device: "cuda:0"},
		"a set":                  {options: `{"target":{"devices":["cuda:1","cuda:0"]}}`, key: "cuda:1,cuda:0", device: "cuda:1"},
		"any":                    {options: `{"target":{"worker":"any"}}`, key: "any/cpu", device: "cpu"},
		"a graph's settings":     {graph: "cuda:1", options: `{}`, key: "cuda:1", device: "cuda:1"},
		"options beat settings":  {graph: "cuda:1", options: `{"device":"cpu"}`, key: "cpu", device: "cpu"},
		"another machine's card": {graph: "cuda:7", options: `{}`, key: "cpu", device: "cpu"},
	} {
		req := api.SubmitRequest{Options: json.RawMessage(strings.TrimSuffix(c.options, "}") + `,"command":{"argv":["true"],"cwd":"/"}}`)}
		req.Options = json.RawMessage(strings.Replace(string(req.Options), "{,", "{", 1))
		if c.graph != "" {
			req = api.SubmitRequest{Graph: json.RawMessage(strings.Replace(graph, "%s", c.graph, 1)), Options: json.RawMessage(c.options)}
		}
		got, err := submission.Check(req, submission.Machines{Local: machine()}, builtin(t))
		if err != nil || got.Row.QueueKey != c.key || got.Row.Options.Device != c.device {
			t.Errorf("%s: key %q, device %q, %v", name, got.Row.QueueKey, got.Row.Options.Device, err)
		}
	}
}

// Proves D.1, REF-01.
func TestRefusalsNameTheFault(t *testing.T) {
	for in, want := range map[string]string{
		`{"options":{"device":"cuda:9","command":{"argv":["x"],"cwd":"/"}}}`:            "no cuda:9; it offers cpu, cuda:0, cuda:1",
		`{"options":{"target":{"worker":"gpu-bx"},"command":{"argv":["x"],"cwd":"/"}}}`: `no worker "gpu-bx"`,
		`{"options":{"lane":"interactive","command":{"argv":["x"],"cwd":"/"}}}`:         "interactive",
		`{}`:                     "no graph",
		`{"graph":{"nodes":[]}}`: "no nodes",
		`{"name":"` + strings.Repeat("x", 65) + `","options":{"command":{"argv":["x"],"cwd":"/"}}}`: "limit is 64",
	} {
		var req api.SubmitRequest
		if err := json.Unmarshal([]byte(in), &req); err != nil {
			t.Fatal(err)
		}
		_, err := submission.Check(req, submission.Machines{Local: machine()}, builtin(t))
		if err == nil || !strings.Contains(err.Error(), want) || api.CodeOf(err) == api.Internal {
			t.Errorf("%.70s: %v, want %q", in, err, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"graph":{"nodes":[{"id":"s","type":"Start"}],"edges":[],"settings":{"device":"cpu"}},"options":{"seed":1},"name":"x"}`))
	cat, err := catalog.Builtin()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var req api.SubmitRequest
		if json.Unmarshal(raw, &req) != nil {
			return
		}
		if _, err := submission.Check(req, submission.Machines{Local: machine()}, cat); err != nil && api.CodeOf(err) == api.Internal {
			t.Fatalf("a bad submission is an internal error: %v", err)
		}
	})
}
