package screen

import (
	"regexp"
	"strings"
)

// filter lets lines through: a regular expression without regard to case, which
// ! in front turns around. The zero value lets everything through.
type filter struct {
	pattern string
	invert  bool
	re      *regexp.Regexp
}

func newFilter(pattern string) (filter, error) {
	f := filter{pattern: pattern}
	body, inverted := strings.CutPrefix(pattern, "!")
	f.invert = inverted
	if strings.TrimSpace(body) == "" {
		return filter{pattern: pattern}, nil
	}
	re, err := regexp.Compile("(?i)" + body)
	f.re = re
	return f, err
}

// lets tells whether a line passes.
func (f filter) lets(line string) bool { return f.re == nil || f.re.MatchString(line) != f.invert }
