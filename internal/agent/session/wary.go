package session

import (
	"context"
	"errors"
	"sync"

	"github.com/gorilla/websocket"

	"cdui/internal/protocol"
)

// calmAfter is how many records go well one by one before they flow again.
const calmAfter = 64

// wary finds the record that makes the other side hang up. Sent again after
// each reconnection it would keep every run of this worker from ever being
// heard, so after such an end records go one by one, each when the one before
// is acknowledged; the one on the way at the next such end is left out.
type wary struct {
	mu    sync.Mutex
	on    bool
	well  int
	key   Key
	seq   uint64
	taken bool
	// freed is closed when the turn is free again.
	freed chan struct{}
	skip  map[Key]map[uint64]bool
}

// turn waits for the turn to send one record, where records go one by one.
func (w *wary) turn(ctx context.Context) (single bool, err error) {
	for {
		w.mu.Lock()
		if !w.on {
			w.mu.Unlock()
			return false, nil
		}
		if !w.taken {
			w.taken, w.seq, w.key = true, 0, Key{}
			w.freed = make(chan struct{})
			w.mu.Unlock()
			return true, nil
		}
		freed := w.freed
		w.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// suspect notes which record has the turn.
func (w *wary) suspect(key Key, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.key, w.seq = key, seq
}

// acked frees the turn when its record is acknowledged.
func (w *wary) acked(key Key, seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.taken || w.key != key || w.seq == 0 || seq < w.seq {
		return
	}
	w.free()
	if w.well++; w.well >= calmAfter {
		w.on = false
	}
}

// pass gives the turn back unused.
func (w *wary) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free()
}

func (w *wary) free() {
	if w.taken {
		w.taken, w.seq = false, 0
		close(w.freed)
	}
}

// skips tells whether a record was found to be what nobody takes.
func (w *wary) skips(key Key, seq uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skip[key][seq]
}

// judge looks at why a session ended.
func (w *wary) judge(err error, s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key, seq, taken := w.key, w.seq, w.taken
	w.free()
	var closed *websocket.CloseError
	if !errors.As(err, &closed) || closed.Code != protocol.CloseBadFrame && closed.Code != websocket.CloseMessageTooBig {
		return
	}
	w.well = 0
	if !w.on || !taken || seq == 0 {
		w.on = true
		return
	}
	s.log.Error("the control plane can't take a record; it is left out", "run_id", key.RunID, "attempt", key.Attempt, "seq", seq, "error", err)
	if w.skip == nil {
		w.skip = map[Key]map[uint64]bool{}
	}
	if w.skip[key] == nil {
		w.skip[key] = map[uint64]bool{}
	}
	w.skip[key][seq] = true
	w.on = false
}

// forget drops what is known of an attempt.
func (w *wary) forget(key Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.skip, key)
}
