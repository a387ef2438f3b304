package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cdui/internal/api"
)

// through sends a request to the door at the end of a tunnel, as from this
// machine's own loopback.
func (w *site) through(method, path, body, token string) (int, string) {
	w.t.Helper()
	req := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body))
	req.RemoteAddr, req.Host = "127.0.0.1:4711", "localhost"
	if token != "" {
		req.Header.Set(api.HeaderToken, token)
	}
	rec := httptest.NewRecorder()
	w.api.Door("box").ServeHTTP(rec, req)
	raw, err := io.ReadAll(rec.Result().Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec.Code, string(raw)
}

// H-03, CARD-03, TLS-03: of all routes of the document a tunnel serves but a few,
// and those to workers alone: no token of a person and not the control plane's
// own, and nobody counts as of this machine.
func TestADoorServesNothingButAWorkersOwn(t *testing.T) {
	w := newSite(t)
	code, raw := w.request("POST", api.PathTokens, `{"name":"ada","role":"admin"}`, api.HeaderToken, secret)
	var user api.TokenReply
	if err := json.Unmarshal(raw, &user); code != http.StatusOK || err != nil {
		t.Fatalf("%d %s", code, raw)
	}
	_, raw = w.request("GET", api.PathOpenAPI, "")
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil || len(doc.Paths) < 20 {
		t.Fatalf("%v, %d paths", err, len(doc.Paths))
	}
	served := map[string]bool{
		"post " + api.PathWorkerEnroll: true, "get " + api.PathBlob: true, "post " + api.PathRunArtifactUpload: true, "put " + api.PathRunLog: true,
	}
	id := w.submit("")
	for path, methods := range doc.Paths {
		at := strings.NewReplacer("{id}", id, "{name}", "x", "{sha256}", sumOf("x")).Replace(path)
		for method := range methods {
			is := served[method+" "+path]
			for what, token := range map[string]string{"no token": "", "the session token": secret, "a user's token": user.Token, "a worker's token": "token of w1"} {
				code, body := w.through(strings.ToUpper(method), at, "{}", token)
				switch {
				case !is && code != http.StatusNotFound && code != http.StatusMethodNotAllowed:
					t.Errorf("%s %s with %s is served: %d %s", method, path, what, code, body)
				case is && path == api.PathWorkerEnroll:
					if code != http.StatusBadRequest && code != http.StatusTooManyRequests { // it says nothing
						t.Errorf("enroll with %s: %d %s", what, code, body)
					}
				case is && code != http.StatusForbidden: // w1 holds no run
					t.Errorf("%s %s with %s: %d %s", method, path, what, code, body)
				}
			}
		}
	}
	// Its own run's files are a worker's, and no other's.
	w.peers.holds[id] = "w1"
	if code, body := w.through("POST", "/api/runs/"+id+"/artifacts/upload?path=a", "x", "token of w2"); code != http.StatusForbidden {
		t.Errorf("another worker's run: %d %s", code, body)
	}
	req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/runs/"+id+"/artifacts/upload?path=a&source=/a", strings.NewReader("x"))
	req.Header.Set(api.HeaderToken, "token of w1")
	req.Header.Set(api.HeaderSHA256, sumOf("x"))
	rec := httptest.NewRecorder()
	w.api.Door("box").ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		t.Errorf("its own run: %d %s", rec.Code, rec.Body)
	}
	// The session token opens the workers' socket to loopback, and not here.
	for _, token := range []string{secret, user.Token, ""} {
		if code, body := w.through("GET", api.PathWorkerSocket, "", token); code != http.StatusUnauthorized {
			t.Errorf("the workers' socket: %d %s", code, body)
		}
	}
	for _, path := range []string{api.PathExecution, "/", "/api/../api/status", "//api/status"} {
		if code, body := w.through("GET", path, "", secret); code == http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// keeper is a Tunnels that notes what it is asked.
type keeper struct {
	opened  []api.TunnelRequest
	removed []string
}

func (k *keeper) Open(_ context.Context, req api.TunnelRequest) (api.Tunnel, error) {
	k.opened = append(k.opened, req)
	return api.Tunnel{Worker: req.Worker, State: api.TunnelUp}, nil
}

func (k *keeper) Remove(_ context.Context, worker string) error {
	k.removed = append(k.removed, worker)
	return nil
}
func (*keeper) List() []api.Tunnel   { return []api.Tunnel{} }
func (*keeper) Pin() (string, error) { return "sha256:00", nil }

// H-03: who may open tunnels; what is listed of one holds no answer.
func TestTunnelRoutes(t *testing.T) {
	k := &keeper{}
	w := newSiteWith(t, k)
	body := `{"worker":"box","target":"ada@box","folder":"/x","answers":{"password:ada@box:22":"pw"}}`
	if code, _ := w.request("POST", api.PathTunnels, body); code != http.StatusForbidden || len(k.opened) != 0 {
		t.Errorf("without a token: %d, %v", code, k.opened)
	}
	code, raw := w.request("POST", api.PathTunnels, body, api.HeaderToken, secret)
	if code != http.StatusOK || len(k.opened) != 1 || k.opened[0].Answers["password:ada@box:22"] != "pw" || strings.Contains(string(raw), "pw") {
		t.Errorf("%d %s, %+v", code, raw, k.opened)
	}
	if code, raw := w.request("GET", api.PathTunnels, ""); code != http.StatusOK || !strings.Contains(string(raw), "sha256:00") {
		t.Errorf("%d %s", code, raw)
	}
	if code, _ := w.request("DELETE", "/api/tunnels/box", "", api.HeaderToken, secret); code != http.StatusOK || len(k.removed) != 1 {
		t.Errorf("%d, removed %v", code, k.removed)
	}
}
