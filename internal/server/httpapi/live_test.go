package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// listen opens the feed and gives the status of the answer, 0 for none.
func (w *site) listen(query string, header http.Header) (conn *websocket.Conn, status int) {
	w.t.Helper()
	d := websocket.Dialer{ReadBufferSize: 1 << 10}
	conn, res, err := d.Dial("ws"+strings.TrimPrefix(w.web.URL, "http")+api.PathLive+query, header)
	if res != nil {
		defer res.Body.Close()
		status = res.StatusCode
	}
	if err == nil {
		w.t.Cleanup(func() { conn.Close() })
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			w.t.Fatal(err)
		}
	}
	return conn, status
}

func (w *site) mustListen(query string) *websocket.Conn {
	w.t.Helper()
	conn, status := w.listen(query, nil)
	if status != http.StatusSwitchingProtocols {
		w.t.Fatalf("status %d", status)
	}
	return conn
}

func frame(t *testing.T, conn *websocket.Conn) api.LiveFrame {
	t.Helper()
	var f api.LiveFrame
	if err := conn.ReadJSON(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// until reads frames until one satisfies ok.
func until(t *testing.T, conn *websocket.Conn, ok func(api.LiveFrame) bool) api.LiveFrame {
	t.Helper()
	for {
		if f := frame(t, conn); ok(f) {
			return f
		}
	}
}

func hasRun(id string, ok func(api.LiveRun) bool) func(api.LiveFrame) bool {
	return func(f api.LiveFrame) bool {
		for _, r := range f.Runs {
			if r.ID == id && ok(r) {
				return true
			}
		}
		return false
	}
}

// Proves T-01: a snapshot, then what changes, with a cursor to go on from.
func TestTheFeedIsASnapshotAndThenWhatChanges(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	first := w.submit("")
	conn := w.mustListen("")
	f := frame(t, conn)
	if f.Type != api.LiveSnapshot || f.Boot != "b" || f.Machine == nil || f.Counts == nil || f.Counts.Runs != 1 || !f.Complete || f.More {
		t.Fatalf("%+v", f)
	}
	if len(f.Runs) != 1 || f.Runs[0].ID != first || f.Runs[0].Name != "true" || f.Runs[0].Kind != "command" {
		t.Errorf("%+v", f.Runs)
	}
	w.report(first, 1, protocol.Record{Type: protocol.Metrics, Points: json.RawMessage(`[{"name":"loss","value":0.5,"step":1}]`)})
	until(t, conn, hasRun(first, func(r api.LiveRun) bool { return string(r.Final["loss"]) == "0.5" }))
	var later []string
	for range 4 {
		later = append(later, w.submit(`,"hold":true`))
	}
	until(t, conn, hasRun(later[3], func(r api.LiveRun) bool { return r.Held && r.Aside != nil && r.Aside.Code == run.ReasonHeld }))
	w.report(first, 2, finished(run.Succeeded))
	end := until(t, conn, hasRun(first, func(r api.LiveRun) bool { return r.Status == run.Succeeded }))

	// What somebody changed is counted, once it is in the log.
	w.post(api.PathWorkerEnrollments, `{"name":"box"}`)
	until(t, conn, func(f api.LiveFrame) bool { return f.Counts != nil && f.Counts.Actions == 6 })
	if log := w.actions(""); log[0].Verb != "add" {
		t.Errorf("the log has %+v", log[0])
	}

	// Who comes back is sent what changed since.
	conn.Close()
	w.submit(`,"hold":true`)
	again := frame(t, w.mustListen(fmt.Sprintf("?boot=b&cursor=%d", end.Cursor)))
	if again.Type != api.LiveDelta || len(again.Runs) != 1 || !again.Complete {
		t.Errorf("resumed: %s with %d runs", again.Type, len(again.Runs))
	}
	for name, query := range map[string]string{
		"another life": fmt.Sprintf("?boot=x&cursor=%d", end.Cursor), "the future": "?boot=b&cursor=99999", "nonsense": "?boot=b&cursor=x",
	} {
		if f := frame(t, w.mustListen(query)); f.Type != api.LiveSnapshot || len(f.Runs) != 6 {
			t.Errorf("%s: %s with %d runs", name, f.Type, len(f.Runs))
		}
	}
	if code, raw := w.request("DELETE", "/api/runs/"+first, "", api.HeaderToken, secret); code != 200 {
		t.Fatalf("%d %s", code, raw)
	}
	conn = w.mustListen(fmt.Sprintf("?boot=b&cursor=%d", end.Cursor))
	until(t, conn, func(f api.LiveFrame) bool { return len(f.GoneRuns) == 1 && f.GoneRuns[0] == first })
}

// A reader that doesn't read holds nothing at the control plane: what it missed
// comes as one snapshot.
func TestASlowReaderGetsASnapshotInTheEnd(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	conn := w.mustListen("")
	if f := frame(t, conn); f.Type != api.LiveSnapshot {
		t.Fatalf("%+v", f)
	}
	const bulk = 5
	for range bulk {
		body := strings.TrimSuffix(strings.Repeat(`{"options":{"hold":true,"command":{"argv":["true"],"cwd":"/"}},"name":"`+strings.Repeat("名", 60)+`"},`, api.MaxBulk), ",")
		if code, raw := w.post(api.PathRunsBulk, `{"runs":[`+body+`]}`); code != 200 {
			t.Fatalf("%d %s", code, raw)
		}
	}
	seen, snapshots := map[string]bool{}, 0
	for len(seen) < bulk*api.MaxBulk {
		f := frame(t, conn)
		if f.Type == api.LiveSnapshot {
			snapshots++
			clear(seen)
		}
		for _, r := range f.Runs {
			seen[r.ID] = true
		}
		for _, k := range f.Keys {
			if len(k.Waiting) > 2*api.MaxLiveWaiting {
				t.Errorf("%s lists %d waiting runs", k.Key, len(k.Waiting))
			}
		}
	}
	t.Logf("%d snapshots", snapshots)
}

// Proves S-05 for the feed: it is a read.
func TestWhoMayListen(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"here":         {nil, http.StatusSwitchingProtocols},
		"foreign page": {http.Header{"Origin": {"http://evil.example"}}, http.StatusForbidden},
		"foreign host": {http.Header{"Host": {"evil.example"}}, http.StatusMisdirectedRequest},
		"own page":     {http.Header{"Origin": {"http://lab.example"}}, http.StatusSwitchingProtocols},
	} {
		if _, status := w.listen("", c.header); status != c.status {
			t.Errorf("%s: %d", name, status)
		}
	}
	// From another machine it takes a token.
	for token, status := range map[string]int{"": http.StatusForbidden, "wrong": http.StatusForbidden} {
		req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8000"+api.PathLive, nil)
		req.RemoteAddr = "192.0.2.7:1234"
		req.Header.Set(api.HeaderToken, token)
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, req)
		if rec.Code != status {
			t.Errorf("token %q: %d %s", token, rec.Code, rec.Body)
		}
	}
}

// A control plane that stops opens no socket that nobody would wait for.
func TestNoSocketIsOpenedOnceItCloses(t *testing.T) {
	t.Parallel()
	w := newSite(t)
	w.api.Close()
	for _, path := range []string{api.PathLive, api.PathExecution} {
		conn, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(w.web.URL, "http")+path, nil)
		if err == nil {
			_ = conn.Close()
			t.Fatalf("%s is open", path)
		}
		if resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %v, %v", path, resp, err)
		}
	}
}
