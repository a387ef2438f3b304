package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"cdui/internal/jsonscan"
)

// ErrNotJSON is returned for bytes that are not one JSON value.
var ErrNotJSON = errors.New("not JSON")

// Canonical rewrites a JSON value to the bytes that Python's
// json.dumps(v, separators=(",", ":")) gives: compact, ASCII only, members in
// their order, numbers as they stand. Sizes of payloads are counted on these.
// What has nothing to rewrite is given back as it is, not copied.
func Canonical(raw []byte) (json.RawMessage, error) {
	valid, plain := jsonscan.Check(raw)
	switch {
	case !valid:
		return nil, ErrNotJSON
	case plain:
		return raw, nil
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := stringEnd(raw, i)
			out = appendString(out, raw[i+1:end-1])
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out, nil
}

// stringEnd gives the index after the closing quote of the string at raw[i].
func stringEnd(raw []byte, i int) int {
	for j := i + 1; j < len(raw); j++ {
		switch raw[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return len(raw)
}

// appendString re-escapes the body of a valid JSON string. It works on UTF-16
// code units, so that lone surrogates pass through unharmed.
func appendString(out, body []byte) []byte {
	out = append(out, '"')
	for i := 0; i < len(body); {
		c := body[i]
		if c != '\\' {
			if c < utf8.RuneSelf {
				out = appendUnit(out, uint16(c))
				i++
				continue
			}
			r, size := utf8.DecodeRune(body[i:])
			i += size
			if r > 0xFFFF {
				hi, lo := utf16.EncodeRune(r)
				out = appendUnit(appendUnit(out, uint16(hi)), uint16(lo))
			} else {
				out = appendUnit(out, uint16(r))
			}
			continue
		}
		switch e := body[i+1]; e {
		case 'u':
			u, _ := strconv.ParseUint(string(body[i+2:i+6]), 16, 16) // json.Valid has checked the digits
			out = appendUnit(out, uint16(u))
			i += 6
		default:
			out = appendUnit(out, map[byte]uint16{
				'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
			}[e])
			i += 2
		}
	}
	return append(out, '"')
}

func appendUnit(out []byte, u uint16) []byte {
	switch {
	case u == '"' || u == '\\':
		return append(out, '\\', byte(u))
	case u >= ' ' && u <= '~':
		return append(out, byte(u))
	case u == '\n':
		return append(out, '\\', 'n')
	case u == '\r':
		return append(out, '\\', 'r')
	case u == '\t':
		return append(out, '\\', 't')
	case u == '\b':
		return append(out, '\\', 'b')
	case u == '\f':
		return append(out, '\\', 'f')
	}
	return fmt.Appendf(out, `\u%04x`, u)
}

type member struct {
	name  string
	value json.RawMessage
}

// objectMembers splits a JSON object into its members, in order.
func objectMembers(raw []byte) ([]member, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, false
	}
	var out []member
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, false
		}
		name, ok := tok.(string)
		var value json.RawMessage
		if !ok || dec.Decode(&value) != nil {
			return nil, false
		}
		out = append(out, member{name, value})
	}
	return out, true
}
