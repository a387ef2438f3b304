package httpapi_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

const echoGraph = `{"nodes":[{"id":"s","type":"Start"},
 {"id":"in","type":"GraphInput","data":{"params":{"name":"message","type":"string","required":true}}},
 {"id":"out","type":"GraphOutput","data":{"params":{"name":"echo"}}}],
 "edges":[{"source":"s","target":"in","sourceHandle":"trigger","type":"trigger"},
 {"source":"in","target":"out","sourceHandle":"value","targetHandle":"value"}]}`

func (w *site) store(name, graph string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name+".json"), []byte(graph), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// call calls a stored graph; end plays the child of the run that it starts.
func (w *site) call(name, body string, end func(id string)) (int, api.FunctionReply) {
	w.t.Helper()
	answered, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for end != nil {
			if id := w.exec.take(); id != "" {
				end(id)
				return
			}
			select {
			case <-answered:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	code, raw := w.post("/api/graph/run/"+name, body)
	close(answered)
	<-done
	var members map[string]json.RawMessage
	var reply api.FunctionReply
	if err := json.Unmarshal(raw, &members); err != nil || json.Unmarshal(raw, &reply) != nil || len(members) != 9 {
		w.t.Fatalf("%d members in %s", len(members), raw)
	}
	return code, reply
}

// take gives the id of a run that has started, once.
func (x *idle) take() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := range x.attempts {
		if !x.taken[id] {
			x.taken[id] = true
			return id
		}
	}
	return ""
}

// D.6: nine keys in every reply, and the codes with their status.
func TestAGraphIsCalledAsAFunction(t *testing.T) {
	w := newSite(t)
	w.store("echo", echoGraph)
	outputs := func(doc string) func(string) {
		return func(id string) {
			w.report(id, 1, protocol.Record{Type: protocol.RunFacts, Facts: json.RawMessage(`{"api_outputs":` + doc + `}`)}, finished(run.Succeeded))
		}
	}
	failed := func(errorType string) func(string) {
		return func(id string) {
			w.report(id, 1, protocol.Record{Type: protocol.RunFinished, Finished: &protocol.Finished{Status: "failed", Error: "boom", ErrorType: errorType}})
		}
	}
	code, reply := w.call("echo", `{"inputs":{"message":"hi"}}`, outputs(`{"echo":"hi"}`))
	if code != 200 || reply.Status != "ok" || string(reply.Outputs["echo"]) != `"hi"` || reply.RunID == nil || *reply.Device != "cpu" {
		t.Errorf("%d %+v", code, reply)
	}
	w.store("bad", `{"nodes":[{"id":"a","type":"Conv9d"}],"edges":[]}`)
	for name, c := range map[string]struct {
		graph, body string
		end         func(string)
		status      int
		code        string
	}{
		"no graph":          {"nothing", `{}`, nil, 404, "graph_not_found"},
		"out of the folder": {"..%2Fx", `{}`, nil, 404, "graph_not_found"},
		"no input":          {"echo", `{}`, nil, 422, "invalid_input"},
		"unknown input":     {"echo", `{"inputs":{"message":"a","mesage":"b"}}`, nil, 422, "invalid_input"},
		"bad timeout":       {"echo", `{"timeout_s":0.5}`, nil, 422, "invalid_input"},
		"not JSON":          {"echo", `{`, nil, 422, "invalid_input"},
		"bad graph":         {"bad", `{}`, nil, 409, "invalid_graph"},
		"fails":             {"echo", `{"inputs":{"message":"a"}}`, failed("ValueError"), 500, "execution_error"},
		"no output":         {"echo", `{"inputs":{"message":"a"}}`, outputs(`{}`), 500, "output_not_produced"},
		"large output":      {"echo", `{"inputs":{"message":"a"}}`, failed("OutputTooLarge"), 500, "output_too_large"},
		"no JSON form":      {"echo", `{"inputs":{"message":"a"}}`, failed("UnserializableOutput"), 500, "unserializable_output"},
	} {
		code, reply := w.call(c.graph, c.body, c.end)
		if code != c.status || reply.Status != "error" || reply.Error == nil || reply.Error.Code != c.code || reply.Error.Message == "" {
			t.Errorf("%s: %d %+v %+v", name, code, reply, reply.Error)
		}
	}
	code, raw := w.request("GET", "/api/graph/contract/echo", "")
	if code != 200 || !strings.Contains(string(raw), `"name":"message"`) {
		t.Errorf("contract: %d %s", code, raw)
	}
}
