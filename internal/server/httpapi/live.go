package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/store"
)

const (
	// livePace is the least time between two deltas.
	livePace = 100 * time.Millisecond
	// liveLook is how often cards, workers and reasons are looked at; they
	// change without a run's doing.
	liveLook = time.Second
	// liveCount is how long a count of all runs is good.
	liveCount = 2 * time.Second
	// livePage is how many runs one frame holds.
	livePage = 500
	// liveOverlap is how many runs two pages of a snapshot share, since runs
	// that are deleted between them move the rest up.
	liveOverlap = 50
	// liveRead bounds what a reader may send: nothing but control frames.
	liveRead = 1 << 10
)

// live serves /ws/live to whoever may read.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	if err := s.permit(r, api.RoleRead); err != nil {
		s.fail(w, r, err)
		return
	}
	cursor, err := strconv.ParseInt(r.URL.Query().Get("cursor"), 10, 64)
	if err != nil || r.URL.Query().Get("boot") != s.cfg.Host.Info().BootID {
		cursor = -1
	}
	conn, ok := s.upgrade(w, r)
	if !ok {
		return
	}
	defer s.sockets.Done()
	defer conn.Close()
	l := &liveReader{server: s, conn: conn, cursor: cursor, sent: map[string]uint64{}, boot: s.cfg.Host.Info().BootID}
	l.serve(r.Context())
}

// liveReader is one connection. What it is behind by is a cursor and never a
// queue: while a write takes long nothing gathers here, and what was missed is
// read when the write is done, as a snapshot if that is too much.
type liveReader struct {
	server *Server
	conn   *websocket.Conn
	boot   string
	// cursor is what the reader has; negative: nothing.
	cursor int64
	// sent maps what else the reader has to a hash of it.
	sent map[string]uint64

	total   int
	counted time.Time
}

func (l *liveReader) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer cancel()
		l.read()
	}()
	defer func() { <-gone }()
	defer l.conn.Close()
	sub := l.server.cfg.Feed.SubscribeAll()
	defer sub.Close()
	look, ping := time.NewTicker(liveLook), time.NewTicker(socketPing)
	defer look.Stop()
	defer ping.Stop()
	if err := l.begin(ctx); err != nil {
		l.server.log.Debug("live feed", "error", err)
		return
	}
	for {
		var err error
		select {
		case <-sub.C():
			err = l.delta(ctx)
		case <-look.C:
			err = l.delta(ctx)
		case <-ping.C:
			err = l.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(socketWrite))
		case <-ctx.Done():
			return
		case <-l.server.done:
			refuse(l.conn, websocket.CloseGoingAway, "the control plane stops")
			return
		}
		if err != nil {
			l.server.log.Debug("live feed", "error", err)
			return
		}
		pace := time.NewTimer(livePace)
		select {
		case <-pace.C:
		case <-ctx.Done():
		case <-l.server.done:
		}
		pace.Stop()
	}
}

// read waits for the end of the connection; readers have nothing to say.
func (l *liveReader) read() {
	l.conn.SetReadLimit(liveRead)
	extend := func(string) error { return l.conn.SetReadDeadline(time.Now().Add(socketPong)) }
	l.conn.SetPongHandler(extend)
	for extend("") == nil {
		if _, _, err := l.conn.ReadMessage(); err != nil {
			return
		}
	}
}

func (l *liveReader) send(f api.LiveFrame) error {
	f.Boot = l.boot
	if err := l.conn.SetWriteDeadline(time.Now().Add(socketWrite)); err != nil {
		return err
	}
	return l.conn.WriteJSON(f)
}

// begin sends a snapshot, or what changed since the reader was here.
func (l *liveReader) begin(ctx context.Context) error {
	if l.cursor >= 0 {
		if ids, now, known := l.server.cfg.Feed.Since(l.cursor); known {
			f := api.LiveFrame{Type: api.LiveDelta, Complete: true}
			l.around(ctx, &f)
			return l.changed(ctx, f, ids, now)
		}
	}
	return l.snapshot(ctx)
}

// snapshot sends everything. Changes meanwhile come after it: the cursor is
// taken before.
func (l *liveReader) snapshot(ctx context.Context) error {
	cursor := l.server.cfg.Feed.Now()
	f := api.LiveFrame{Type: api.LiveSnapshot, Complete: true, Cursor: cursor}
	clear(l.sent)
	l.around(ctx, &f)
	newest := store.Filter{Limit: livePage}
	total, err := l.pages(ctx, &f, newest)
	if err == nil && total > api.MaxLiveRuns {
		newest.Statuses = []run.Status{run.Queued, run.Running, run.Disconnected}
		_, err = l.pages(ctx, &f, newest)
	}
	if err != nil {
		return err
	}
	l.cursor = cursor
	return l.send(f)
}

