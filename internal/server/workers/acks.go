package workers

import (
	"sync"

	"cdui/internal/protocol"
)

// acks are acknowledgements that are still to be sent. The writer of a session
// sends them when one is full, or a while after the first.
type acks struct {
	mu  sync.Mutex
	due map[key]*due
	// wake tells that something is due, full that it must not wait.
	wake, full chan struct{}
}

type due struct {
	seq     uint64
	records int
}

// acknowledge notes that records up to seq are on disk.
func (s *session) acknowledge(k key, seq uint64, records int, now bool) {
	s.acks.mu.Lock()
	d := s.acks.due[k]
	if d == nil {
		d = &due{}
		s.acks.due[k] = d
	}
	d.seq = max(d.seq, seq)
	d.records += records
	now = now || d.records >= protocol.AckRecords
	s.acks.mu.Unlock()
	signal := s.acks.wake
	if now {
		signal = s.acks.full
	}
	select {
	case signal <- struct{}{}:
	default:
	}
}

// putAcks writes all that are due.
func (s *session) putAcks() error {
	s.acks.mu.Lock()
	list := s.acks.due
	s.acks.due = map[key]*due{}
	s.acks.mu.Unlock()
	for k, d := range list {
		raw, err := protocol.Encode(s.epoch, &protocol.Ack{RunID: k.id, Attempt: k.attempt, Seq: d.seq})
		if err != nil {
			return err
		}
		if err := s.put(message{pieces: [][]byte{raw}}, s.patience); err != nil {
			return err
		}
	}
	return nil
}
