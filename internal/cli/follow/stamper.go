package follow

import (
	"bytes"
	"sort"
	"time"

	"cdui/internal/api"
)

// Stamper shows each line behind the time that its first byte was written at.
type Stamper struct {
	inner Display
	marks []api.LogMark
	now   func() time.Time
	stamp func(time.Time) string
	// size is where the index ended; bytes behind it are new while the run is
	// running.
	size    int64
	running bool

	offset int64
	line   []byte
	start  int64
}

// At says where in the output the next bytes lie.
func (s *Stamper) At(offset int64) { s.offset = offset }

// Write takes bytes in and gives the lines that are whole.
func (s *Stamper) Write(p []byte) []byte {
	var out []byte
	for len(p) > 0 {
		if len(s.line) == 0 {
			s.start = s.offset
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			// What is held back is bounded; a line that is longer is split.
			s.line = append(s.line, p...)
			s.offset += int64(len(p))
			if len(s.line) > maxStampedLine {
				out = append(out, s.finish()...)
			}
			return out
		}
		s.line = append(s.line, p[:end+1]...)
		s.offset += int64(end + 1)
		p = p[end+1:]
		out = append(out, s.finish()...)
	}
	return out
}

const maxStampedLine = 1 << 20

// NewStamper puts times before the lines that inner shows. now is the time of
// what the index does not know yet; stamp writes a time.
func NewStamper(inner Display, index api.LogIndex, running bool, now func() time.Time, stamp func(time.Time) string) *Stamper {
	return &Stamper{inner: inner, marks: index.Marks, size: index.Size, running: running, now: now, stamp: stamp}
}

func (s *Stamper) finish() []byte {
	shown := append(bytes.Clone(s.inner.Write(s.line)), s.inner.Flush()...)
	s.line = s.line[:0]
	out := append([]byte(s.stamp(s.at(s.start))), "  "...)
	out = append(out, bytes.TrimRight(shown, "\n")...)
	return append(out, '\n')
}

// Flush gives what is left at the end.
func (s *Stamper) Flush() []byte {
	if len(s.line) == 0 {
		return nil
	}
	return s.finish()
}

// Line is empty: lines appear whole.
func (*Stamper) Line() string { return "" }

// at is the time of the last mark that is not behind offset. What the index
// did not know yet has just arrived.
func (s *Stamper) at(offset int64) time.Time {
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].Offset > offset })
	if i == 0 || s.running && offset >= s.size {
		return s.now()
	}
	return s.marks[i-1].TS
}
