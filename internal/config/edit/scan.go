package edit

import (
	"bytes"
	"errors"
	"slices"

	"github.com/BurntSushi/toml"
)

// errLayout is returned for text that the scanner can't take apart.
var errLayout = errors.New("its layout is too unusual to be changed by a program")

// statement is a header or a key of the text. It begins at the start of a line
// and ends with one.
type statement struct {
	start, end int
	// path is where it stands in the document: that of the table, for a key
	// with the key's own after it.
	path   []string
	header bool
	// list says that it is the header of an array of tables, or below one.
	list bool
	// from and to hold a key's value.
	from, to int
}

// scan finds the statements of valid TOML, in order.
func scan(text []byte) ([]statement, error) {
	s := scanner{text: text, at: len(text) - len(bytes.TrimPrefix(text, []byte("\ufeff")))}
	var out []statement
	var table []string
	list := false
	for {
		s.skip(" \t\r\n")
		switch {
		case s.at >= len(text):
			return out, nil
		case text[s.at] == '#':
			s.line()
			continue
		}
		st := statement{start: s.lineStart()}
		if text[s.at] == '[' {
			s.at++
			double := s.take('[')
			path, err := s.key(']')
			if err != nil {
				return nil, err
			}
			// A table below an array of tables belongs to its last element.
			table, list = path, double || slices.ContainsFunc(out, func(o statement) bool { return o.list && within(path, o.path) })
			st.header, st.path, st.list = true, path, list
		} else {
			path, err := s.key('=')
			if err != nil {
				return nil, err
			}
			st.path, st.list = append(slices.Clone(table), path...), list
			s.skip(" \t")
			st.from = s.at
			if err := s.value(); err != nil {
				return nil, err
			}
			st.to = s.at
		}
		s.line()
		st.end = s.at
		out = append(out, st)
	}
}

// within tells whether path begins with above.
func within(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}

type scanner struct {
	text []byte
	at   int
}

func (s *scanner) skip(set string) {
	for s.at < len(s.text) && bytes.IndexByte([]byte(set), s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *scanner) take(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

// line goes to the start of the next line.
func (s *scanner) line() {
	if n := bytes.IndexByte(s.text[s.at:], '\n'); n >= 0 {
		s.at += n + 1
	} else {
		s.at = len(s.text)
	}
}

func (s *scanner) lineStart() int { return bytes.LastIndexByte(s.text[:s.at], '\n') + 1 }

// key reads a dotted key and the byte that ends it.
func (s *scanner) key(end byte) ([]string, error) {
	start := s.at
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case '"', '\'':
			if err := s.quoted(); err != nil {
				return nil, err
			}
		case '\n':
			return nil, errLayout
		case end:
			path, err := parts(s.text[start:s.at])
			s.at++
			return path, err
		default:
			s.at++
		}
	}
	return nil, errLayout
}

// parts gives the parts of a dotted key, as the library understands them.
func parts(key []byte) ([]string, error) {
	var doc map[string]any
	md, err := toml.Decode(string(key)+" = 0", &doc)
	if err != nil || len(md.Keys()) == 0 {
		return nil, errLayout
	}
	return md.Keys()[len(md.Keys())-1], nil
}

// quoted goes over a string, of one line or of several.
func (s *scanner) quoted() error {
	quote := s.text[s.at : s.at+1]
	if long := bytes.Repeat(quote, 3); bytes.HasPrefix(s.text[s.at:], long) {
		quote = long
	}
	s.at += len(quote)
	for s.at < len(s.text) {
		switch {
		case s.text[s.at] == '\\' && quote[0] == '"':
			s.at += 2
		case bytes.HasPrefix(s.text[s.at:], quote):
			s.at += len(quote)
			// A long string may end with two more quotes that belong to it.
			for n := 0; len(quote) == 3 && n < 2 && s.take(quote[0]); n++ {
				continue
			}
			return nil
		default:
			s.at++
		}
	}
	return errLayout
}

// value goes to the end of a value, before the blanks and the comment after it.
func (s *scanner) value() error {
	depth := 0
	end := s.at
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"' || c == '\'':
			if err := s.quoted(); err != nil {
				return err
			}
			end = min(s.at, len(s.text))
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '#' && depth > 0:
			s.line()
			continue
		case depth == 0 && (c == '#' || c == '\n'):
			s.at = end
			return nil
		}
		if !bytes.ContainsAny(s.text[s.at:s.at+1], " \t\r\n") {
			end = s.at + 1
		}
		s.at++
	}
	s.at = end
	return nil
}
