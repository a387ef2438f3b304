package httpapi_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// Every JSON answer of the real handlers fits the document that they serve.
// Proves R-01.
func TestAnswersFitTheOpenAPIDocument(t *testing.T) {
	w := newSite(t)
	ended, running, held := w.submit(""), w.submit(""), w.submit(`,"hold":true,"seed":3,"target":{"worker":"local"}`)
	w.report(ended, 1,
		protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 4}},
		protocol.Record{Type: protocol.Metrics, Points: []byte(`[{"name":"loss","value":1.5,"step":1},{"name":"x","value":null,"nonfinite":"inf","step":2}]`)},
		protocol.Record{Type: protocol.Artifact, Kind: "file", Path: "/a"},
		finished(run.Succeeded))
	w.report(running, 1, protocol.Record{Type: protocol.RunStarted, Started: &protocol.Started{PID: 5}})

	_, raw := w.request("GET", api.PathOpenAPI, "")
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	command := `"command":{"argv":["true"],"cwd":"/"}`
	sweptID, studiedID := w.sweep(), w.study()
	for _, c := range []struct{ method, path, body, schema string }{
		{"GET", api.PathHealth, "", "Health"},
		{"GET", api.PathStatus, "", "ServerStatus"},
		{"GET", api.PathRuns, "", "RunList"},
		{"GET", "/api/runs/" + ended, "", "Run"},
		{"GET", "/api/runs/" + running, "", "Run"},
		{"GET", "/api/runs/" + held, "", "Run"},
		{"GET", "/api/runs/" + ended + "/events", "", "Events"},
		{"GET", "/api/runs/" + ended + "/metrics", "", "Metrics"},
		{"GET", "/api/runs/" + ended + "/artifacts", "", "Artifacts"},
		{"GET", api.PathQueue, "", "Queue"},
		{"POST", api.PathWorkerEnrollments, `{"name":"box"}`, "EnrollmentReply"},
		{"GET", api.PathWorkers, "", "WorkerList"},
		{"POST", api.PathTokens, `{"name":"ada","role":"read"}`, "TokenReply"},
		{"GET", api.PathTokens, "", "TokenList"},
		{"POST", api.PathGraphValidate, `{"nodes":[{"id":"a","type":"Conv9d"}],"edges":[]}`, "ValidateReply"},
		{"GET", api.PathDBCheck, "", "DBCheck"},
		{"POST", api.PathHooks, `{"name":"mail","on":["failed"],"command":["true"]}`, "Hook"},
		{"POST", "/api/hooks/mail/test", "", "HookTestReply"},
		{"GET", api.PathHooks, "", "HookList"},
		{"GET", api.PathActions, "", "ActionList"},
		{"POST", api.PathRuns, `{"options":{` + command + `}}`, "SubmitReply"},
		{"POST", api.PathRunsBulk, `{"runs":[{"options":{` + command + `}}]}`, "BulkReply"},
		{"POST", "/api/runs/" + held + "/release", "", "RunState"},
		{"POST", "/api/runs/" + running + "/cancel", "", "CancelReply"},
		{"POST", "/api/runs/" + ended + "/rerun", "", "SubmitReply"},
		{"POST", api.PathSweeps, sweepBody, "SweepReply"},
		{"GET", api.PathSweeps, "", "SweepList"},
		{"GET", "/api/sweeps/" + sweptID, "", "Sweep"},
		{"POST", "/api/sweeps/" + sweptID + "/rerun", "", "SweepRerunReply"},
		{"POST", "/api/sweeps/" + sweptID + "/cancel", "", "SweepCancelReply"},
		{"POST", api.PathStudies, studyBody, "StudyReply"},
		{"GET", api.PathStudies, "", "StudyList"},
		{"GET", "/api/studies/" + studiedID, "", "Study"},
		{"POST", "/api/studies/" + studiedID + "/resume", "{}", "Study"},
		{"POST", "/api/studies/" + studiedID + "/cancel", "", "Study"},
		{"GET", "/api/runs/ffff", "", "ErrorBody"},
	} {
		_, raw := w.request(c.method, c.path, c.body, api.HeaderToken, secret)
		schema, err := compiler.Compile("openapi.json#/components/schemas/" + c.schema)
		if err != nil {
			t.Fatalf("%s: %v", c.schema, err)
		}
		body, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s %s: %v: %s", c.method, c.path, err, raw)
		}
		if err := schema.Validate(body); err != nil {
			t.Errorf("%s %s: %v\n%s", c.method, c.path, err, raw)
		}
		// A schema that takes anything would prove nothing.
		if err := schema.Validate([]any{"no object"}); err == nil {
			t.Errorf("schema %s takes anything", c.schema)
		}
	}
	for _, path := range []string{api.PathRun, api.PathRunLog, api.PathShutdown} {
		if !strings.Contains(string(raw), `"`+path+`"`) {
			t.Errorf("the document lacks %s", path)
		}
	}
}
