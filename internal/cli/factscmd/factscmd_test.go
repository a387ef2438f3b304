package factscmd_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/cli/clitest"
	"cdui/internal/cli/factscmd"
)

func execute(t *testing.T, e *clitest.Env, args ...string) error {
	t.Helper()
	cmd := factscmd.New(e.Env, e.Client, nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	return cmd.ExecuteContext(t.Context())
}

func TestFactsOfARun(t *testing.T) {
	t.Parallel()
	r := clitest.Runs().Runs[0]
	r.Facts = json.RawMessage(`{"fingerprint_source":"run","numeric":{"threads":4},"output_tail":"x"}`)
	found := api.Fingerprint{RunID: r.ID, Digest: "d1d1", Source: "run", Document: json.RawMessage(`{"python":{"version":"3.11.2"},"packages":["a==1","b==2"],"torch":null}`)}
	made := api.Provenance{RunID: r.ID, Sources: []json.RawMessage{[]byte(`{"name":"Linear","kind":"builtin","file":"/x/layers.py","sha256":"abc","source":"class Linear:\n    pass\u001b[2J\n"}`)}}
	path := "GET /api/runs/" + r.ID
	replies := func() map[string]clitest.Reply {
		return map[string]clitest.Reply{path: {Body: r}, path + "/fingerprint": {Body: found}, path + "/provenance": {Body: made}}
	}
	e := clitest.New(t, 0)
	e.Serve(t, replies())
	if err := execute(t, e, r.ID); err != nil {
		t.Fatal(err)
	}
	out := e.Stdout.String()
	for _, want := range []string{"fingerprint_source", "numeric.threads", "d1d1", "python.version", "3.11.2", "a==1 b==2", "node Linear", "builtin abc"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "output_tail") || strings.Contains(out, "torch") {
		t.Error(out)
	}
	e = clitest.New(t, 0)
	e.Serve(t, replies())
	if err := execute(t, e, r.ID, "--sources"); err != nil {
		t.Fatal(err)
	}
	if got := e.Stdout.String(); got != "# Linear (builtin) /x/layers.py abc\nclass Linear:\n    pass\n" {
		t.Errorf("%q", got)
	}
	e = clitest.New(t, 0)
	some := replies()
	some[path+"/fingerprint"] = clitest.Reply{Status: 404, Body: api.ErrorBody{Error: api.Errorf(api.NotFound, "unknown")}}
	e.Serve(t, some)
	if err := execute(t, e, r.ID, "--json"); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Facts       json.RawMessage   `json:"execution_facts"`
		Fingerprint *api.Fingerprint  `json:"fingerprint"`
		Sources     []json.RawMessage `json:"sources"`
	}
	if err := json.Unmarshal([]byte(e.Stdout.String()), &got); err != nil || got.Fingerprint != nil || len(got.Sources) != 1 || len(got.Facts) == 0 {
		t.Errorf("%s, %v", e.Stdout, err)
	}
}
