package console

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// DisplayOptions says how output is shown.
type DisplayOptions struct {
	// Colour keeps colours; everything else that controls a terminal is
	// removed in any case.
	Colour bool
	// Live keeps the unfinished lines at hand for Line.
	Live bool
	// MaxLine cuts longer lines, in bytes; 0 is 1 MiB.
	MaxLine int
}

const (
	defaultMaxLine = 1 << 20
	// maxRows is how far up a cursor can go: as many nested bars are followed.
	maxRows = 32
	// calmAfter is how many lines without the cursor going up end the wait for
	// nested bars.
	calmAfter = 64
	// maxStyle bounds the colour sequences that are carried from line to line.
	maxStyle = 64
)

// Display turns raw output into text that is safe to print: whole lines of
// valid UTF-8 without control sequences other than colour. Frames of a
// progress bar, which a carriage return or a cursor that goes up separates,
// become the last one of each line. It needs little memory whatever comes in.
//
// Bytes may be given in any portions. The zero value is not usable.
type Display struct {
	opt    DisplayOptions
	parser parser
	out    []byte
	// rows are the lines that may still change: one, or several once a cursor
	// went up. cur is the one that text goes to.
	rows []row
	cur  int
	// up is how far the cursor went up at most; calm counts lines since.
	up, calm int
	// style is the colour that is on.
	style string
}

// row is one line in the making.
type row struct {
	text []byte
	// cut counts the bytes beyond the longest line.
	cut int
	// fresh says that the cursor went back to the begin: what comes next
	// replaces the text.
	fresh bool
	// frame says that text replaced other text: the row is a progress bar.
	frame bool
	// styled says that a colour is on at the end of text.
	styled bool
}

// NewDisplay makes a Display at the beginning of an output.
func NewDisplay(o DisplayOptions) *Display {
	if o.MaxLine <= 0 {
		o.MaxLine = defaultMaxLine
	}
	return &Display{opt: o, rows: make([]row, 1)}
}

// Write takes the next bytes and gives the lines that are done. The result is
// valid until the next call.
func (d *Display) Write(p []byte) []byte {
	d.out = d.out[:0]
	d.parser.feed(p, d)
	return d.out
}

// Flush gives what is left at the end of the output, without a line break at
// its end.
func (d *Display) Flush() []byte {
	d.out = d.out[:0]
	d.parser.flush(d)
	for i := range d.rows {
		if i > 0 {
			d.out = append(d.out, '\n')
		}
		d.out = d.appendRow(d.out, &d.rows[i])
	}
	d.rows, d.cur, d.up = make([]row, 1), 0, 0
	return d.out
}

// Line gives the unfinished lines as they stand, for a terminal that shows
// them while they change.
func (d *Display) Line() string {
	if !d.opt.Live {
		return ""
	}
	var b []byte
	for i := range d.rows {
		if i > 0 {
			b = append(b, '\n')
		}
		b = d.appendRow(b, &d.rows[i])
	}
	return strings.TrimRight(string(b), "\n")
}

func (d *Display) appendRow(dst []byte, r *row) []byte {
	dst = append(dst, r.text...)
	if r.styled {
		dst = append(dst, "\x1b[0m"...)
	}
	if r.cut > 0 {
		dst = fmt.Appendf(dst, " … [%d bytes cut]", r.cut)
	}
	return dst
}

// begin makes the current row ready for text.
func (d *Display) begin() *row {
	r := &d.rows[d.cur]
	if r.fresh {
		*r = row{text: r.text[:0], frame: true}
	}
	if len(r.text) == 0 && d.style != "" {
		r.text = append(r.text, d.style...)
		r.styled = true
	}
	return r
}

func (d *Display) print(c rune) {
	r := d.begin()
	if n := utf8.RuneLen(c); len(r.text)+n > d.opt.MaxLine {
		r.cut += n
		return
	}
	r.text = utf8.AppendRune(r.text, c)
}

// printASCII is print for text without letters that need more than a byte.
func (d *Display) printASCII(p []byte) {
	r := d.begin()
	n := min(len(p), max(0, d.opt.MaxLine-len(r.text)))
	r.text = append(r.text, p[:n]...)
	r.cut += len(p) - n
}

func (d *Display) carriageReturn() { d.rows[d.cur].fresh = true }

func (d *Display) newline() {
	// Text before a line break stays, also when the cursor was at its begin.
	d.rows[d.cur].fresh = false
	if d.up == 0 {
		d.newlineFlat()
		return
	}
	if d.calm++; d.calm > calmAfter {
		for i := range d.rows {
			d.emit(i)
		}
		d.rows, d.cur, d.up = make([]row, 1), 0, 0
		return
	}
	if d.cur++; d.cur < len(d.rows) {
		return
	}
	d.rows = append(d.rows, row{})
	for len(d.rows) > d.up+1 {
		d.emit(0)
		d.rows = append(d.rows[:0], d.rows[1:]...)
		d.cur--
	}
}

// newlineFlat is a line break while no cursor has gone up. A progress bar is
// held back for one line, since a nested one may follow and go up to it.
func (d *Display) newlineFlat() {
	for i := range d.cur {
		d.emit(i)
	}
	last := d.rows[d.cur]
	if last.frame {
		d.rows, d.cur = []row{last, {}}, 1
		return
	}
	d.emit(d.cur)
	d.rows, d.cur = append(d.rows[:0], row{text: last.text[:0]}), 0
}

func (d *Display) emit(i int) {
	d.out = append(d.appendRow(d.out, &d.rows[i]), '\n')
}

// cursorUp goes n lines up. Lines that have been given already can't be
// changed any more: empty ones stand for them.
func (d *Display) cursorUp(n int) {
	d.rows[d.cur].fresh = false
	d.calm = 0
	d.up = min(max(d.up, n), maxRows)
	for n = min(n, maxRows); n > 0; n-- {
		if d.cur > 0 {
			d.cur--
			continue
		}
		if len(d.rows) > maxRows {
			break
		}
		d.rows = append([]row{{}}, d.rows...)
	}
	d.rows[d.cur].fresh = true
}

func (d *Display) cursorDown(n int) {
	d.rows[d.cur].fresh = false
	d.cur = min(d.cur+n, len(d.rows)-1)
	d.rows[d.cur].fresh = true
}

// erase removes the current line's text when the cursor is at its begin, or
// when the whole line is meant.
func (d *Display) erase(whole bool) {
	r := &d.rows[d.cur]
	if whole || r.fresh {
		*r = row{text: r.text[:0], fresh: true, frame: r.frame}
	}
}

// colour takes a colour sequence.
func (d *Display) colour(seq string, reset bool) {
	if !d.opt.Colour {
		return
	}
	switch {
	case reset:
		d.style = ""
	case strings.HasSuffix(d.style, seq):
	case len(d.style)+len(seq) <= maxStyle:
		d.style += seq
	default:
		d.style = seq
	}
	r := &d.rows[d.cur]
	if r.fresh || len(r.text) == 0 {
		return // begin puts it before the text
	}
	if len(r.text)+len(seq) <= d.opt.MaxLine+maxStyle {
		r.text = append(r.text, seq...)
		r.styled = !reset
	}
}