// pages sends runs page by page. f is the frame to fill next, and is left with
// the last page.
func (l *liveReader) pages(ctx context.Context, f *api.LiveFrame, filter store.Filter) (int, error) {
	for {
		rows, total, err := l.server.cfg.Store.List(ctx, filter)
		if err != nil {
			return 0, err
		}
		if len(f.Runs) > 0 {
			f.More = true
			if err := l.send(*f); err != nil {
				return 0, err
			}
			*f = api.LiveFrame{Type: api.LiveDelta, Cursor: f.Cursor}
		}
		if f.Runs, err = l.server.liveRows(ctx, rows); err != nil {
			return 0, err
		}
		if len(rows) < livePage || filter.Offset+livePage >= api.MaxLiveRuns {
			return total, nil
		}
		filter.Offset += livePage - liveOverlap
	}
}

// delta sends what changed since the last frame, if anything did.
func (l *liveReader) delta(ctx context.Context) error {
	ids, now, known := l.server.cfg.Feed.Since(l.cursor)
	if !known {
		return l.snapshot(ctx)
	}
	f := api.LiveFrame{Type: api.LiveDelta}
	l.around(ctx, &f)
	if len(ids) == 0 && f.Keys == nil && f.GoneKeys == nil && f.Workers == nil && f.GoneWorkers == nil && f.Machine == nil && f.Counts == nil {
		return nil
	}
	return l.changed(ctx, f, ids, now)
}

// changed sends f with the runs of ids, in as many frames as it takes.
func (l *liveReader) changed(ctx context.Context, f api.LiveFrame, ids []string, now int64) error {
	f.Cursor = now
	for {
		page := ids[:min(livePage, len(ids))]
		ids = ids[len(page):]
		rows := make([]run.Row, 0, len(page))
		for _, id := range page {
			row, err := l.server.cfg.Store.Run(ctx, id)
			if errors.Is(err, store.ErrNotFound) {
				f.GoneRuns = append(f.GoneRuns, id)
				continue
			}
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		var err error
		if f.Runs, err = l.server.liveRows(ctx, rows); err != nil {
			return err
		}
		f.More = len(ids) > 0
		if err := l.send(f); err != nil {
			return err
		}
		if len(ids) == 0 {
			l.cursor = now
			return nil
		}
		f = api.LiveFrame{Type: api.LiveDelta, Cursor: now}
	}
}

// around adds what is there beside runs and isn't what the reader has.
func (l *liveReader) around(ctx context.Context, f *api.LiveFrame) {
	status := l.server.cfg.Host.Status(ctx)
	counts := api.LiveCounts{Running: status.Running, Waiting: status.Waiting, Runs: l.count(ctx), Actions: l.server.actions.Load()}
	if l.news("counts", counts) {
		f.Counts = &counts
	}
	machine := api.LiveMachine{Server: status.Server, Devices: status.Devices, Problems: status.Problems}
	if l.news("machine", machine) {
		f.Machine = &machine
	}
	there := map[string]bool{"counts": true, "machine": true}
	for _, k := range l.server.cfg.Runs.Lines(api.MaxLiveWaiting) {
		there["key "+k.Key] = true
		if l.news("key "+k.Key, k) || f.Complete {
			f.Keys = append(f.Keys, k)
		}
	}
	if l.server.cfg.Workers != nil {
		for _, w := range l.server.cfg.Workers.List(ctx) {
			there["worker "+w.Name] = true
			if l.news("worker "+w.Name, w) || f.Complete {
				f.Workers = append(f.Workers, w)
			}
		}
	}
	for what := range l.sent {
		if there[what] {
			continue
		}
		delete(l.sent, what)
		if name, ok := strings.CutPrefix(what, "key "); ok {
			f.GoneKeys = append(f.GoneKeys, name)
		} else if name, ok := strings.CutPrefix(what, "worker "); ok {
			f.GoneWorkers = append(f.GoneWorkers, name)
		}
	}
}

// count gives the number of runs, which takes longer the more there are: it is
// counted anew when the last count is old.
func (l *liveReader) count(ctx context.Context) int {
	if time.Since(l.counted) < liveCount {
		return l.total
	}
	if _, total, err := l.server.cfg.Store.List(ctx, store.Filter{Limit: 1}); err == nil {
		l.total, l.counted = total, time.Now()
	}
	return l.total
}

// news tells whether something differs from what the reader was sent of it, and
// takes it as sent.
func (l *liveReader) news(what string, v any) bool {
	raw, err := json.Marshal(v)
	if err != nil {
		return false
	}
	h := fnv.New64a()
	_, _ = h.Write(raw) // never fails
	sum := h.Sum64()
	if old, ok := l.sent[what]; ok && old == sum {
		return false
	}
	l.sent[what] = sum
	return true
}
