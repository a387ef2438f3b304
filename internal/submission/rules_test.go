package submission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cdui/internal/api"
	"cdui/internal/submission"
)

// D.1: a name is trimmed, at most 64 letters long, and none at all when blank.
func TestNamesAreTrimmedAndShort(t *testing.T) {
	long := strings.Repeat("é", 64)
	for name, want := range map[string]string{"  my run ": "my run", "": "", " \t ": "", " " + long + " ": long} {
		got, err := submission.Check(named(name), submission.Machines{Local: machine()}, builtin(t))
		if err != nil || got.Row.Name != want {
			t.Errorf("%q became %q, %v; want %q", name, got.Row.Name, err, want)
		}
	}
	if _, err := submission.Check(named(long+"é"), submission.Machines{Local: machine()}, builtin(t)); err == nil {
		t.Error("65 letters are taken")
	}
}

func named(name string) api.SubmitRequest {
	return api.SubmitRequest{Name: &name, Options: json.RawMessage(`{"command":{"argv":["true"],"cwd":"/"}}`)}
}

// D.1, A.1: the stored options name the device that the run has in effect, and
// a graph's lists may be null.
func TestStoredOptionsHoldTheDeviceInEffect(t *testing.T) {
	for settings, want := range map[string]string{
		`null`: "cpu", `{}`: "cpu", `{"device":""}`: "cpu", `{"device":"  "}`: "cpu", `{"device":" CUDA:1 "}`: "cuda:1", `{"device":"auto"}`: "cuda:0",
	} {
		graph := `{"nodes":[{"id":"s","type":"Start"}],"edges":null,"presets":null,"subgraphs":null,"settings":` + settings + `}`
		got, err := submission.Check(api.SubmitRequest{Graph: json.RawMessage(graph)}, submission.Machines{Local: machine()}, builtin(t))
		if err != nil || got.Row.Options.Device != want || got.Row.QueueKey != want {
			t.Errorf("settings %s: device %q, key %q, %v; want %s", settings, got.Row.Options.Device, got.Row.QueueKey, err, want)
		}
	}
}

// C.15: the submitter's commit goes into the row; clean, changed and unknown
// are three things.
func TestTheCommitIsKept(t *testing.T) {
	yes, no := true, false
	for _, dirty := range []*bool{&yes, &no, nil} {
		req := named("")
		req.Git = &api.GitState{Commit: strings.Repeat("a", 40), Dirty: dirty}
		got, err := submission.Check(req, submission.Machines{Local: machine()}, builtin(t))
		if err != nil || got.Row.GitCommit != req.Git.Commit || (got.Row.GitDirty == nil) != (dirty == nil) || dirty != nil && *got.Row.GitDirty != *dirty {
			t.Errorf("%v: %q %v, %v", dirty, got.Row.GitCommit, got.Row.GitDirty, err)
		}
	}
}
