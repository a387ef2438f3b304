package console_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"cdui/internal/console"
)

// show gives what a display makes of in, in portions of n bytes.
func show(in string, n int, o console.DisplayOptions) string {
	d := console.NewDisplay(o)
	var b bytes.Buffer
	for len(in) > 0 {
		k := min(n, len(in))
		b.Write(d.Write([]byte(in[:k])))
		in = in[k:]
	}
	b.Write(d.Flush())
	return b.String()
}

func TestDisplay(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
	}{
		{"text", "a\nb\n", "a\nb\n"},
		{"no newline at the end", "a\nb", "a\nb"},
		{"windows lines", "a\r\nb\r\n", "a\nb\n"},
		{"frames", "\r1%\r2%\r3%\ndone\n", "3%\ndone\n"},
		{"frames that end with a return", "1%\r2%\r3%\r\nnext", "3%\nnext"},
		{"a frame that is erased", "busy\r\x1b[Kdone\n", "done\n"},
		{"a whole line that is erased", "busy\x1b[2Kdone\n", "done\n"},
		{"lines between frames", "\r1%\nhello\n\r2%\nworld\n\r3%", "1%\nhello\n2%\nworld\n3%"},
		{"a bar without an end", "start\n\r1%\r2%", "start\n2%"},
		{"nested bars", "\router 0%\n\rinner 0%\x1b[A\n\rinner 9%\x1b[A\router 5%\n\rinner 5%\x1b[A\n\rdone", "outer 5%\ndone"},
		{
			"nested bars with a line between",
			"\router 0%\n\rinner 0%\x1b[A\n\rinner 9%\x1b[A\r        \rhello\n\router 1%\n\rinner 1%\x1b[A\n",
			"hello\nouter 1%\ninner 1%",
		},
		{"colour goes", "\x1b[31mred\x1b[0m \x1b[1;38;5;200mx\x1b[m\n", "red x\n"},
		{"letters", "é€😀\n", "é€😀\n"},
		{"bytes that are no text", "a\xff\xc3\n\xe2\x82", "a\uFFFD\uFFFD\n\uFFFD\uFFFD"},
		{"controls", "a\x00b\x07c\x08d\x7fe\x0bf\tg\n", "abcdef\tg\n"},
		{"scroll region", "\x1b[r\x1b[3;10rx\n", "x\n"},
		{"mouse mode", "\x1b[?1003lx\x1b[?1049h\n", "x\n"},
		{"clear screen", "\x1b[2J\x1b[Hx\n", "x\n"},
		{"title", "\x1b]0;evil\x07x\x1b]2;evil\x1b\\y\n", "xy\n"},
		{"clipboard", "\x1b]52;c;ZXZpbA==\x07x\n", "x\n"},
		{"device control, privacy, application, start of string", "\x1bPq\x1b\\a\x1b^p\x1b\\b\x1b_a\x1b\\c\x1bXs\x1b\\d\n", "abcd\n"},
		{"controls of one byte", "\u009b31mx\u009d0;t\u009cy\u0090z\u009cw\u0085v\n", "xywv\n"},
		{"charset and reset", "\x1b(B\x1bc\x1b7\x1b=x\n", "x\n"},
		{"a string that never ends gives up at the line", "\x1b]0;" + "evil\nnext\n", "\nnext\n"},
		{"a sequence that is broken", "\x1b[31\nx\x1b\n", "\nx\n"},
		{"a sequence in a sequence", "\x1b[3\x1b[31mx\n", "x\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n := 1; n <= len(c.in); n++ {
				if got := show(c.in, n, console.DisplayOptions{}); got != c.want {
					t.Fatalf("in portions of %d: %q, want %q", n, got, c.want)
				}
			}
		})
	}
}

func TestDisplayKeepsColour(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"\x1b[31mred\x1b[0m plain\n", "\x1b[31mred\x1b[0m plain\n"},
		// A colour that stays on is put off at the end of each line, so that
		// lines can be shown alone, and on again in the next.
		{"\x1b[31mone\ntwo\x1b[0m\nthree\n", "\x1b[31mone\x1b[0m\n\x1b[31mtwo\x1b[0m\nthree\n"},
		{"\r\x1b[32m1%\r\x1b[32m2%\x1b[0m\n", "\x1b[32m2%\x1b[0m\n"},
		{"\x1b[?31mx\x1b[>4;1my\n", "xy\n"},
	} {
		for n := 1; n <= len(c.in); n++ {
			if got := show(c.in, n, console.DisplayOptions{Colour: true}); got != c.want {
				t.Errorf("%q in portions of %d: %q, want %q", c.in, n, got, c.want)
				break
			}
		}
	}
}

func TestL1_LettersAreWholeAtAnyOffset(t *testing.T) {
	for _, letter := range []string{"é", "€", "😀"} {
		for _, base := range []int{4090, 65530} {
			for i := range 11 {
				in := strings.Repeat("x", base+i) + letter + "\n"
				for _, portion := range []int{4096, 65536, base + i + 1} {
					if got := show(in, portion, console.DisplayOptions{MaxLine: 1 << 20}); got != in {
						t.Fatalf("%s at %d in portions of %d", letter, base+i, portion)
					}
				}
			}
		}
	}
}

