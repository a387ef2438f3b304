package follow

import (
	"io"
	"strings"

	"cdui/internal/cli/text"
)

// screen prints lines above a block that is drawn anew. Without a terminal
// the block isn't drawn at all.
type screen struct {
	out, err io.Writer
	live     bool
	// together: console and block share a terminal.
	together bool
	style    func() text.Style
	drawn    int
	// shown is what is drawn, so that the same is not drawn again.
	shown string
}

// clear takes the block away.
func (s *screen) clear() {
	if s.drawn == 0 {
		return
	}
	seq := "\r"
	if s.drawn > 1 {
		seq += strings.Repeat("\x1b[A", s.drawn-1)
	}
	_, _ = io.WriteString(s.err, seq+"\x1b[J") // a terminal that is gone ends us by itself
	s.drawn = 0
}

// draw shows lines as the block.
func (s *screen) draw(lines ...string) {
	if !s.live {
		return
	}
	width := s.style().Width
	var keep []string
	for _, block := range lines {
		for l := range strings.SplitSeq(block, "\n") {
			if l != "" {
				keep = append(keep, cropPainted(s.style(), l, width-1))
			}
		}
	}
	block := strings.Join(keep, "\n")
	if s.drawn == len(keep) && s.shown == block {
		return
	}
	s.clear()
	_, _ = io.WriteString(s.err, block)
	s.drawn, s.shown = len(keep), block
}

// console prints output of the run, whole lines of it.
func (s *screen) console(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if s.together {
		s.clear()
	}
	_, err := s.out.Write(p)
	return err
}

// finish prints the last piece of console output. A terminal goes on in a new
// line after it.
func (s *screen) finish(p []byte, terminal bool) error {
	if terminal && len(p) > 0 && p[len(p)-1] != '\n' {
		p = append(p, '\n')
	}
	return s.console(p)
}

// say prints a line for people.
func (s *screen) say(line string) {
	s.clear()
	_, _ = io.WriteString(s.err, line+"\n")
}

// cropPainted crops a line that may hold colours: they take no cells.
func cropPainted(st text.Style, line string, cells int) string {
	if cells <= 0 || !strings.Contains(line, "\x1b[") {
		if cells <= 0 {
			return line
		}
		return st.Crop(line, cells)
	}
	var b strings.Builder
	left := cells
	for line != "" {
		at := strings.Index(line, "\x1b[")
		if at < 0 {
			at = len(line)
		}
		if plain := line[:at]; text.Cells(plain) > left {
			b.WriteString(st.Crop(plain, left))
			b.WriteString("\x1b[0m")
			return b.String()
		}
		b.WriteString(line[:at])
		left -= text.Cells(line[:at])
		line = line[at:]
		if end := strings.IndexByte(line, 'm'); end >= 0 {
			b.WriteString(line[:end+1])
			line = line[end+1:]
		} else {
			line = ""
		}
	}
	return b.String()
}
