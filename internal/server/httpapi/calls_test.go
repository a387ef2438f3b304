package httpapi_test

import (
	"strings"
	"testing"

	"cdui/internal/run"
)

// D.6: which fault of a stored graph or of a call has which code and status.
func TestCallsFailWithTheCodesOfTheFormat(t *testing.T) {
	w := newSite(t)
	w.store("echo", echoGraph)
	w.store("broken", `{"nodes":[`)
	w.store("twice", `{"nodes":[{"id":"s","type":"Start"},{"id":"a","type":"GraphInput"},{"id":"b","type":"GraphInput"}],
		"edges":[{"source":"s","target":"a","type":"trigger"},{"source":"s","target":"b","type":"trigger"}]}`)
	w.store("nowhere", `{"nodes":[{"id":"a","type":"GraphInput"}],"edges":[]}`)
	w.store("idle", `{"nodes":[{"id":"s","type":"Start"},{"id":"a","type":"GraphInput"},{"id":"x","type":"TextInput"}],
		"edges":[{"source":"s","target":"x","type":"trigger"}]}`)
	w.store("draft", `{"nodes":[{"id":"s","type":"Start"},{"id":"x","type":"TextInput"},{"id":"y","type":"TextInput"},{"id":"o","type":"GraphOutput"}],
		"edges":[{"source":"s","target":"x","type":"trigger"},{"source":"y","sourceHandle":"text","target":"o","targetHandle":"value"}]}`)
	for name, c := range map[string]struct {
		graph, body string
		status      int
		code        string
	}{
		"no graph":            {"gone", `{}`, 404, "graph_not_found"},
		"a damaged file":      {"broken", `{}`, 500, "graph_unreadable"},
		"two inputs a name":   {"twice", `{}`, 409, "invalid_contract"},
		"nothing starts":      {"nowhere", `{}`, 409, "no_entry_points"},
		"an idle input":       {"idle", `{}`, 409, "untriggered_input"},
		"a draft's output":    {"draft", `{}`, 409, "unreachable_output"},
		"a body over the cap": {"echo", `{"inputs":{"message":"` + strings.Repeat("x", 1<<20) + `"}}`, 413, "payload_too_large"},
		"too short a time":    {"echo", `{"inputs":{"message":"a"},"timeout_s":0.9}`, 422, "invalid_input"},
		"too long a time":     {"echo", `{"inputs":{"message":"a"},"timeout_s":3601}`, 422, "invalid_input"},
	} {
		code, reply := w.call(c.graph, c.body, nil)
		if reply.Error == nil || code != c.status || reply.Error.Code != c.code || reply.RunID != nil {
			t.Errorf("%s: %d %+v", name, code, reply.Error)
		}
	}
	code, reply := w.call("echo", `{"inputs":{"message":"a"},"timeout_s":1}`, func(string) {})
	if code != 500 || reply.Error == nil || reply.Error.Code != "timeout" || reply.RunID == nil {
		t.Fatalf("a call that takes too long: %d %+v", code, reply)
	}
	if row, err := w.st.Run(t.Context(), *reply.RunID); err != nil || row.CancelRequestedAt == nil {
		t.Errorf("it goes on unasked: %+v, %v", row, err)
	}
	w.report(*reply.RunID, 1, finished(run.Cancelled))
}
