package graphcmd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/cli/graphcmd"
	"cdui/internal/client"
)

func execute(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	deps := graphcmd.Deps{Client: func() *client.Client { return e.Client() }}
	root := &cobra.Command{Use: "cdui", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(graphcmd.NewValidate(e.Env, deps, nil), graphcmd.NewNodes(e.Env, deps), graphcmd.NewPresets(e.Env, deps))
	root.SetArgs(args)
	return root.ExecuteContext(t.Context())
}

func code(err error) int {
	var exit *env.Exit
	var usage *env.Usage
	var gone *client.Unreachable
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage):
		return 2
	case errors.As(err, &gone):
		return 3
	case api.CodeOf(err) == api.NotFound:
		return 4
	}
	return 1
}

func number(f float64) *float64 { return &f }

func nodes() []catalog.Definition {
	word := func(s string) json.RawMessage { return json.RawMessage(s) }
	return []catalog.Definition{
		{
			NodeName: "Conv2d", Category: "CNN", Description: "Convolution over images, with new weights in each run.", Provider: "builtin",
			Inputs:  []catalog.Port{{Name: "tensor", DataType: "TENSOR", Description: "[batch, channels, height, width]"}},
			Outputs: []catalog.Port{{Name: "tensor", DataType: "TENSOR"}},
			Params: []catalog.Param{
				{Name: "kernel_size", ParamType: "int", Default: word("3"), Description: "Side of the kernel.", MinValue: number(1), MaxValue: number(15)},
				{Name: "padding", ParamType: "int", Default: word("0"), MinValue: number(0)},
				{Name: "mode", ParamType: "select", Default: word(`"zeros"`), Options: []string{"zeros", "reflect"}, Description: "What is beyond the edge."},
				{Name: "name", ParamType: "string", Default: word(`""`), VisibleWhen: map[string]json.RawMessage{"mode": word(`["zeros","reflect"]`)}},
			},
		},
		{NodeName: "Start", Category: "Control", Description: "Marks where a graph begins.", Provider: "builtin"},
		{
			NodeName: "acme:Thing", Category: "Mine\x1b[31m", Description: "Does\nthings.", Provider: "plugin:acme",
			Inputs: []catalog.Port{{Name: "word", DataType: "STRING", Optional: true}},
		},
	}
}

func presets() []catalog.Preset {
	return []catalog.Preset{
		{Name: "LSTM Sequence", Category: "RNN", Description: "An LSTM layer and an activation on its output sequence.", Nodes: []catalog.PresetNode{{ID: "lstm", Type: "LSTM"}}},
		{
			Name: "Training Pipeline", Category: "Training", Description: "Loader, loss and training loop. Wire one model to both inputs.",
			Nodes: []catalog.PresetNode{
				{ID: "dataset", Type: "Dataset", Params: map[string]json.RawMessage{"name": json.RawMessage(`"MNIST"`), "data_dir": json.RawMessage(`"./data"`)}},
				{ID: "train_loop", Type: "TrainingLoop", Params: map[string]json.RawMessage{"epochs": json.RawMessage("5"), "device": json.RawMessage(`"cpu"`)}},
			},
			ExposedInputs:  []catalog.ExposedPort{{Name: "model", InternalNode: "train_loop", InternalPort: "model", DataType: "MODEL", Description: "the model to train"}},
			ExposedOutputs: []catalog.ExposedPort{{Name: "losses", InternalNode: "train_loop", InternalPort: "losses", DataType: "TENSOR"}},
		},
	}
}

func served(t *testing.T, e *clitest.Env) {
	t.Helper()
	e.Serve(t, map[string]clitest.Reply{"GET /api/nodes": {Body: nodes()}, "GET /api/presets": {Body: presets()}})
}

func TestTables(t *testing.T) {
	t.Parallel()
	for _, width := range []int{0, 50, 100} {
		for name, args := range map[string][]string{
			"nodes": {"nodes"}, "node": {"nodes", "conv2D"}, "presets": {"presets"}, "preset": {"presets", "Training Pipeline"},
		} {
			e := clitest.New(t, width)
			served(t, e)
			if err := execute(t, e, args...); err != nil {
				t.Fatal(err)
			}
			clitest.Golden(t, fmt.Sprintf("%s-%d", name, width), e.Stdout.String())
		}
	}
}

func TestListsForPrograms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		out  string
		code int
		says string
	}{
		{[]string{"nodes", "-q"}, "Conv2d\nStart\nacme:Thing\n", 0, ""},
		{[]string{"nodes", "-q", "--category", "cnn"}, "Conv2d\n", 0, ""},
		{[]string{"nodes", "-q", "Start"}, "Start\n", 0, ""},
		{[]string{"presets", "-q", "-c", "RNN"}, "LSTM Sequence\n", 0, ""},
		{[]string{"nodes", "Conv2"}, "", 4, `no node type is called "Conv2". Did you mean Conv2d?`},
		{[]string{"presets", "Zzzzzz"}, "", 4, `no preset is called "Zzzzzz"`},
		{[]string{"nodes", "--category", "cmn"}, "", 2, "Known: CNN, Control"},
		{[]string{"nodes", "--category", "cnn", "Start"}, "", 2, "--category means nothing with a name"},
		{[]string{"nodes", "--json", "-q"}, "", 2, "can't be given together"},
		{[]string{"nodes", "a", "b"}, "", 2, "takes one node type"},
	} {
		e := clitest.New(t, 0)
		served(t, e)
		err := execute(t, e, c.args...)
		if code(err) != c.code || e.Stdout.String() != c.out || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: code %d, %v, %q", c.args, code(err), err, e.Stdout)
		}
	}
	e := clitest.New(t, 0)
	served(t, e)
	if err := execute(t, e, "nodes", "--json"); err != nil {
		t.Fatal(err)
	}
	var got []catalog.Definition
	if err := json.Unmarshal([]byte(e.Stdout.String()), &got); err != nil || len(got) != 3 {
		t.Errorf("%v: %s", err, e.Stdout)
	}
}

