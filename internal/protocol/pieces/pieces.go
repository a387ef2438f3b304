// Package pieces carries WebSocket messages piece by piece, so that a slow line
// isn't taken for a dead one: patience is for the next piece, not for a whole
// message, which may be megabytes. It owns nothing and knows nothing of what a
// message says.
package pieces

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Buffer is the write buffer of connections that are written to with Write:
// what is more than it is no smaller piece to the network.
const Buffer = 16 << 10

const (
	readPiece  = 64 << 10
	writePiece = Buffer
)

// Read reads one message. alive is called before it, and at each piece of it;
// it puts off the read deadline.
func Read(ws *websocket.Conn, alive func() error) ([]byte, error) {
	if err := alive(); err != nil {
		return nil, err
	}
	_, reader, err := ws.NextReader()
	if err != nil {
		return nil, err
	}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	raw := (*buf)[:0]
	for {
		if len(raw) == cap(raw) {
			raw = slices.Grow(raw, max(len(raw), readPiece))
		}
		n, err := reader.Read(raw[len(raw):min(cap(raw), len(raw)+readPiece)])
		raw = raw[:len(raw)+n]
		switch {
		case errors.Is(err, io.EOF):
			if cap(raw) <= maxScratch {
				*buf = raw
			}
			return bytes.Clone(raw), nil
		case err != nil:
			return nil, err
		}
		if err := alive(); err != nil {
			return nil, err
		}
	}
}

// scratch holds what messages are read into, since their length isn't known
// before; maxScratch bounds what is kept for the next one.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

const maxScratch = 1 << 20

// Write writes one text message; deadline gives the one of each piece.
func Write(ws *websocket.Conn, raw []byte, deadline func() time.Time) error {
	if len(raw) <= writePiece {
		if err := ws.SetWriteDeadline(deadline()); err != nil {
			return err
		}
		return ws.WriteMessage(websocket.TextMessage, raw)
	}
	w, err := ws.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	for len(raw) > 0 {
		n := min(len(raw), writePiece)
		if err := ws.SetWriteDeadline(deadline()); err != nil {
			return err
		}
		if _, err := w.Write(raw[:n]); err != nil {
			return err
		}
		raw = raw[n:]
	}
	if err := ws.SetWriteDeadline(deadline()); err != nil {
		return err
	}
	return w.Close()
}
