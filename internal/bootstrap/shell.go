package bootstrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Remote is a machine that runs commands.
type Remote interface {
	// Run runs a command line of the account's login shell.
	Run(ctx context.Context, command string, in io.Reader) (out, said []byte, code int, err error)
}

// fields is what a script tells: lines of a name and a value.
type fields []field

type field struct{ name, value string }

func (f fields) get(name string) string {
	for _, l := range f {
		if l.name == name {
			return l.value
		}
	}
	return ""
}

func (f fields) all(name string) []string {
	var out []string
	for _, l := range f {
		if l.name == name {
			out = append(out, l.value)
		}
	}
	return out
}

// failure is a script's own word on why it ended.
type failure struct{ code, text string }

func (f *failure) Error() string { return f.text }

// prelude is what every script begins with: tell prints a field, fail ends it.
const prelude = `umask 077
LC_ALL=C; export LC_ALL
line() { printf '%s' "$*" | tr '\n\r' '  '; }
tell() { k=$1; shift; printf '%s %s\n' "$k" "$(line "$@")"; }
fail() { k=$1; shift; printf 'fail %s %s\n' "$k" "$(line "$@")"; printf '%s end\n' "$mark"; exit 1; }
`

// sh runs a script with variables. data is what the script finds on its
// standard input.
func sh(ctx context.Context, r Remote, script string, vars map[string]string, data io.Reader) (fields, error) {
	mark := newMark()
	var b strings.Builder
	fmt.Fprintf(&b, "mark=%s\n", mark)
	for name, value := range vars {
		fmt.Fprintf(&b, "%s=%s\n", name, quote(value))
	}
	b.WriteString("unset LC_ALL\n" + prelude + "printf '\\n%s begin\\n' \"$mark\"\n" + script + "\nprintf '%s end\\n' \"$mark\"\n")
	if data == nil {
		data = strings.NewReader("")
	}
	// The script is read to its last byte and no further: what follows is its
	// input. Every login shell takes this line to mean the same.
	command := fmt.Sprintf(`exec /bin/sh -c 's=$(dd bs=1 count=%d 2>/dev/null); eval "$s"'`, b.Len())
	out, said, code, err := r.Run(ctx, command, io.MultiReader(strings.NewReader(b.String()), data))
	if err != nil {
		return nil, err
	}
	return answer(mark, out, said, code)
}

func newMark() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime aborts instead
	return "@@cdui-" + hex.EncodeToString(b[:])
}

// answer finds what stands between the marks. Without them the shell did not do
// what it was told, and what it said instead is the error.
func answer(mark string, out, said []byte, code int) (fields, error) {
	_, rest, begun := bytes.Cut(out, []byte("\n"+mark+" begin\n"))
	inside, _, ended := bytes.Cut(rest, []byte(mark+" end\n"))
	if !begun {
		return nil, &ShellError{Code: code, Chatter: chatter(out, said)}
	}
	var f fields
	for line := range strings.Lines(string(inside)) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		if name == "fail" {
			reason, text, _ := strings.Cut(value, " ")
			return f, &failure{reason, strings.TrimSpace(text)}
		}
		f = append(f, field{name, value})
	}
	if !ended {
		return f, fmt.Errorf("the script there ended in the middle (code %d): %s", code, chatter(nil, said))
	}
	return f, nil
}

// ShellError says that an account's login shell did not run what it was told.
type ShellError struct {
	Code int
	// Chatter is what came instead.
	Chatter string
}

func (e *ShellError) Error() string {
	words := "it said nothing"
	if e.Chatter != "" {
		words = "it said: " + e.Chatter
	}
	return fmt.Sprintf("the login shell there did not start /bin/sh (exit code %d); look for an exit or exec in its startup files, or give the account a shell with chsh. %s", e.Code, words)
}

// chatter makes one line of what a shell prints.
func chatter(out, said []byte) string {
	text := strings.Join(strings.Fields(string(out)+" "+string(said)), " ")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	if len(text) > 400 {
		text = text[:200] + " ... " + text[len(text)-200:]
	}
	return text
}

// quote makes one word of a POSIX shell of s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// plainPath tells whether every login shell takes a path in single quotes for
// what it is.
func plainPath(path string) bool {
	return path != "" && path[0] == '/' && strings.IndexFunc(path, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("/._-+@,=: ", c))
	}) < 0
}
