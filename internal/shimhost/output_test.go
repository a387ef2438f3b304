package shimhost_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/shimhost"
)

// printed runs a shell script to its end and gives every byte that it printed.
func printed(t *testing.T, h *shimhost.Host, script string) []byte {
	t.Helper()
	r := launch(t, h, shell(script))
	if f := finished(t, toEnd(t, r)); f.Status != "succeeded" || len(f.Dropped) > 0 {
		t.Fatalf("%+v", f)
	}
	var all bytes.Buffer
	buf := make([]byte, 1<<20)
	for {
		n, at, err := r.Console().ReadAt(buf, int64(all.Len()))
		if errors.Is(err, io.EOF) {
			return all.Bytes()
		}
		if err != nil || at != int64(all.Len()) {
			t.Fatal(at, err)
		}
		all.Write(buf[:n])
	}
}

func TestL1_LettersAtAnyOffsetAreStoredExactly(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	var want bytes.Buffer
	dir := t.TempDir()
	script := ""
	for _, letter := range []string{"é", "€", "😀"} {
		for _, base := range []int{4090, 65530} {
			for i := range 11 {
				text := strings.Repeat("x", base+i) + letter + "\n"
				want.WriteString(text)
				name := filepath.Join(dir, fmt.Sprintf("%x-%d", letter, base+i))
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				script += "cat " + name + "\n"
			}
		}
	}
	// A letter that is cut by a flush.
	want.WriteString("é\n")
	script += `printf '\303'; sleep 0.05; printf '\251\n'`
	if got := printed(t, h, script); !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("%d bytes stored, want %d", len(got), want.Len())
	}
}

func TestL2_AnyBytesAreStoredExactly(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	copyOf := filepath.Join(t.TempDir(), "copy")
	got := printed(t, h, "head -c 1000000 /dev/urandom | tee "+copyOf+"; echo ok; printf '\\0\\033]0;title\\007'")
	want, err := os.ReadFile(copyOf)
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, "ok\n\x00\x1b]0;title\x07"...)
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes stored, want %d", len(got), len(want))
	}
}

func TestL4_ProgressFramesAreStoredAsTheyCame(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	got := printed(t, h, `i=0; while [ $i -lt 2000 ]; do printf '\r%d/2000' $i; [ $((i%500)) = 0 ] && printf '\nline %d\n' $i; i=$((i+1)); done`)
	if n := bytes.Count(got, []byte("\r")); n != 2000 || !bytes.HasSuffix(got, []byte("\r1999/2000")) {
		t.Fatalf("%d frames", n)
	}
}

func TestL5_ALongLineLosesNothingAfterIt(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{})
	got := printed(t, h, `head -c 2000000 /dev/zero | tr '\0' a; echo; for i in $(seq 999); do echo line $i; done; printf 'line 1000'`)
	lines := strings.Split(string(got), "\n")
	if len(lines) != 1001 || len(lines[0]) != 2_000_000 || lines[1000] != "line 1000" {
		t.Fatalf("%d lines", len(lines))
	}
}

// Proves R-07.
func TestTheCapKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	h := newHost(t, shimhost.Config{Limits: shimhost.Limits{ConsoleHead: 1000, ConsoleCap: 5000}})
	r := launch(t, h, shell(`for i in $(seq 10000); do echo line $i; done; exit 3`))
	f := finished(t, toEnd(t, r))
	if len(f.Dropped) > 0 || !strings.HasSuffix(f.OutputTail, "line 10000\n") || len(f.OutputTail) > 4096 {
		t.Fatalf("%+v", f)
	}
	cuts, err := r.Console().Cuts()
	if err != nil || len(cuts) != 1 || cuts[0].From != 1000 {
		t.Fatal(cuts, err)
	}
}

// As an ordinary user the tests of processes run once more: the pair of keeper
// and shim must hold without any right.
func TestAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user")
	}
	dir, err := os.MkdirTemp("/tmp", "cdui-ordinary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	bin := filepath.Join(dir, "shimhost.test")
	// A file that this process wrote itself may be busy: in a fork of it.
	if out, err := exec.CommandContext(t.Context(), "cp", "/proc/"+strconv.Itoa(os.Getpid())+"/exe", bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bin, "-test.run",
		"^(TestACommandFromStartToEnd|TestAScript.*|TestC1_.*|TestC2_.*|TestC4_.*|TestKill9.*|TestForce.*|TestAPathTooLong.*)$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"TMPDIR=" + dir, "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Setsid: true}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Count(out, []byte("--- PASS")) < 15 || bytes.Contains(out, []byte("--- SKIP")) {
		t.Fatalf("%v\n%s", err, out)
	}
}
