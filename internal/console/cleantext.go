package console

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// CleanText makes a name, tag or message safe to show within a line: control
// sequences and characters go, line breaks and tabs become spaces, bytes that
// are no text become U+FFFD, and marks that turn the direction of writing go,
// since they would reorder what stands beside.
func CleanText(s string) string {
	if cleanASCII(s) {
		return s
	}
	d := NewDisplay(DisplayOptions{MaxLine: max(len(s)*3, 1)})
	var b strings.Builder
	// A line break or return within a name is no progress bar.
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.Write(d.Write([]byte(part)))
		b.Write(d.Flush())
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\u2028' || r == '\u2029':
			// A display makes a line break of a move to another line.
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, b.String())
}

func cleanASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f || s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
