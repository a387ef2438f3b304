// Package jsonscan steps over JSON text once, checks it on the way and gives
// the bytes of the values in it. It decodes nothing and allocates nothing: who
// needs one member of a document, or its members as they are, reads the
// document once instead of having encoding/json read it twice and copy it.
//
// It takes exactly what encoding/json.Valid takes. It must not know what any
// document means.
package jsonscan

// maxDepth is how deep encoding/json lets values nest.
const maxDepth = 10_000

// Scanner stands somewhere in a JSON text. After the first fault it gives
// nothing any more, and Failed says so.
type Scanner struct {
	b []byte
	i int
	// fresh: an object or a list was entered and has had no item yet.
	fresh  bool
	failed bool
	odd    bool
	depth  int
}

// New stands before a text.
func New(text []byte) Scanner { return Scanner{b: text} }

// Valid tells whether a text is one JSON value.
func Valid(text []byte) bool {
	valid, _ := Check(text)
	return valid
}

// Check tells whether a text is one JSON value, and whether it is plain:
// compact, ASCII, and without an escape in its strings.
func Check(text []byte) (valid, plain bool) {
	s := New(text)
	s.Value()
	valid = s.End()
	return valid, valid && !s.odd
}

// Failed tells whether something was not as it must be.
func (s *Scanner) Failed() bool { return s.failed }

// End tells whether the text is over, and all of it was good.
func (s *Scanner) End() bool {
	s.space()
	if s.i < len(s.b) {
		s.failed = true
	}
	return !s.failed
}

// Enter steps into an object or a list, given its opening bracket; false when
// there is none.
func (s *Scanner) Enter(open byte) bool {
	if s.peek() != open {
		s.failed = true
		return false
	}
	s.i++
	s.depth++
	if s.depth > maxDepth {
		s.failed = true
	}
	s.fresh = true
	return !s.failed
}

// More tells whether another item follows, and steps to it; with none it steps
// out, over the closing bracket.
func (s *Scanner) More(closing byte) bool {
	c := s.peek()
	fresh := s.fresh
	s.fresh = false
	switch {
	case s.failed:
		return false
	case c == closing:
		s.i++
		s.depth--
		return false
	case fresh:
		return true
	case c != ',':
		s.failed = true
		return false
	}
	s.i++
	return true
}

// Name steps over a member's name and its colon, and gives what stands between
// the quotes.
func (s *Scanner) Name() []byte {
	if s.peek() != '"' {
		s.failed = true
		return nil
	}
	start := s.i
	s.str()
	if s.failed {
		return nil
	}
	name := s.b[start+1 : s.i-1]
	if s.peek() != ':' {
		s.failed = true
		return nil
	}
	s.i++
	return name
}

// Kind is the first character of the value that follows: { [ " t f n, a digit
// or a minus; 0 when there is none.
func (s *Scanner) Kind() byte { return s.peek() }

// Value steps over one value and gives its bytes, which alias the text; nil
// when there is none.
func (s *Scanner) Value() []byte {
	s.space()
	start := s.i
	s.value()
	if s.failed {
		return nil
	}
	return s.b[start:s.i:s.i]
}

// Pos is how many bytes of the text lie behind; after Kind it is where the next
// value begins.
func (s *Scanner) Pos() int { return s.i }

// Since gives the bytes from an earlier Pos on.
func (s *Scanner) Since(pos int) []byte { return s.b[pos:s.i:s.i] }

// peek gives the next character that is no white space, 0 at the end.
func (s *Scanner) peek() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	s.space()
	if s.i >= len(s.b) {
		return 0
	}
	return s.b[s.i]
}

func (s *Scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.odd = true
			s.i++
		default:
			return
		}
	}
}

func (s *Scanner) value() {
	switch c := s.peek(); c {
	case '"':
		s.str()
	case '{':
		s.Enter('{')
		for s.More('}') {
			s.Name()
			s.value()
		}
	case '[':
		s.Enter('[')
		for s.More(']') {
			s.value()
		}
	case 't':
		s.word("true")
	case 'f':
		s.word("false")
	case 'n':
		s.word("null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			s.number()
		} else {
			s.failed = true
		}
	}
}

func (s *Scanner) word(w string) {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		s.failed = true
		return
	}
	s.i += len(w)
}

func (s *Scanner) number() {
	b, i := s.b, s.i
	if b[i] == '-' {
		i++
	}
	n := digits(b, i)
	if n == i || n > i+1 && b[i] == '0' {
		s.failed = true
		return
	}
	if i = n; i < len(b) && b[i] == '.' {
		if n = digits(b, i+1); n == i+1 {
			s.failed = true
			return
		}
		i = n
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if n = digits(b, i); n == i {
			s.failed = true
			return
		}
		i = n
	}
	s.i = i
}

// digits gives the index after the digits at i.
func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// What a byte is inside a string.
const (
	ordinary = iota
	special  // beyond printable ASCII
	escape
	quote
	control
)

var class = func() (t [256]byte) {
	for c := range t {
		switch {
		case c == '"':
			t[c] = quote
		case c == '\\':
			t[c] = escape
		case c < ' ':
			t[c] = control
		case c > '~':
			t[c] = special
		}
	}
	return t
}()

func (s *Scanner) str() {
	b, i := s.b, s.i+1
	for {
		for i < len(b) && class[b[i]] == ordinary {
			i++
		}
		if i == len(b) {
			s.failed = true
			return
		}
		switch class[b[i]] {
		case quote:
			s.i = i + 1
			return
		case special:
			s.odd = true
		case escape:
			s.odd = true
			n := escaped(b[i+1:])
			if n == 0 {
				s.failed = true
				return
			}
			i += n
		case control:
			s.failed = true
			return
		}
		i++
	}
}

// escaped is the length of what follows a backslash, 0 when nothing may.
func escaped(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(b) < 5 {
			return 0
		}
		for _, c := range b[1:5] {
			if c-'0' > 9 && c|0x20-'a' > 5 {
				return 0
			}
		}
		return 5
	}
	return 0
}
