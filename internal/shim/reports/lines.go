package reports

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// readLines gives each line of r, without its newline, to take, which must not
// keep it. A line longer than max is skipped whole and told to skipped; a last
// line without a newline counts as one. It returns when r ends, or when take
// returns false.
func readLines(r io.Reader, max int, take func([]byte) bool, skipped func()) {
	br := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	over := false
	for {
		part, err := br.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case over:
		case len(long)+len(part) > max+1:
			over, long = true, nil
		case full || len(long) > 0:
			long = append(long, part...)
		}
		if full {
			continue
		}
		line := part
		if len(long) > 0 {
			line = long
		}
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if over {
			skipped()
		} else if len(line) > 0 && !take(line) {
			return
		}
		over = false
		if cap(long) > 1<<20 {
			long = nil
		}
		long = long[:0]
		if err != nil {
			return
		}
	}
}
