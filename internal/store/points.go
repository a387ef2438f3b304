package store

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strconv"
)

// point is one value of one series. Both fields point into the flush that they
// were read from, as JSON; name is a string with its quotes.
type point struct {
	name, value []byte
}

// points yields the points of a flush. It scans instead of decoding because
// every stored flush passes through it, and decoding one costs more than
// storing it. A flush that isn't an array of objects yields nothing, or what
// comes before the fault.
func points(flush json.RawMessage) iter.Seq[point] {
	return func(yield func(point) bool) {
		s := scanner{b: flush}
		for ok := s.open('['); ok && s.more(']'); {
			p := s.point()
			if s.failed || len(p.name) > 0 && p.name[0] == '"' && !yield(p) {
				return
			}
		}
	}
}

// searchedSeries bounds how many series addPoints looks through for one.
const searchedSeries = 64

// addPoints adds the finite values of a flush to list. The last value of a
// series is the one that counts, so that earlier ones give way to it: a list
// stays as short as a run has series, within what a search is worth.
func addPoints(list []point, flush json.RawMessage) []point {
	for p := range points(flush) {
		if !finite(p.value) {
			continue
		}
		i := slices.IndexFunc(list[:min(len(list), searchedSeries)], func(q point) bool {
			return bytes.Equal(p.name, q.name)
		})
		if i < 0 || len(list) > searchedSeries {
			list = append(list, p)
		} else {
			list[i] = p
		}
	}
	return list
}

// mentions tells whether a flush has a point of the given series.
func mentions(flush json.RawMessage, name string) bool {
	for p := range points(flush) {
		if seriesName(p.name) == name {
			return true
		}
	}
	return false
}

// finite tells whether a JSON value is a number that a float64 can hold.
func finite(value []byte) bool {
	rest, exponent := value, false
	if len(rest) > 0 && rest[0] == '-' {
		rest = rest[1:]
	}
	n := leadingDigits(rest)
	if n == 0 || n > 1 && rest[0] == '0' {
		return false
	}
	digits := n
	rest = rest[n:]
	if len(rest) > 0 && rest[0] == '.' {
		n = leadingDigits(rest[1:])
		if n == 0 {
			return false
		}
		rest = rest[1+n:]
	}
	if len(rest) > 0 && (rest[0] == 'e' || rest[0] == 'E') {
		exponent = true
		rest = rest[1:]
		if len(rest) > 0 && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		n = leadingDigits(rest)
		if n == 0 {
			return false
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		return false
	}
	if !exponent && digits < 300 {
		return true
	}
	f, err := strconv.ParseFloat(string(value), 64)
	return err == nil && !math.IsInf(f, 0)
}

func leadingDigits(b []byte) int {
	n := 0
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

// seriesName unquotes a point's name.
func seriesName(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		var s string
		if json.Unmarshal(quoted, &s) == nil {
			return s
		}
	}
	return string(quoted[1 : len(quoted)-1])
}

// scanner steps over JSON values without decoding them.
type scanner struct {
	b      []byte
	i      int
	failed bool
	// comma: an item has been read, so a comma or the end must follow.
	comma []bool
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// point reads one object and keeps the two members that matter.
func (s *scanner) point() point {
	var p point
	for ok := s.open('{'); ok && s.more('}'); {
		key := s.value()
		if !s.open(':') {
			break
		}
		value := s.value()
		switch string(key) {
		case `"name"`:
			p.name = value
		case `"value"`:
			p.value = value
		}
	}
	return p
}

// open steps over one character; an opening bracket begins a list.
func (s *scanner) open(c byte) bool {
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != c {
		s.failed = true
		return false
	}
	s.i++
	if c != ':' {
		s.comma = append(s.comma, false)
	}
	return true
}

// more tells whether the present list has another item, and steps to it.
func (s *scanner) more(end byte) bool {
	s.space()
	if s.failed || s.i >= len(s.b) {
		s.failed = true
		return false
	}
	last := len(s.comma) - 1
	if s.b[s.i] == end {
		s.i++
		s.comma = s.comma[:last]
		return false
	}
	if s.comma[last] {
		if s.b[s.i] != ',' {
			s.failed = true
			return false
		}
		s.i++
	}
	s.comma[last] = true
	return true
}

// value steps over one value and gives its bytes, nil when there is none.
func (s *scanner) value() []byte {
	s.space()
	start := s.i
	if s.i >= len(s.b) {
		s.failed = true
		return nil
	}
	switch s.b[s.i] {
	case '"':
		s.str()
	case '{', '[':
		s.nested()
	default:
		for s.i < len(s.b) && !delimiter(s.b[s.i]) {
			s.i++
		}
	}
	if s.failed || s.i == start {
		s.failed = true
		return nil
	}
	return s.b[start:s.i]
}

func delimiter(c byte) bool {
	switch c {
	case ',', ':', ']', '}', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

func (s *scanner) str() {
	for s.i++; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			return
		}
	}
	s.i = len(s.b)
	s.failed = true
}

func (s *scanner) nested() {
	for depth := 0; s.i < len(s.b); {
		switch s.b[s.i] {
		case '"':
			s.str()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return
		}
	}
	s.failed = true
}
