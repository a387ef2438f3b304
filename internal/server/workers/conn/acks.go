package conn

import (
	"sync"

	"cdui/internal/protocol"
)

// acks are acknowledgements that are still to be sent. The writer of a session
// sends them when one is full, or a while after the first.
type acks struct {
	mu  sync.Mutex
	due map[Key]*due
	// wake tells that something is due, full that it must not wait.
	wake, full chan struct{}
}

type due struct {
	seq     uint64
	records int
}

// Acknowledge notes that records up to seq are on disk.
func (c *Conn) Acknowledge(k Key, seq uint64, records int, now bool) {
	c.acks.mu.Lock()
	d := c.acks.due[k]
	if d == nil {
		d = &due{}
		c.acks.due[k] = d
	}
	d.seq = max(d.seq, seq)
	d.records += records
	now = now || d.records >= protocol.AckRecords
	c.acks.mu.Unlock()
	signal := c.acks.wake
	if now {
		signal = c.acks.full
	}
	select {
	case signal <- struct{}{}:
	default:
	}
}

// putAcks writes all that are due.
func (c *Conn) putAcks() error {
	c.acks.mu.Lock()
	list := c.acks.due
	c.acks.due = map[Key]*due{}
	c.acks.mu.Unlock()
	for k, d := range list {
		raw, err := protocol.Encode(c.Epoch, &protocol.Ack{RunID: k.RunID, Attempt: k.Attempt, Seq: d.seq})
		if err != nil {
			return err
		}
		if err := c.put(Message{pieces: [][]byte{raw}}, c.patiently); err != nil {
			return err
		}
	}
	return nil
}
