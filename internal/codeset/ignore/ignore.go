// Package ignore reads files such as .gitignore and tells what they leave out,
// with the meaning that git gives them: byte by byte, the last rule that
// matches wins. It is pure. Which file lies where, and that nothing inside an
// ignored folder can be taken back, is the caller's part.
package ignore

import (
	"slices"
	"strings"
)

// Verdict is what rules say of a path.
type Verdict int

// The verdicts.
const (
	Silent  Verdict = iota // no rule matches
	Ignored                // left out
	Kept                   // taken back by a rule with "!"
)

// Rules are the rules of one file.
type Rules []rule

type rule struct {
	pattern string
	keep    bool
	// dirOnly: written with a slash at its end.
	dirOnly bool
	// anchored: written with a slash before its end, so that it is matched
	// against the path from the rules' folder, not against the name alone.
	anchored bool
}

// Parse reads the content of a file of rules. Every content is valid.
func Parse(content []byte) Rules {
	var out Rules
	text := strings.TrimPrefix(string(content), "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		if r, ok := parseLine(strings.TrimSuffix(line, "\r")); ok {
			out = append(out, r)
		}
	}
	return out
}

func parseLine(line string) (rule, bool) {
	if strings.HasPrefix(line, "#") {
		return rule{}, false
	}
	var r rule
	line, r.keep = strings.CutPrefix(trimSpaces(line), "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.anchored = strings.Contains(line, "/")
	r.pattern = strings.TrimPrefix(line, "/")
	return r, r.pattern != ""
}

// trimSpaces drops the spaces at the end of a line, but for those behind a
// backslash.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// Match gives the verdict on a path that is relative to the rules' folder.
func (rs Rules) Match(path string, isDir bool) Verdict {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for _, r := range slices.Backward(rs) {
		text := name
		if r.anchored {
			text = path
		}
		if r.dirOnly && !isDir || !match(r.pattern, text) {
			continue
		}
		if r.keep {
			return Kept
		}
		return Ignored
	}
	return Silent
}
