package session

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"cdui/internal/protocol"
	"cdui/internal/protocol/credit"
)

const (
	// flowBytes and flowRecords bound what one run adds to a frame, so that a
	// flood of one run leaves room for the others.
	flowBytes   = 64 << 10
	flowRecords = 256
	// frameRoom is what a frame needs besides its record.
	frameRoom = 512
	// retryRead is how long a source that fails is left alone.
	retryRead = 5 * time.Second
)

// flow sends the records of one attempt within its credit.
type flow struct {
	s      *session
	key    Key
	src    Source
	cancel context.CancelFunc
	done   chan struct{}
	// room has one element after an acknowledgement made some.
	room chan struct{}

	mu     sync.Mutex
	credit credit.Run
}

// startFlow begins a flow after what the control plane has. The client's lock
// is held.
func (s *session) startFlow(key Key, src Source) {
	if s.stopped.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.stopped)
	f := &flow{s: s, key: key, src: src, cancel: cancel, done: make(chan struct{}), room: make(chan struct{}, 1)}
	s.mu.Lock()
	s.flows[key] = f
	s.mu.Unlock()
	s.wg.Go(func() {
		defer close(f.done)
		defer cancel()
		f.run(ctx, s.recorded[key])
	})
}

// takeFlow removes a flow; the caller stops it.
func (s *session) takeFlow(key Key) *flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flows[key]
	delete(s.flows, key)
	return f
}

func (f *flow) stop() {
	f.cancel()
	<-f.done
}

func (f *flow) run(ctx context.Context, after uint64) {
	f.src.From(after)
	for {
		records, err := f.src.Next(ctx)
		if sendErr := f.send(ctx, records); sendErr != nil {
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return
		default:
			f.s.log.Error("read records", "run_id", f.key.RunID, "error", err)
			timer := time.NewTimer(retryRead)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}
}

// send brings records to the writer as credit comes in.
func (f *flow) send(ctx context.Context, all []protocol.Record) error {
	records := f.sendable(all)
	for len(records) > 0 {
		turn, err := f.s.client.wary.turn(ctx)
		if err != nil {
			return err
		}
		n := f.take(records, turn)
		if n == 0 {
			if turn {
				f.s.client.wary.pass()
			}
			select {
			case <-f.room:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		if turn {
			f.s.client.wary.suspect(f.key, records[0].seq)
		}
		if err := f.s.out.bring(ctx, bulk{key: f.key, records: records[:n:n]}); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// sendable leaves out what can't travel, or what this peer doesn't know. The
// other side sees a gap.
func (f *flow) sendable(all []protocol.Record) []record {
	out := make([]record, 0, len(all))
	for _, r := range all {
		if r.Type == protocol.RunFacts && !f.s.caps.Has(protocol.CapRunFacts) {
			continue
		}
		if err := protocol.CheckRecord(r.Raw); err != nil {
			f.s.log.Error("record can't be sent and is left out", "run_id", f.key.RunID, "seq", r.Seq, "error", err)
			continue
		}
		// Left out here and not by the writer: what is never acknowledged must
		// take no credit.
		if len(r.Raw)+frameRoom > protocol.MaxFrameBytes && !f.s.caps.Has(protocol.CapParts) {
			f.s.log.Error("record is too long for this peer and is left out", "run_id", f.key.RunID, "seq", r.Seq, "bytes", len(r.Raw))
			continue
		}
		if f.s.client.wary.skips(f.key, r.Seq) {
			continue
		}
		out = append(out, record{seq: r.Seq, kind: r.Type, raw: r.Raw})
	}
	return out
}

// take reserves credit for the first of the records, as many as belong into
// one frame, and tells how many that are.
func (f *flow) take(records []record, single bool) int {
	most, size := 0, 0
	sizes := make([]int, 0, min(len(records), flowRecords))
	for _, r := range records {
		if most > 0 && (size+len(r.raw) > flowBytes || most == flowRecords || single) {
			break
		}
		most++
		size += len(r.raw)
		sizes = append(sizes, len(r.raw))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.credit.Take(sizes...)
	for i := range n {
		f.credit.Sent(records[i].seq, sizes[i])
	}
	return n
}

func (f *flow) acked(seq uint64) {
	f.mu.Lock()
	freed := f.credit.Acked(seq)
	f.mu.Unlock()
	f.s.client.wary.acked(f.key, seq)
	if freed {
		select {
		case f.room <- struct{}{}:
		default:
		}
	}
}
