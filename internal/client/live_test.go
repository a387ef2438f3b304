package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/client"
)

func TestTheFeedOfAClient(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(api.HeaderToken) != "t0ken" || r.URL.String() != "/ws/live?boot=b&cursor=7" {
			t.Errorf("asked %s with %q", r.URL, r.Header.Get(api.HeaderToken))
		}
		up := websocket.Upgrader{}
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_ = conn.WriteJSON(api.LiveFrame{Type: api.LiveDelta, Boot: "b", Cursor: 8})
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, ""), time.Now().Add(time.Second))
	})
	conn, err := c.Live(t.Context(), "b", 7)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if f, err := conn.Next(); err != nil || f.Cursor != 8 {
		t.Errorf("%+v, %v", f, err)
	}
	var gone *client.Unreachable
	if _, err := conn.Next(); !errors.As(err, &gone) || !strings.Contains(err.Error(), "has stopped") {
		t.Errorf("%v", err)
	}
}

func TestAFeedThatIsRefused(t *testing.T) {
	t.Parallel()
	for says, h := range map[string]http.HandlerFunc{
		"older than this program": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":{"code":"not_found","message":"no route"}}`))
		},
		"this needs the control plane's token": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error":{"code":"unauthorized","message":"this needs the control plane's token"}}`))
		},
		"no control plane of cdui": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
	} {
		if _, err := serve(t, h).Live(t.Context(), "", 0); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func TestAFeedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{}
		conn, err := up.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _, _ = conn.ReadMessage() // until the other side goes
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	conn, err := c.Live(ctx, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	why := errors.New("ctrl-c")
	cancel(why)
	if _, err := conn.Next(); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}
