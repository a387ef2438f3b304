package edit

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// Set gives a key, such as contexts, lab, url, a text for its value. A key that
// is there keeps its place and the comment beside it; a new one comes after
// the others of its table, and a new table to the end.
func Set(text []byte, value string, path ...string) ([]byte, error) {
	if !utf8.ValidString(value) {
		return nil, fmt.Errorf("%q is not UTF-8, and a config file holds nothing else", value)
	}
	want, err := decode(text)
	if err != nil {
		return nil, err
	}
	if !put(want, value, path) {
		return nil, layout(path)
	}
	list, err := scan(text)
	if err != nil {
		return nil, fmt.Errorf("change %s: %w", strings.Join(path, "."), err)
	}
	if slices.ContainsFunc(list, func(st statement) bool {
		return !st.header && len(st.path) < len(path) && within(path, st.path)
	}) {
		return nil, layout(path) // the table is a value in braces, which nothing outside may add to
	}
	return checked(place(text, list, value, path), want, path)
}

// Unset takes a key away, or a table with all that is in it. Comments that
// stand before it stay.
func Unset(text []byte, path ...string) ([]byte, error) {
	want, err := decode(text)
	if err != nil {
		return nil, err
	}
	drop(want, path)
	list, err := scan(text)
	if err != nil {
		return nil, fmt.Errorf("change %s: %w", strings.Join(path, "."), err)
	}
	out := bytes.Clone(text)
	// From the end, so that what is before keeps its place.
	for i := len(list) - 1; i >= 0; i-- {
		if !within(list[i].path, path) {
			continue
		}
		last := i
		for i > 0 && within(list[i-1].path, path) && !list[i].header {
			i--
		}
		start, end := list[i].start, list[last].end
		if nl := newline(text); list[i].header && bytes.HasSuffix(out[:start], []byte(nl+nl)) && (end == len(out) || bytes.HasPrefix(out[end:], []byte(nl))) {
			start -= len(nl) // one blank line parts tables, not two
		}
		out = slices.Delete(out, start, end)
	}
	return checked(out, want, path)
}

// place writes the value where the key is, or where it belongs.
func place(text []byte, list []statement, value string, path []string) []byte {
	table, key := path[:len(path)-1], path[len(path)-1]
	line := quotedKey(key) + " = " + quotedText(value) + newline(text)
	after := -1
	for i, st := range list {
		switch {
		case st.list:
		case !st.header && slices.Equal(st.path, path):
			return slices.Replace(bytes.Clone(text), st.from, st.to, []byte(quotedText(value))...)
		case st.header && slices.Equal(st.path, table):
			after = i
		case !st.header && after >= 0 && after == i-1:
			after = i // the last key under that header
		case !st.header && len(table) == 0 && i == after+1:
			after = i // the last key before any header
		}
	}
	switch {
	case after >= 0:
		return insert(text, list[after].end, line)
	case len(table) == 0 && len(list) > 0:
		return insert(text, above(text, list[0].start), line+newline(text))
	case len(table) == 0:
		return insert(text, len(text), line)
	}
	names := make([]string, len(table))
	for i, name := range table {
		names[i] = quotedKey(name)
	}
	header := "[" + strings.Join(names, ".") + "]" + newline(text)
	if len(bytes.TrimSpace(text)) > 0 {
		header = newline(text) + header
	}
	return insert(text, len(text), header+line)
}

// insert puts a line in at the start of a line; one before it is ended.
func insert(text []byte, at int, line string) []byte {
	if at > 0 && text[at-1] != '\n' {
		line = newline(text) + line
	}
	return slices.Insert(bytes.Clone(text), at, []byte(line)...)
}

// above goes up over the comments that stand right above a statement.
func above(text []byte, at int) int {
	for at > 0 {
		start := bytes.LastIndexByte(text[:at-1], '\n') + 1
		if !bytes.HasPrefix(bytes.TrimLeft(text[start:at], " \t"), []byte("#")) {
			break
		}
		at = start
	}
	return at
}

func newline(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func quotedKey(key string) string {
	bare := key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	if bare {
		return key
	}
	return quotedText(key)
}

func quotedText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func decode(text []byte) (map[string]any, error) {
	doc := map[string]any{}
	if _, err := toml.Decode(string(text), &doc); err != nil {
		return nil, err
	}
	return doc, nil
}

// checked gives text when it says what is wanted.
func checked(text []byte, want map[string]any, path []string) ([]byte, error) {
	got, err := decode(text)
	if err != nil || said(got) != said(want) {
		return nil, layout(path)
	}
	return text, nil
}

func layout(path []string) error {
	return fmt.Errorf("change %s by hand: %w", strings.Join(path, "."), errLayout)
}

// said is what a document says, for comparing: empty tables say nothing, and
// nan equals itself.
func said(doc map[string]any) string { return fmt.Sprintf("%#v", full(doc)) }

func full(doc map[string]any) map[string]any {
	out := maps.Clone(doc)
	for k, v := range out {
		if m, ok := v.(map[string]any); ok {
			if out[k] = full(m); len(full(m)) == 0 {
				delete(out, k)
			}
		}
	}
	return out
}

// put sets a value, false where something else than a table is in the way.
func put(doc map[string]any, value string, path []string) bool {
	for _, name := range path[:len(path)-1] {
		below, ok := doc[name].(map[string]any)
		if !ok {
			if doc[name] != nil {
				return false
			}
			below = map[string]any{}
			doc[name] = below
		}
		doc = below
	}
	if _, table := doc[path[len(path)-1]].(map[string]any); table {
		return false
	}
	doc[path[len(path)-1]] = value
	return true
}

func drop(doc map[string]any, path []string) {
	for _, name := range path[:len(path)-1] {
		below, ok := doc[name].(map[string]any)
		if !ok {
			return
		}
		doc = below
	}
	delete(doc, path[len(path)-1])
}
