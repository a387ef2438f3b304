package httpapi_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

func (w *site) dial(query string, header http.Header) *websocket.Conn {
	w.t.Helper()
	url := "ws" + strings.TrimPrefix(w.web.URL, "http") + api.PathExecution + query
	conn, res, err := websocket.DefaultDialer.Dial(url, header)
	if err != nil {
		w.t.Fatal(err)
	}
	res.Body.Close()
	w.t.Cleanup(func() { conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

func receive(t *testing.T, conn *websocket.Conn) map[string]any {
	t.Helper()
	var m map[string]any
	if err := conn.ReadJSON(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Proves D.5.
func TestTheSocketRefusesStrangers(t *testing.T) {
	w := newSite(t)
	for name, c := range map[string]struct {
		query  string
		header http.Header
		code   int
	}{
		"no token":     {"", nil, 4401},
		"wrong token":  {"?token=x", nil, 4401},
		"foreign page": {"?token=let+me+in", http.Header{"Origin": {"http://evil.example"}}, 4003},
		"foreign host": {"?token=let+me+in", http.Header{"Host": {"evil.example"}}, 4003},
	} {
		_, _, err := w.dial(c.query, c.header).ReadMessage()
		var closed *websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Proves D.5, EVT-05.
func TestAttachReplaysFollowsAndCancels(t *testing.T) {
	w := newSite(t)
	id := w.submit("")
	w.report(id, 1, protocol.Record{Type: protocol.Warning, Kind: "first"})
	conn := w.dial("?token=let+me+in", nil)
	for name, frame := range map[string]string{
		"no such run":  `{"action":"attach","run_id":"ffffffffffffffffffffffffffffffff"}`,
		"beyond":       `{"action":"attach","run_id":"` + id + `","cursor":99}`,
		"bad cursor":   `{"action":"attach","run_id":"` + id + `","cursor":"x"}`,
		"unknown verb": `{"action":"dance"}`,
		"garbage":      `[`,
	} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, conn); m["type"] != "error" || m["error"] == "" {
			t.Errorf("%s: %v", name, m)
		}
	}
	if err := conn.WriteJSON(map[string]any{"action": "attach", "run_id": id, "cursor": 1}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, conn); m["type"] != "attached" || m["cursor"] != 1.0 || m["status"] != "running" {
		t.Fatalf("%v", m)
	}
	if m := receive(t, conn); m["type"] != run.EventRunWarning || m["kind"] != "first" || m["cursor"] != 2.0 || m["run_id"] != id {
		t.Errorf("replayed %v", m)
	}
	w.report(id, 2, protocol.Record{Type: protocol.Warning, Kind: "second"})
	if m := receive(t, conn); m["kind"] != "second" || m["cursor"] != 3.0 {
		t.Errorf("live %v", m)
	}
	if err := conn.WriteJSON(map[string]any{"action": "cancel"}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, conn); m["type"] != "cancel_ack" || m["cancelled"] != true {
		t.Errorf("%v", m)
	}
	w.report(id, 3, finished(run.Cancelled))
	if m := receive(t, conn); m["type"] != run.EventExecutionStopped || m["reason"] != "cancelled" {
		t.Errorf("%v", m)
	}
	if err := conn.WriteJSON(map[string]any{"action": "detach"}); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, conn); m["type"] != "detached" || m["run_id"] != id {
		t.Errorf("%v", m)
	}
}
