package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/device"
	"cdui/internal/protocol"
)

func parse[T any](t *testing.T, raw []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

// SEC-14, DRN-01, ENR-02, ENR-06.
func TestAWorkersWayThroughTheAPI(t *testing.T) {
	w := newSite(t)
	code, raw := w.post(api.PathWorkerEnrollments, `{"name":"box"}`)
	e := parse[api.EnrollmentReply](t, raw)
	if code != 200 || !strings.Contains(e.Command, e.Token) || !strings.HasSuffix(e.Command, "--name box") {
		t.Fatalf("%d %s", code, raw)
	}
	// ENR-02: whoever enrolls has no other token yet.
	body, err := json.Marshal(api.EnrollRequest{Token: e.Token, Name: "box", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	code, raw = w.request("POST", api.PathWorkerEnroll, string(body))
	own := parse[api.EnrollReply](t, raw)
	if code != 200 || own.WorkerID != "box" || own.Name != "box" || own.WorkerToken == "" || own.HeartbeatS != 10 {
		t.Fatalf("%d %s", code, raw)
	}
	if code, raw := w.request("POST", api.PathWorkerEnroll, string(body)); code != 403 {
		t.Errorf("again: %d %s", code, raw)
	}
	if code, _ := w.request("POST", api.PathWorkerEnroll, string(body), "Origin", "http://localhost"); code != 403 {
		t.Errorf("from a page: %d", code)
	}
	if code, _ := w.request("POST", api.PathWorkerEnroll, `{"token":"`+strings.Repeat("x", 20<<10)+`"}`); code != 413 {
		t.Errorf("a large body: %d", code)
	}

	conn, resp, err := websocket.DefaultDialer.Dial(strings.Replace(w.web.URL, "http", "ws", 1)+api.PathWorkerSocket, http.Header{api.HeaderToken: {own.WorkerToken}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp.Body.Close()
	send := func(epoch uint64, f protocol.Frame) {
		t.Helper()
		frame, err := protocol.Encode(epoch, f)
		if err == nil {
			err = conn.WriteMessage(websocket.TextMessage, frame)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	send(0, &protocol.Hello{Name: "box", Version: "test", Protocol: protocol.Version, Nonce: "n", Devices: device.Inventory{{Device: "cpu", Kind: "cpu"}}})
	_, frame, err := conn.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	welcome, err := protocol.DecodeFromServer(frame)
	if err != nil || welcome.Frame.FrameType() != protocol.TypeWelcome {
		t.Fatalf("%s, %v", frame, err)
	}
	send(welcome.Epoch, &protocol.RunAlive{})

	code, raw = w.request("GET", "/api/workers/box", "")
	if v := parse[api.Worker](t, raw); code != 200 || v.State != api.WorkerOnline || v.Version != "test" || len(v.Devices) != 1 || v.Devices[0].Slots.Cap != 2 {
		t.Errorf("%d %s", code, raw)
	}
	code, raw = w.post("/api/workers/box/drain", "")
	if v := parse[api.Worker](t, raw); code != 200 || !v.Draining {
		t.Errorf("%d %s", code, raw)
	}
	code, raw = w.post("/api/workers/box/undrain", "")
	if v := parse[api.Worker](t, raw); code != 200 || v.Draining {
		t.Errorf("%d %s", code, raw)
	}
	code, raw = w.post("/api/workers/box/rekey", "")
	if v := parse[api.EnrollmentReply](t, raw); code != 200 || v.Token == "" || v.Token == e.Token {
		t.Errorf("%d %s", code, raw)
	}
	code, raw = w.request("DELETE", "/api/workers/box", "", api.HeaderToken, secret)
	if v := parse[api.WorkerList](t, raw); code != 200 || len(v.Workers) != 0 {
		t.Errorf("%d %s", code, raw)
	}
	for _, path := range []string{"/api/workers/box/drain", "/api/workers/box/rekey"} {
		if code, _ := w.post(path, ""); code != 404 {
			t.Errorf("%s of nobody: %d", path, code)
		}
	}
}

// TestS05Roles: S-05, SEC-14: each role may what those before it may, and no more; what is
// submitted bears the user's name.
func TestS05Roles(t *testing.T) {
	w := newSite(t)
	secrets := map[api.Role]string{"": "nonsense"}
	for _, role := range []api.Role{api.RoleRead, api.RoleSubmit, api.RoleAdmin} {
		code, raw := w.post(api.PathTokens, `{"name":"`+string(role)+`er","role":"`+string(role)+`"}`)
		if code != 200 {
			t.Fatalf("%d %s", code, raw)
		}
		secrets[role] = parse[api.TokenReply](t, raw).Token
	}
	const submit = `{"options":{"command":{"argv":["true"],"cwd":"/"}}}`
	for _, c := range []struct {
		method, path, body string
		need               api.Role
	}{
		{"GET", api.PathTokens, "", api.RoleAdmin},
		{"POST", api.PathRuns, submit, api.RoleSubmit},
		{"POST", api.PathWorkerEnrollments, "", api.RoleAdmin},
		{"POST", api.PathTokens, `{"name":"x","role":"nothing"}`, api.RoleAdmin},
		{"DELETE", "/api/tokens/nobody", "", api.RoleAdmin},
		{"POST", "/api/workers/nobody/drain", "", api.RoleAdmin},
		{"DELETE", "/api/workers/nobody", "", api.RoleAdmin},
		{"POST", api.PathDBBackup, `{}`, api.RoleAdmin},
		{"POST", "/api/runs/ffff/cancel", "", api.RoleSubmit},
	} {
		for _, role := range []api.Role{"", api.RoleRead, api.RoleSubmit, api.RoleAdmin} {
			code, raw := w.request(c.method, c.path, c.body, "Authorization", "Bearer "+secrets[role])
			if refused := code == 403; refused == role.Allows(c.need) {
				t.Errorf("%s %s as %q: %d %s", c.method, c.path, role, code, raw)
			}
		}
	}
	code, raw := w.request("POST", api.PathRuns, submit, api.HeaderToken, secrets[api.RoleSubmit])
	id := parse[api.SubmitReply](t, raw).RunID
	if code != 200 {
		t.Fatalf("%d %s", code, raw)
	}
	_, raw = w.request("GET", "/api/runs/"+id, "")
	if v := parse[api.Run](t, raw); v.User != "submiter" {
		t.Errorf("the run is of %q", v.User)
	}
	if code, _ := w.request("DELETE", "/api/tokens/submiter", "", api.HeaderToken, secret); code != 200 {
		t.Errorf("revoke: %d", code)
	}
	if code, _ := w.request("POST", api.PathRuns, submit, api.HeaderToken, secrets[api.RoleSubmit]); code != 403 {
		t.Errorf("a revoked token: %d", code)
	}
}
