// Package credit counts what an agent may have on the way for each run. It sends
// nothing and knows no frames.
package credit

import "cdui/internal/protocol"

// Run counts what one attempt of one run has on the way: records sent
// and not acknowledged. The zero value is a run with nothing on the way. The
// agent asks it what it may send; the control plane can hold an agent to it.
type Run struct {
	// out are the records on the way, in order.
	out   []onTheWay
	bytes int64
}

type onTheWay struct {
	seq  uint64
	size int
}

// Fits tells whether a record of size bytes may be sent now. One that is
// longer than the whole credit may when nothing else is on the way.
func (c *Run) Fits(size int) bool {
	if len(c.out) == 0 {
		return true
	}
	return len(c.out) < protocol.CreditRecords && c.bytes+int64(size) <= protocol.CreditBytes
}

// Take tells how many of the next records, given by their sizes, may be sent
// together now.
func (c *Run) Take(sizes ...int) int {
	records, total := len(c.out), c.bytes
	for i, size := range sizes {
		if records > 0 && (records >= protocol.CreditRecords || total+int64(size) > protocol.CreditBytes) {
			return i
		}
		records++
		total += int64(size)
	}
	return len(sizes)
}

// Sent notes that a record is on the way. A number that is not above the last
// one is on the way already and not counted again.
func (c *Run) Sent(seq uint64, size int) {
	if n := len(c.out); n > 0 && seq <= c.out[n-1].seq {
		return
	}
	c.out = append(c.out, onTheWay{seq, size})
	c.bytes += int64(size)
}

// Acked notes that every record up to seq is on disk at the other side, and
// tells whether that made room.
func (c *Run) Acked(seq uint64) bool {
	n := 0
	for n < len(c.out) && c.out[n].seq <= seq {
		c.bytes -= int64(c.out[n].size)
		n++
	}
	if n == len(c.out) {
		c.out = c.out[:0]
	} else if n > 0 {
		c.out = append(c.out[:0], c.out[n:]...)
	}
	return n > 0
}

// Reset forgets what was on the way: with a new session it is sent again.
func (c *Run) Reset() {
	c.out, c.bytes = c.out[:0], 0
}

// Out gives the number of records and bytes on the way.
func (c *Run) Out() (records int, bytes int64) { return len(c.out), c.bytes }
