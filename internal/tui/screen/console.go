package screen

import (
	"bytes"
	"slices"
	"strings"

	"cdui/internal/cli/text"
	"cdui/internal/client"
	"cdui/internal/console"
	"cdui/internal/tui/lang"
	"cdui/internal/tui/theme"
	"cdui/internal/tui/ui"
	"cdui/internal/tui/widget"
)

const (
	// consoleLines and consoleBytes bound what is kept of an output.
	consoleLines = 5000
	consoleBytes = 4 << 20
	// consoleTail is how much of an output is read when it is opened.
	consoleTail = 256 << 10
	// consoleLag is how far behind a reader may be before it goes on at the end.
	consoleLag = 2 << 20
	// consoleWidth cuts a line, in bytes.
	consoleWidth = 4 << 10
)

// output is the end of a run's console output.
type output struct {
	display *console.Display
	lines   []string
	bytes   int
	// dropped counts the lines that were let go, missed the bytes that were
	// never read: those before the end of a long output, and those that a reader
	// who was too far behind left out.
	dropped int
	missed  int64
	offset  int64
	size    int64
	ended   bool

	filter filter
	wrap   bool
	// follow keeps the last line in sight; top is the first line otherwise.
	follow bool
	top    int
	page   int
}

func newOutput(colour bool) *output {
	return &output{display: console.NewDisplay(console.DisplayOptions{Colour: colour, Live: true, MaxLine: consoleWidth}), follow: true, offset: -1}
}

// take adds a piece of output.
func (o *output) take(c client.LogChunk, l *lang.Lang) {
	piece := c.Bytes
	if gap := c.Offset - max(o.offset, 0); gap > 0 {
		// The rest of a line whose begin is missing goes too.
		if i := bytes.IndexByte(piece, '\n'); i >= 0 {
			piece, gap = piece[i+1:], gap+int64(i)+1
		}
		o.flush()
		o.missed += gap
		o.add("… " + l.F("%s bytes skipped", text.Count(int(gap))))
	}
	o.offset, o.size = c.Next, c.Size
	if done := o.display.Write(piece); len(done) > 0 {
		for line := range strings.SplitSeq(strings.TrimSuffix(string(done), "\n"), "\n") {
			o.add(line)
		}
	}
	if c.Ended && c.Next >= c.Size && !o.ended {
		o.ended = true
		o.flush()
	}
}

// flush takes the line that isn't whole as it is.
func (o *output) flush() {
	if rest := strings.TrimRight(string(o.display.Flush()), "\n"); rest != "" {
		for line := range strings.SplitSeq(rest, "\n") {
			o.add(line)
		}
	}
}

func (o *output) add(line string) {
	line = widget.Line(line)
	o.lines = append(o.lines, line)
	o.bytes += len(line)
	if len(o.lines) <= consoleLines+consoleLines/4 && o.bytes <= consoleBytes {
		return
	}
	// A quarter goes at once, so that each line is moved a few times at most.
	n := max(1, len(o.lines)/5)
	for _, l := range o.lines[:n] {
		o.bytes -= len(l)
	}
	o.lines = append(make([]string, 0, consoleLines*5/4+1), o.lines[n:]...)
	o.dropped += n
	o.top = max(0, o.top-n)
}

// shown are the lines that the filter lets through, with the one that isn't
// whole.
func (o *output) shown() []string {
	lines := o.lines
	if !o.ended {
		if line := o.display.Line(); line != "" {
			for l := range strings.SplitSeq(line, "\n") {
				lines = append(slices.Clip(lines), widget.Line(l))
			}
		}
	}
	if o.filter.re == nil {
		return lines
	}
	var out []string
	for _, l := range lines {
		if o.filter.lets(widget.Bare(l)) {
			out = append(out, l)
		}
	}
	return out
}

// scroll moves by lines; following ends when a person goes up, and begins again
// at the end.
func (o *output) scroll(by int) {
	n := len(o.shown())
	if o.follow {
		o.top = max(0, n-o.page)
	}
	o.top = max(0, min(o.top+by, n-o.page))
	o.follow = by > 0 && o.top >= n-o.page
}

// view draws the part that is in sight.
func (o *output) view(w *ui.World, width, height int) []string {
	o.page = max(1, height)
	lines := o.shown()
	if len(lines) == 0 {
		words := w.Lang.T("no output yet")
		if o.ended {
			words = w.Lang.T("no output")
		}
		if o.filter.re != nil {
			words = w.Lang.F("Nothing matches /%s", o.filter.pattern)
		}
		return widget.Block([]string{w.Theme.Paint(theme.Dim, words)}, width, height, w.Theme.Style)
	}
	if o.follow {
		o.top = max(0, len(lines)-height)
	}
	o.top = max(0, min(o.top, len(lines)-1))
	var out []string
	for i := o.top; i < len(lines) && len(out) < height; i++ {
		if o.wrap {
			out = append(out, widget.Chop(lines[i], width)...)
		} else {
			out = append(out, lines[i])
		}
	}
	if o.wrap && o.follow {
		// From the end up, since each line may be several.
		out = nil
		for i := len(lines) - 1; i >= 0 && len(out) < height; i-- {
			out = append(widget.Chop(lines[i], width), out...)
		}
		out = out[max(0, len(out)-height):]
	}
	return widget.Block(out[:min(len(out), height)], width, height, w.Theme.Style)
}