// file writes g.json.
func file(t *testing.T, e *clitest.Env, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(e.Dir, "g.json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

const fine = `{"nodes":[{"id":"s","type":"Start"},{"id":"n","type":"note"},{"id":"x","type":"TensorCreate","data":{"params":{"shape":"2"}}}],
	"edges":[{"source":"s","sourceHandle":"trigger","target":"x","type":"trigger"}]}`

func TestValidate(t *testing.T) {
	t.Parallel()
	node := "loss"
	bad := api.ValidateReply{
		Errors: []string{"a", "b"}, Warnings: []api.Issue{{Message: "format_version 9 is newer"}},
		Issues: []api.Issue{{Message: "node \"loss\" (Loss): no\x1b[31m", Code: "missing_input", NodeID: &node}, {Message: "the nodes wait for each other: a, b", Code: "cycle"}},
	}
	good := api.ValidateReply{Valid: true, Errors: []string{}, Issues: []api.Issue{}, Warnings: bad.Warnings}
	for name, c := range map[string]struct {
		file  string
		reply api.ValidateReply
		args  []string
		code  int
		out   string
	}{
		"fine":     {fine, good, nil, 0, "g.json: 2 nodes, fine\n  warning: format_version 9 is newer\n"},
		"findings": {fine, bad, nil, 1, "g.json: 2 findings\n  node \"loss\" (Loss): no\n  the nodes wait for each other: a, b\n  warning: format_version 9 is newer\n"},
		"quiet":    {fine, bad, []string{"-q"}, 1, ""},
		"no JSON":  {"{\n\n}}", good, nil, 1, "g.json: 1 finding\n  the graph can't be read: it is not JSON: line 3: invalid character '}' after top-level value\n"},
		"a list":   {"[]", good, nil, 1, "g.json: 1 finding\n  the graph can't be read: it is no graph: it is not a JSON object\n"},
	} {
		e := clitest.New(t, 0)
		e.Serve(t, map[string]clitest.Reply{"POST /api/graph/validate": {Body: c.reply}})
		file(t, e, c.file)
		err := execute(t, e, append([]string{"validate", "g.json"}, c.args...)...)
		if code(err) != c.code || e.Stdout.String() != c.out || e.Stderr.String() != "" {
			t.Errorf("%s: code %d, %v, out %q, err %q", name, code(err), err, e.Stdout, e.Stderr)
		}
	}
}

func TestValidateJSONIsTheReply(t *testing.T) {
	t.Parallel()
	for _, content := range []string{`{"nodes":[]}`, "nonsense"} {
		e := clitest.New(t, 0)
		file(t, e, content)
		err := execute(t, e, "validate", "--json", "g.json")
		var got api.ValidateReply
		if jerr := json.Unmarshal([]byte(e.Stdout.String()), &got); jerr != nil || code(err) != 1 || got.Valid || len(got.Errors) != len(got.Issues) || len(got.Issues) == 0 || got.Issues[0].Code == "" {
			t.Errorf("%s: %v, %v, %s", content, err, jerr, e.Stdout)
		}
	}
}

func TestWhatCannotBeReadIsAUsageError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"validate none.json", "none.json: no such file"},
		{"validate .", ". is a folder"},
		{"validate", "needs one graph file"},
		{"validate g.json --set x.shap=3", "did you mean shape?"},
		{"validate g.json --set shape=3", "--set shape: write node.param=value"},
		{"validate g.json -q --json", "can't be given together"},
	} {
		e := clitest.New(t, 0)
		file(t, e, fine)
		if err := execute(t, e, strings.Fields(c.args)...); code(err) != 2 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

func TestWithoutAControlPlaneTheBuiltInTypesAnswer(t *testing.T) {
	t.Parallel()
	e := clitest.New(t, 0)
	file(t, e, fine)
	if err := execute(t, e, "validate", "g.json", "--set", "x.shape=3,4"); err != nil || e.Stdout.String() != "g.json: 2 nodes, fine\n" {
		t.Errorf("%v: %s", err, e.Stdout)
	}
	if !strings.Contains(e.Stderr.String(), "no control plane runs here") {
		t.Errorf("said %q", e.Stderr)
	}
	// One that was named must answer.
	e.Set("CDUI_SERVER", "http://127.0.0.1:1")
	if err := execute(t, e, "validate", "g.json"); code(err) != 3 {
		t.Errorf("%v", err)
	}
}
