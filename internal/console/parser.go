package console

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// state is where the parser is in a control sequence.
type state int

const (
	ground   state = iota
	escape         // after ESC
	escInter       // after ESC and an intermediate byte
	csi            // after ESC [
	text           // in a string that ends with ST: OSC, DCS, APC, PM, SOS
	textEsc        // in such a string after ESC
)

const (
	// maxParams bounds what is kept of a sequence.
	maxParams = 64
	// maxControl bounds a control string: one that never ends must not swallow
	// the output.
	maxControl = 4 << 10
)

// parser splits a stream of bytes into text and the few controls that matter,
// and drops all others. Sequences and letters may be cut anywhere.
type parser struct {
	state  state
	params []byte
	length int
	// rest is the begin of a letter whose end has not come yet.
	rest []byte
}

// feed takes the next bytes for d.
func (p *parser) feed(b []byte, d *Display) {
	if len(p.rest) > 0 {
		b = append(p.rest, b...)
		p.rest = nil
	}
	for len(b) > 0 {
		if p.state == ground {
			if n := plain(b); n > 0 {
				d.printASCII(b[:n])
				b = b[n:]
				continue
			}
		}
		if b[0] < utf8.RuneSelf {
			p.rune(rune(b[0]), d)
			b = b[1:]
			continue
		}
		if !utf8.FullRune(b) {
			p.rest = bytes.Clone(b)
			return
		}
		c, n := utf8.DecodeRune(b)
		p.rune(c, d)
		b = b[n:]
	}
}

// flush ends a letter that is cut.
func (p *parser) flush(d *Display) {
	for range p.rest {
		p.rune(utf8.RuneError, d)
	}
	*p = parser{}
}

// plain counts the printable ASCII bytes at the beginning of b.
func plain(b []byte) int {
	for i, c := range b {
		if c < ' ' && c != '\t' || c > '~' {
			return i
		}
	}
	return len(b)
}

func (p *parser) rune(c rune, d *Display) {
	// A line break ends every sequence: what follows it is output again.
	if c == '\n' {
		p.state = ground
		d.newline()
		return
	}
	switch p.state {
	case ground:
		p.ground(c, d)
	case escape:
		p.escape(c, d)
	case escInter:
		if c < ' ' || c > '/' {
			p.again(c >= ' ' && c <= '~', c, d)
		}
	case csi:
		p.csi(c, d)
	case text, textEsc:
		p.text(c, d)
	}
}

// again goes back to ground, where c counts unless it ended the sequence.
func (p *parser) again(ended bool, c rune, d *Display) {
	p.state = ground
	if !ended {
		p.ground(c, d)
	}
}

func (p *parser) ground(c rune, d *Display) {
	switch {
	case c == '\r':
		d.carriageReturn()
	case c == 0x1b:
		p.state = escape
	case c == 0x9b:
		p.enter(csi)
	case c == 0x90 || c == 0x98 || c == 0x9d || c == 0x9e || c == 0x9f:
		p.enter(text)
	case c < ' ' && c != '\t' || c >= 0x7f && c < 0xa0:
	default:
		d.print(c)
	}
}

func (p *parser) enter(s state) {
	p.state, p.params, p.length = s, p.params[:0], 0
}

func (p *parser) escape(c rune, d *Display) {
	switch {
	case c == '[':
		p.enter(csi)
	case strings.ContainsRune("]P_^X", c):
		p.enter(text)
	case c == 0x1b:
	case c >= ' ' && c <= '/':
		p.state = escInter
	default:
		p.again(c >= '0' && c <= '~', c, d)
	}
}

func (p *parser) csi(c rune, d *Display) {
	switch {
	case c >= ' ' && c <= '?':
		if len(p.params) <= maxParams {
			p.params = append(p.params, byte(c))
		}
	case c >= '@' && c <= '~':
		p.state = ground
		if len(p.params) <= maxParams {
			p.control(string(p.params), c, d)
		}
	default:
		p.again(false, c, d)
	}
}

// control does what a whole sequence asks for, as far as it concerns lines and
// colours.
func (p *parser) control(params string, final rune, d *Display) {
	switch final {
	case 'm':
		if strings.Trim(params, "0123456789;:") == "" {
			d.colour("\x1b["+params+"m", strings.Trim(params, "0;") == "")
		}
	case 'A', 'F':
		if n, ok := count(params); ok {
			d.cursorUp(n)
		}
	case 'B', 'E':
		if n, ok := count(params); ok {
			d.cursorDown(n)
		}
	case 'K':
		if params == "" || params == "0" || params == "2" {
			d.erase(params == "2")
		}
	case 'G':
		if params == "" || params == "1" {
			d.carriageReturn()
		}
	}
}

// count reads how far a cursor moves.
func count(params string) (int, bool) {
	n := 0
	for _, c := range params {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int(c-'0'), 1000)
	}
	return max(n, 1), true
}

func (p *parser) text(c rune, d *Display) {
	if p.length++; p.length > maxControl {
		p.again(false, c, d)
		return
	}
	switch {
	case c == 0x07 || c == 0x9c || c == 0x18 || c == 0x1a:
		p.state = ground
	case p.state == textEsc:
		if c == '\\' {
			p.state = ground
			return
		}
		// ESC ends the string whatever follows.
		p.state = escape
		p.escape(c, d)
	case c == 0x1b:
		p.state = textEsc
	}
}
