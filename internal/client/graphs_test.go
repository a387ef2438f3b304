package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"cdui/internal/api"
)

func TestAGraphIsSentAsItIs(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method+" "+r.URL.Path != "POST /api/graph/validate" || string(body) != `{"nodes":[1e2]}` {
			t.Errorf("asked %s %s with %s", r.Method, r.URL.Path, body)
		}
		_, _ = w.Write([]byte(`{"valid":false,"errors":["x"],"issues":[{"message":"x","code":"cycle","node_id":null,"params":{}}],"warnings":[]}`))
	})
	got, err := c.Validate(t.Context(), json.RawMessage(`{"nodes":[1e2]}`))
	if err != nil || got.Valid || len(got.Issues) != 1 || got.Issues[0].Code != "cycle" || got.Issues[0].NodeID != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAFunctionThatFailsIsAReply(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status  int
		body    string
		refused api.Code
		code    string
	}{
		{200, `{"status":"ok","graph":"a b","outputs":{"echo":"hi"},"error":null}`, "", ""},
		{422, `{"status":"error","graph":"a b","outputs":{},"error":{"code":"invalid_input","message":"no","node_id":null,"details":null}}`, "", "invalid_input"},
		{403, `{"error":{"code":"unauthorized","message":"no token"}}`, api.Unauthorized, ""},
	} {
		cl := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.EscapedPath() != "/api/graph/run/a%20b" {
				t.Errorf("asked %s", r.URL.EscapedPath())
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		got, err := cl.GraphRun(t.Context(), "a b", api.FunctionRequest{})
		var refused *api.Error
		if errors.As(err, &refused) != (c.refused != "") || refused != nil && refused.Code != c.refused {
			t.Errorf("%d: %v", c.status, err)
		}
		if c.refused == "" && (got.Graph != "a b" || (got.Error != nil) != (c.code != "") || got.Error != nil && got.Error.Code != c.code) {
			t.Errorf("%d: %+v", c.status, got)
		}
	}
}
