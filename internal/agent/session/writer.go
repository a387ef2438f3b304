package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/protocol"
	"cdui/internal/protocol/pieces"
)

// urgentRoom is how many urgent frames may wait. More means that nothing gets
// through any more.
const urgentRoom = 64

var errTooSlow = errors.New("the connection takes nothing any more")

// bulk is what waits behind urgent frames: records of one run, or a frame.
type bulk struct {
	key     Key
	records []record
	frame   protocol.Frame
}

// record is one record as it is sent.
type record struct {
	seq  uint64
	kind protocol.RecordType
	raw  json.RawMessage
}

// writer is the one that writes on a connection.
type writer struct {
	conn     *websocket.Conn
	epoch    uint64
	caps     protocol.Capabilities
	patience time.Duration
	log      *slog.Logger

	urgent chan protocol.Frame
	// bulk has no room: what waits stays with who brings it, so that each run
	// waits for its own turn and memory is bounded by their number.
	bulk chan bulk
	part uint64
}

func newWriter(conn *websocket.Conn, epoch uint64, caps protocol.Capabilities, patience time.Duration, log *slog.Logger) *writer {
	return &writer{
		conn: conn, epoch: epoch, caps: caps, patience: patience, log: log,
		urgent: make(chan protocol.Frame, urgentRoom), bulk: make(chan bulk),
	}
}

// urge sends f ahead of records and output. It doesn't block.
func (w *writer) urge(f protocol.Frame) error {
	select {
	case w.urgent <- f:
		return nil
	default:
		return errTooSlow
	}
}

// bring hands over something bulky and waits until the writer takes it.
func (w *writer) bring(ctx context.Context, b bulk) error {
	select {
	case w.bulk <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run writes until ctx is over or the connection fails.
func (w *writer) run(ctx context.Context) error {
	for {
		if err := w.urgentFirst(); err != nil {
			return err
		}
		select {
		case f := <-w.urgent:
			if err := w.send(f); err != nil {
				return err
			}
		case b := <-w.bulk:
			if err := w.sendBulk(b); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// urgentFirst writes the urgent frames that wait.
func (w *writer) urgentFirst() error {
	for {
		select {
		case f := <-w.urgent:
			if err := w.send(f); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (w *writer) sendBulk(first bulk) error {
	if first.frame != nil {
		return w.send(first.frame)
	}
	if !w.caps.Has(protocol.CapFrames) {
		return w.sendSingly(first)
	}
	batch, next := w.collect(first)
	if err := w.send(batch); err != nil {
		return err
	}
	if next != nil {
		return w.send(next)
	}
	return nil
}

// collect adds the records of other runs that wait to the same frame. A frame
// that came up meanwhile is sent after it.
func (w *writer) collect(first bulk) (batch *protocol.Frames, next protocol.Frame) {
	batch = &protocol.Frames{}
	size := 0
	add := func(b bulk) {
		runs := batch.Runs
		if n := len(runs); n == 0 || runs[n-1].RunID != b.key.RunID || runs[n-1].Attempt != b.key.Attempt ||
			len(runs[n-1].Records)+len(b.records) > protocol.CreditRecords {
			runs = append(runs, protocol.RunRecords{RunID: b.key.RunID, Attempt: b.key.Attempt})
		}
		last := &runs[len(runs)-1]
		for _, r := range b.records {
			last.Records = append(last.Records, r.raw)
			size += len(r.raw)
		}
		batch.Runs = runs
	}
	add(first)
	for size < protocol.BatchBytes {
		select {
		case b := <-w.bulk:
			if b.frame != nil {
				return batch, b.frame
			}
			add(b)
			continue
		default:
		}
		break
	}
	return batch, nil
}

func (w *writer) sendSingly(b bulk) error {
	for _, r := range b.records {
		f := &protocol.SingleRecord{Type: r.kind, RunID: b.key.RunID, Attempt: b.key.Attempt, Seq: r.seq, Record: r.raw}
		if err := w.send(f); err != nil {
			return err
		}
		if err := w.urgentFirst(); err != nil {
			return err
		}
	}
	return nil
}

// send writes a frame. One that can't be sent is logged and left out: sending
// it again would fail again.
func (w *writer) send(f protocol.Frame) error {
	b, err := protocol.Encode(w.epoch, f)
	if err != nil {
		w.log.Error("frame can't be sent and is left out", "type", f.FrameType(), "error", err)
		return nil
	}
	if len(b) <= protocol.MaxFrameBytes {
		return w.write(b)
	}
	if !w.caps.Has(protocol.CapParts) {
		w.log.Error("frame is too long for this peer and is left out", "type", f.FrameType(), "bytes", len(b))
		return nil
	}
	w.part++
	parts, err := protocol.Split(w.part, b)
	if err != nil {
		w.log.Error("frame can't be sent and is left out", "type", f.FrameType(), "error", err)
		return nil
	}
	for _, p := range parts {
		pb, err := protocol.Encode(w.epoch, p)
		if err != nil {
			return err
		}
		if err := w.write(pb); err != nil {
			return err
		}
		if err := w.urgentFirst(); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) write(b []byte) error {
	if err := pieces.Write(w.conn, b, func() time.Time { return time.Now().Add(w.patience) }); err != nil {
		return fmt.Errorf("send frame: %w", err)
	}
	return nil
}