func TestL2_RandomBytesAreShownAsText(t *testing.T) {
	src := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, 1_000_000)
	for i := range b {
		b[i] = byte(src.Uint32())
	}
	got := show(string(b)+"\nok\n", 4096, console.DisplayOptions{})
	if !utf8.ValidString(got) || !strings.HasSuffix(got, "\nok\n") {
		t.Fatalf("%q", got[max(0, len(got)-40):])
	}
}

func TestL4_ProgressBarsBecomeTheirLastFrame(t *testing.T) {
	d := console.NewDisplay(console.DisplayOptions{Live: true})
	var out bytes.Buffer
	seen := map[string]bool{}
	for i := range 100_000 {
		out.Write(d.Write(fmt.Appendf(nil, "\r%3d%%|#####| %d/100000", i/1000, i)))
		if i%1000 == 0 {
			seen[d.Line()] = true
		}
		if i%25_000 == 0 {
			out.Write(d.Write(fmt.Appendf(nil, "\nstep %d\n", i)))
		}
	}
	out.Write(d.Flush())
	got := strings.Split(out.String(), "\n")
	if len(got) != 9 || got[1] != "step 0" || got[7] != "step 75000" || got[8] != " 99%|#####| 99999/100000" {
		t.Fatalf("%d lines: %q", len(got), got)
	}
	if len(seen) != 100 {
		t.Fatalf("the live line showed %d frames", len(seen))
	}
}

func TestL4_TqdmItself(t *testing.T) {
	const python = "/usr/bin/python3"
	script := `
from tqdm import tqdm
import sys
for i in tqdm(range(3), desc="outer", mininterval=0, file=sys.stdout):
    for j in tqdm(range(200), desc="inner", mininterval=0, leave=False, file=sys.stdout):
        pass
    tqdm.write("epoch %d" % i, file=sys.stdout)
print("end")
`
	raw, err := exec.CommandContext(t.Context(), python, "-c", script).Output()
	if err != nil {
		t.Skipf("needs tqdm: %v", err)
	}
	got := show(string(raw), 777, console.DisplayOptions{})
	for _, want := range []string{"epoch 0\n", "epoch 1\n", "epoch 2\n", "\nend\n", "outer: 100%"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(got, "\n"); n > 12 || len(raw) < 10_000 {
		t.Errorf("%d bytes became %d lines: %q", len(raw), n, got)
	}
}

func TestL5_AHugeLineIsCutWithAMark(t *testing.T) {
	d := console.NewDisplay(console.DisplayOptions{MaxLine: 1000})
	chunk := bytes.Repeat([]byte("a"), 1<<20)
	kept := 0
	for range 100 {
		kept += len(d.Write(chunk))
	}
	if kept != 0 {
		t.Fatal("a line was given before its end")
	}
	got := string(d.Write([]byte("\nnext\n")))
	if got != strings.Repeat("a", 1000)+fmt.Sprintf(" … [%d bytes cut]\nnext\n", 100<<20-1000) {
		t.Fatalf("%q", got[max(0, len(got)-60):])
	}
}

func TestL7_NamesAreClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain name":                           "plain name",
		"\x1b[r\x1b[?1003l\x1b[2Jx":            "x",
		"\x1b]0;title\x07a\x1b]52;c;eA==\x07b": "ab",
		"two\nlines\r\nand\ttab":               "two lines and tab",
		"\x1b[31mred\x1b[0m":                   "red",
		"caf\u00e9 \xff":                       "café \uFFFD",
		"abc\u202Etxt.exe\u2066":               "abctxt.exe",
		"":                                     "",
		"\r\rprogress\r":                       "progress",
		"\x1b]0;never ends":                    "",
	} {
		if got := console.CleanText(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

var colourSequence = regexp.MustCompile("\x1b\\[[0-9;:]*m")

func checkSafe(t *testing.T, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Fatalf("not valid text: %q", out)
	}
	for _, c := range colourSequence.ReplaceAllString(out, "") {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 {
			t.Fatalf("%U in %q", c, out)
		}
	}
}

func FuzzDisplay(f *testing.F) {
	for _, s := range []string{"", "a\r\nb", "\x1b[31mx\x1b[A\x1b[K\r1\n\x1b]0;t\x07", "\xc3\xa9\xff\u009b", "\x1b[9999Ax\n\x1b[5By"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, n int) {
		n = max(1, min(n, 1000))
		for _, o := range []console.DisplayOptions{{}, {Colour: true, Live: true, MaxLine: 50}} {
			whole := show(string(in), len(in)+1, o)
			checkSafe(t, whole)
			if parts := show(string(in), n, o); parts != whole {
				t.Fatalf("in portions of %d: %q, at once: %q", n, parts, whole)
			}
		}
		checkSafe(t, console.CleanText(string(in)))
	})
}

func BenchmarkDisplay(b *testing.B) {
	line := []byte(strings.Repeat("an ordinary line of output with some words in it\n", 2000))
	d := console.NewDisplay(console.DisplayOptions{Colour: true})
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		d.Write(line)
	}
}
