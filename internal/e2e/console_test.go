package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"cdui/internal/run"
)

// expected runs the same Python alone and gives what it prints.
func expected(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("/usr/bin/python3", append([]string{"-u", script}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// prints runs a script under cdui and compares its raw output byte for byte.
func prints(t *testing.T, p *plane, code string, args ...string) (id string, raw []byte) {
	t.Helper()
	script := p.file("print.py", code)
	r := p.ended(p.run(append([]string{"--python", "/usr/bin/python3", script, "--"}, args...)...))
	if r.Status != run.Succeeded {
		t.Fatalf("%s %q", r.Status, r.Error)
	}
	raw = p.rawLog(r.ID)
	if want := expected(t, script, args...); !bytes.Equal(raw, want) {
		t.Errorf("raw output differs: %d bytes, want %d", len(raw), len(want))
	}
	return r.ID, raw
}

// safe fails for text that a terminal should not be given.
func safe(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: not UTF-8", what)
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == 0x1b {
			end := strings.IndexByte(text[i:], 'm')
			if !strings.HasPrefix(text[i:], "\x1b[") || end < 0 || strings.Trim(text[i+2:i+end], "0123456789;:") != "" {
				t.Errorf("%s: control sequence %q", what, text[i:min(len(text), i+12)])
				return
			}
		} else if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			t.Errorf("%s: control character %#x", what, c)
			return
		}
	}
}

func TestL1_LettersCutAtEveryOffset(t *testing.T) {
	p := newPlane(t)
	id, _ := prints(t, p, `import sys
o = sys.stdout.buffer
for n in list(range(4090, 4101)) + list(range(65530, 65541)):
    for letter in "éह😀":
        b = ("x" * n + letter + "\n").encode()
        o.write(b[:-2]); o.flush(); o.write(b[-2:]); o.flush()
`)
	text := p.cdui("logs", id)
	safe(t, "logs", text)
	if n := strings.Count(text, "é") + strings.Count(text, "ह") + strings.Count(text, "😀"); n != 3*22 || strings.Contains(text, "\ufffd") {
		t.Errorf("%d letters of %d are whole", n, 3*22)
	}
}

// Proves R-07.
func TestL2_RandomBytes(t *testing.T) {
	p := newPlane(t)
	blob := filepath.Join(filepath.Dir(p.dir), "blob")
	if out, err := exec.Command("sh", "-c", "head -c 1000000 /dev/urandom > "+blob).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	r := p.ended(p.run("--", "sh", "-c", "cat "+blob+"; echo; echo ok"))
	want, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	if raw := p.rawLog(r.ID); r.Status != run.Succeeded || !bytes.Equal(raw, append(want, "\nok\n"...)) {
		t.Errorf("%s: %d bytes", r.Status, len(raw))
	}
	if raw := p.cdui("logs", "--raw", r.ID); raw != string(want)+"\nok\n" {
		t.Errorf("logs --raw gives %d bytes", len(raw))
	}
	text := p.cdui("logs", r.ID)
	safe(t, "logs", text)
	if !strings.HasSuffix(text, "\nok\n") {
		t.Errorf("the line after is %q", tail(text, 20))
	}
}

func TestL4_ProgressBars(t *testing.T) {
	p := newPlane(t)
	id, raw := prints(t, p, `import sys
for i in range(100000):
    sys.stderr.write("\r%3d%%|%-10s| %d/100000" % (i // 1000, "#" * (i // 10000), i + 1)) if False else sys.stdout.write("\r%3d%%|%-10s| %d/100000" % (i // 1000, "#" * (i // 10000), i + 1))
    if i % 10000 == 9999: print("\nstep", i + 1)
sys.stdout.write("\rlast frame")
`)
	text := p.cdui("logs", id)
	safe(t, "logs", text)
	if len(text) > 2000 || len(raw) < 1_000_000 || !strings.HasSuffix(strings.TrimRight(text, "\n"), "last frame") {
		t.Errorf("shown %d bytes of %d, ending %q", len(text), len(raw), tail(text, 40))
	}
	for _, want := range []string{"step 10000\n", "step 100000\n", "| 50000/100000\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestL5_ALongLineThenShortOnes(t *testing.T) {
	p := newPlane(t)
	id, _ := prints(t, p, `import sys
sys.stdout.write("a" * (2 << 20) + "\n")
for i in range(999): print("short", i)
sys.stdout.write("short 999")
`)
	text := p.cdui("logs", id)
	if n := strings.Count(text, "short "); n != 1000 || !strings.HasSuffix(strings.TrimRight(text, "\n"), "short 999") {
		t.Errorf("%d of 1000 short lines", n)
	}
}

func TestALineOfAHundredMegabytes(t *testing.T) {
	p := newPlane(t)
	r := p.ended(p.run("--", "sh", "-c", "head -c 100000000 /dev/zero | tr '\\0' a; echo; printf 'NUL \\000 here\\n'; echo after"))
	raw := p.rawLog(r.ID)
	if r.Status != run.Succeeded || len(raw) != 100_000_000+1+11+6 || !bytes.HasSuffix(raw, []byte("\nNUL \x00 here\nafter\n")) {
		t.Errorf("%s, %d bytes, ending %q", r.Status, len(raw), tail(string(raw), 30))
	}
	text := p.cdui("logs", r.ID)
	safe(t, "logs", tail(text, 100_000))
	if !strings.HasSuffix(text, "\nafter\n") {
		t.Errorf("the line after is %q", tail(text, 30))
	}
}

func TestL7_ControlSequencesAreNeutralised(t *testing.T) {
	p := newPlane(t)
	evil := "\x1b[r\x1b[?1003l\x1b[2J\x1b]0;title\x07\x1b]52;c;aGk=\x1b\\\x1bc\x9b31m\x1b[31mred\x1b[0m text"
	script := p.file("evil.py", "import sys\nsys.stdout.buffer.write("+pyBytes(evil)+" + b'\\n')\n")
	id := p.run("--python", "/usr/bin/python3", "--name", evil[:40], "--tag", "a\x1b[2Jb", "--note", evil, script)
	p.ended(id)
	if raw := p.rawLog(id); string(raw) != evil+"\n" {
		t.Errorf("raw output %q", raw)
	}
	for _, args := range [][]string{{"logs", id}, {"ls"}, {"show", id}, {"queue"}, {"events", id}} {
		if args[0] == "show" || args[0] == "events" {
			args = append([]string{"runs"}, args...)
		}
		safe(t, strings.Join(args, " "), p.cdui(args...))
		safe(t, strings.Join(args, " ")+" on a terminal", onTerminal(t, p, args...))
	}
	if text := onTerminal(t, p, "logs", id); !strings.Contains(text, "\x1b[31mred") {
		t.Errorf("the colour is gone: %q", text)
	}
}

func pyBytes(s string) string {
	var b strings.Builder
	b.WriteString("bytes([")
	for i := range len(s) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.TrimSpace(strings.Join([]string{itoa(int(s[i]))}, "")))
	}
	b.WriteString("])")
	return b.String()
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// onTerminal runs a command on a terminal of 100 columns and gives what it
// wrote there, carriage returns of line ends taken off.
func onTerminal(t *testing.T, p *plane, args ...string) string {
	t.Helper()
	cmd := p.command(args...)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out bytes.Buffer
	_, _ = out.ReadFrom(f) // ends with an I/O error when the command does
	_ = cmd.Wait()
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

// E: 130, and the run goes on.
func TestCtrlCLeavesTheRunGoing(t *testing.T) {
	p := newPlane(t)
	cmd := p.command("run", "--", "sh", "-c", "echo started; sleep 3; echo done")
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := &safeBuffer{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			_, _ = out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	eventually(t, time.Minute, "output", func() bool { return strings.Contains(out.String(), "started") })
	if _, err := f.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, cmd.Wait()); code != 130 {
		t.Errorf("exit %d", code)
	}
	f.Close()
	<-read
	if text := out.String(); !strings.Contains(text, "goes on") {
		t.Errorf("it does not say that the run goes on: %q", tail(text, 300))
	}
	id := strings.TrimSpace(p.cdui("ls", "-q"))
	if r := p.ended(id); r.Status != run.Succeeded || !strings.Contains(string(p.rawLog(id)), "done") {
		t.Errorf("%s", r.Status)
	}
}
