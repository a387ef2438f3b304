package ignore

import "strings"

// match tells whether a pattern matches the whole text. A star and a question
// mark stop at slashes, two stars between slashes do not.
func match(pattern, text string) bool {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return pattern == text
	}
	m := matcher{pattern: pattern, text: text}
	return m.from(0, 0)
}

// matcher remembers what it has tried behind a star, so that no pattern takes
// longer than the product of both lengths.
type matcher struct {
	pattern, text string
	dead          map[[2]int]bool
}

func (m *matcher) from(p, t int) bool {
	for p < len(m.pattern) {
		c := m.pattern[p]
		if c == '*' {
			return m.star(p, t)
		}
		if t == len(m.text) {
			return false
		}
		switch c {
		case '?':
			if m.text[t] == '/' {
				return false
			}
			p++
		case '[':
			next, ok := m.class(p+1, m.text[t])
			if !ok || m.text[t] == '/' {
				return false
			}
			p = next
		case '\\':
			if p+1 == len(m.pattern) || m.pattern[p+1] != m.text[t] {
				return false
			}
			p += 2
		default:
			if c != m.text[t] {
				return false
			}
			p++
		}
		t++
	}
	return t == len(m.text)
}

// star matches the stars at p, and all that follows them.
func (m *matcher) star(p, t int) bool {
	end := p
	for end < len(m.pattern) && m.pattern[end] == '*' {
		end++
	}
	rest := m.pattern[end:]
	deep := end-p > 1 && (p == 0 || m.pattern[p-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`))
	if deep && strings.HasPrefix(rest, "/") && m.from(end+1, t) {
		return true
	}
	if m.dead[[2]int{p, t}] {
		return false
	}
	for at := t; at <= len(m.text); at++ {
		if m.from(end, at) {
			return true
		}
		if at < len(m.text) && m.text[at] == '/' && !deep {
			break
		}
	}
	if m.dead == nil {
		m.dead = map[[2]int]bool{}
	}
	m.dead[[2]int{p, t}] = true
	return false
}

// class tells whether c is in the bracket expression whose inside begins at p,
// and where the pattern goes on. One without an end matches nothing.
func (m *matcher) class(p int, c byte) (next int, ok bool) {
	s := m.pattern
	negated := p < len(s) && (s[p] == '!' || s[p] == '^')
	if negated {
		p++
	}
	in := false
	// low is the character that a range may begin with, -1 after a range.
	low := -1
	for first := true; ; first = false {
		if p >= len(s) {
			return 0, false
		}
		switch {
		case s[p] == ']' && !first:
			return p + 1, in != negated
		case s[p] == '-' && low >= 0 && p+1 < len(s) && s[p+1] != ']':
			p++
			if s[p] == '\\' {
				p++
			}
			if p >= len(s) {
				return 0, false
			}
			in = in || low <= int(c) && c <= s[p]
			low = -1
			p++
		case strings.HasPrefix(s[p:], "[:"):
			name, after, found := namedClass(s[p:])
			if !found {
				in, low = in || c == '[', '['
				p++
				continue
			}
			has, known := inNamed(name, c)
			if !known {
				return 0, false
			}
			in, low = in || has, -1
			p += after
		default:
			if s[p] == '\\' {
				if p++; p >= len(s) {
					return 0, false
				}
			}
			in, low = in || c == s[p], int(s[p])
			p++
		}
	}
}

// namedClass reads [:name:] at the beginning of s.
func namedClass(s string) (name string, length int, ok bool) {
	end := strings.IndexByte(s[2:], ']')
	if end < 1 || s[2+end-1] != ':' {
		return "", 0, false
	}
	return s[2 : 2+end-1], 2 + end + 1, true
}

func inNamed(name string, c byte) (in, known bool) {
	lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
	graph := c > ' ' && c < 0x7f
	switch name {
	case "alnum":
		return lower || upper || digit, true
	case "alpha":
		return lower || upper, true
	case "blank":
		return c == ' ' || c == '\t', true
	case "cntrl":
		return c < ' ' || c == 0x7f, true
	case "digit":
		return digit, true
	case "graph":
		return graph, true
	case "lower":
		return lower, true
	case "print":
		return graph || c == ' ', true
	case "punct":
		return graph && !lower && !upper && !digit, true
	case "space":
		return c == ' ' || c >= '\t' && c <= '\r', true
	case "upper":
		return upper, true
	case "xdigit":
		return digit || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F', true
	}
	return false, false
}
