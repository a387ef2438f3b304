package protocol

import "fmt"

// maxParts bounds how many parts one frame may come in: what Split makes of
// the longest one, and room for a peer that cuts finer.
const maxParts = 16 * MaxMessageBytes / PartBytes

// Split cuts an encoded frame into parts, which alias it. id must not be that
// of another frame which is on the way on the same connection. Frames within
// MaxFrameBytes need no parts.
func Split(id uint64, frame []byte) ([]*Part, error) {
	if len(frame) > MaxMessageBytes {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(frame), MaxMessageBytes)
	}
	of := (len(frame) + PartBytes - 1) / PartBytes
	parts := make([]*Part, 0, of)
	for n := 1; n <= of; n++ {
		size := min(PartBytes, len(frame))
		parts = append(parts, &Part{ID: id, N: n, Of: of, Data: frame[:size:size]})
		frame = frame[size:]
	}
	return parts, nil
}

// maxJoining is how many frames may be on the way in parts at the same time.
const maxJoining = 4

// Joiner puts frames together again. The zero value is ready; each connection
// has its own. It never takes in more than MaxMessageBytes at a
// time, all frames together.
type Joiner struct {
	open map[uint64]*joining
	size int
}

type joining struct {
	next, of int
	data     []byte
}

// Add takes the next part and gives the whole frame with the last one, nil
// before. An error means that a frame is lost: the session is closed, since
// the other side believes that it arrived.
func (j *Joiner) Add(p *Part) ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	w := j.open[p.ID]
	switch {
	case w == nil && p.N != 1:
		return nil, badFrame("part %d of frame %d without those before it", p.N, p.ID)
	case w == nil && len(j.open) >= maxJoining:
		return nil, badFrame("part of frame %d while %d others are on the way", p.ID, maxJoining)
	case w == nil:
		w = &joining{next: 1, of: p.Of}
		if j.open == nil {
			j.open = map[uint64]*joining{}
		}
		j.open[p.ID] = w
	}
	if fault := w.fault(p); fault != nil {
		j.drop(p.ID)
		return nil, fault
	}
	if j.size+len(p.Data) > MaxMessageBytes {
		j.drop(p.ID)
		return nil, badFrame("frame %d in parts is longer than %d bytes", p.ID, MaxMessageBytes)
	}
	w.data = append(w.data, p.Data...)
	w.next++
	j.size += len(p.Data)
	if w.next <= w.of {
		return nil, nil
	}
	j.drop(p.ID)
	return w.data, nil
}

func (w *joining) fault(p *Part) error {
	switch {
	case p.Of != w.of:
		return badFrame("frame %d comes in %d parts, then in %d", p.ID, w.of, p.Of)
	case p.N < w.next:
		return badFrame("part %d of frame %d came twice", p.N, p.ID)
	case p.N > w.next:
		return badFrame("part %d of frame %d came before part %d", p.N, p.ID, w.next)
	}
	return nil
}

func (j *Joiner) drop(id uint64) {
	if w := j.open[id]; w != nil {
		j.size -= len(w.data)
		delete(j.open, id)
	}
}
