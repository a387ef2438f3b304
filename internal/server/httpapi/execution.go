package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/server/feed"
	"cdui/internal/store"
)

// Close codes of /ws/execution.
const (
	closeForbidden = 4003
	closeNoToken   = 4401
)

const (
	socketWrite  = 10 * time.Second
	socketPing   = 20 * time.Second
	socketPong   = 60 * time.Second
	socketReplay = 500
)

// execution serves /ws/execution: a client attaches to one run at a time and
// is sent its log from a cursor on, replayed and live. Closing the socket never
// cancels a run.
func (s *Server) execution(w http.ResponseWriter, r *http.Request) {
	conn, ok := s.upgrade(w, r)
	if !ok {
		return
	}
	defer s.sockets.Done()
	defer conn.Close()
	given := r.URL.Query().Get("token")
	switch {
	case !s.hostAllowed(r.Host) || !s.originAllowed(r):
		refuse(conn, closeForbidden, "host or origin not allowed")
		return
	case s.maySubmit(givenToken(r)):
		given = givenToken(r)
	case !s.maySubmit(given):
		refuse(conn, closeNoToken, "token missing or wrong")
		return
	}
	conn.SetReadLimit(s.cfg.BodyCap)
	sock := &socket{server: s, conn: conn, from: s.origin(r, given)}
	sock.serve(r.Context())
}

// maySubmit tells whether a token may do all that the socket takes.
func (s *Server) maySubmit(secret string) bool {
	_, role, known := s.caller(secret)
	return known && role.Allows(api.RoleSubmit)
}

func refuse(conn *websocket.Conn, code int, why string) {
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, why), time.Now().Add(socketWrite))
}

// socket is one connection. serve owns it: one goroutine reads actions, serve
// itself writes, so that no write needs a lock.
type socket struct {
	server *Server
	conn   *websocket.Conn
	from   origin

	attached string
	cursor   int64
	sub      *feed.Subscription
}

// action is what a client asks for.
type action struct {
	Action string          `json:"action"`
	RunID  string          `json:"run_id"`
	Cursor json.RawMessage `json:"cursor"`
	bad    string
}

func (k *socket) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	actions := make(chan action)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(actions)
		k.read(ctx, actions)
	}()
	defer func() { <-done }()
	defer k.conn.Close()
	defer cancel()
	ping := time.NewTicker(socketPing)
	defer ping.Stop()
	defer k.detach()
	for {
		var nudge <-chan struct{}
		if k.sub != nil {
			nudge = k.sub.C()
		}
		var err error
		select {
		case a, ok := <-actions:
			if !ok {
				return
			}
			err = k.act(ctx, a)
		case <-nudge:
			err = k.replay(ctx)
		case <-ping.C:
			err = k.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(socketWrite))
		case <-k.server.done:
			refuse(k.conn, websocket.CloseGoingAway, "the control plane stops")
			return
		}
		if err != nil {
			return
		}
	}
}

func (k *socket) read(ctx context.Context, actions chan<- action) {
	extend := func(string) error { return k.conn.SetReadDeadline(time.Now().Add(socketPong)) }
	k.conn.SetPongHandler(extend)
	for {
		if extend("") != nil {
			return
		}
		_, raw, err := k.conn.ReadMessage()
		if err != nil {
			return
		}
		var a action
		if json.Unmarshal(raw, &a) != nil {
			a = action{bad: "not a JSON object with an action"}
		}
		select {
		case actions <- a:
		case <-ctx.Done():
			return
		}
	}
}

func (k *socket) send(v any) error {
	if err := k.conn.SetWriteDeadline(time.Now().Add(socketWrite)); err != nil {
		return err
	}
	return k.conn.WriteJSON(v)
}

func (k *socket) complain(text string) error {
	return k.send(map[string]any{"type": "error", "error": text})
}

func (k *socket) act(ctx context.Context, a action) error {
	switch {
	case a.bad != "":
		return k.complain(a.bad)
	case a.Action == "attach":
		return k.attach(ctx, a)
	case a.Action == "detach":
		id := k.attached
		k.detach()
		return k.send(map[string]any{"type": "detached", "run_id": id})
	case a.Action == "cancel" || a.Action == "stop":
		return k.cancel(ctx, a)
	case a.Action == "clear_cache":
		// Queued runs have no cache; there is nothing to keep.
		return k.send(map[string]any{"type": "cache_cleared"})
	case a.Action == "execute":
		return k.send(map[string]any{
			"type": "execution_error", "rejected": true,
			"error": "this control plane takes runs through POST /api/runs; attach to follow one",
		})
	}
	return k.complain("unknown action " + a.Action + "; use attach, detach or cancel")
}

func (k *socket) attach(ctx context.Context, a action) error {
	cursor := int64(0)
	if len(a.Cursor) > 0 && (json.Unmarshal(a.Cursor, &cursor) != nil || cursor < 0) {
		return k.complain("cursor must be a whole number of 0 or more")
	}
	row, err := k.server.cfg.Store.Run(ctx, a.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return k.complain("no run " + a.RunID)
	}
	if err != nil {
		return err
	}
	last, err := k.server.cfg.Store.LastCursor(ctx, a.RunID)
	if err != nil {
		return err
	}
	if cursor > last {
		return k.complain("cursor is beyond the end of the log")
	}
	k.detach()
	// Subscribed before the replay, so that nothing falls between the two.
	k.sub = k.server.cfg.Feed.Subscribe(a.RunID)
	k.attached, k.cursor = a.RunID, cursor
	if err := k.send(map[string]any{"type": "attached", "run_id": a.RunID, "cursor": cursor, "status": row.Status}); err != nil {
		return err
	}
	return k.replay(ctx)
}

func (k *socket) detach() {
	if k.sub != nil {
		k.sub.Close()
	}
	k.sub, k.attached, k.cursor = nil, "", 0
}

// replay sends what the log holds after the cursor, page by page.
func (k *socket) replay(ctx context.Context) error {
	for {
		events, err := k.server.cfg.Store.Events(ctx, k.attached, k.cursor, socketReplay, k.server.cfg.ResponseCap)
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			if err := k.send(frame(k.attached, e)); err != nil {
				return err
			}
			k.cursor = e.Cursor
		}
	}
}

// frame is a stored event as it goes out: its payload's members, then type,
// run_id and cursor.
func frame(runID string, e store.Event) map[string]any {
	members := map[string]json.RawMessage{}
	_ = json.Unmarshal(e.Payload, &members) // null has no members
	out := make(map[string]any, len(members)+3)
	for k, v := range members {
		out[k] = v
	}
	out["type"], out["run_id"], out["cursor"] = e.Type, runID, e.Cursor
	return out
}

func (k *socket) cancel(ctx context.Context, a action) error {
	id := a.RunID
	if id == "" {
		id = k.attached
	}
	if id == "" {
		return k.send(map[string]any{"type": run.EventExecutionStopped, "reason": "not_running"})
	}
	reply, err := k.server.cfg.Runs.Cancel(ctx, id, -1, false)
	if e := refusal(err); e != nil {
		return k.complain(e.Message)
	}
	if err != nil {
		return err
	}
	object, detail := changed(nil, reply)
	k.server.note(ctx, k.from, act{"cancel", "run"}, object, detail)
	return k.send(map[string]any{"type": "cancel_ack", "run_id": id, "status": reply.Status, "cancelled": reply.Cancelled})
}
