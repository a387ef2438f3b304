package shim_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cdui/internal/childproto"
	"cdui/internal/console"
	"cdui/internal/protocol"
	"cdui/internal/shim"
	"cdui/internal/shim/proctree"
	"cdui/internal/shim/unixsock"
	"cdui/internal/shim/wire"
	"cdui/internal/spool"
)

// TestMain lets the test binary stand in for `cdui shim`.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

const v1 = "testdata/v1"

// A shim of this release does what version 1 said: the host's lines of the
// stored transcript get the stored answers, and the files are the stored ones,
// but for pids and times.
// Proves W-08.
func TestTranscriptOfVersion1IsReplayed(t *testing.T) {
	dir := t.TempDir()
	replay(t, dir, "socket.jsonl")
	for _, name := range []string{wire.NoteFile, wire.ExitFile} {
		sameShape(t, name, read(t, filepath.Join(v1, name)), read(t, filepath.Join(dir, name)))
	}
	want, got := readSpool(t, v1), readSpool(t, dir)
	if len(want) != len(got) {
		t.Fatalf("%d records, the transcript has %d", len(got), len(want))
	}
	for i := range want {
		sameShape(t, fmt.Sprintf("record %d", i+1), want[i], got[i])
	}
	if out := read(t, filepath.Join(dir, "output.log")); string(out) != "hello\n" {
		t.Errorf("%q", out)
	}
}

// A shim that was made a spare serves the one run that it is given: in the
// folder of the run, as the run's first process was to be, and with the run's
// own records alone.
// Proves K-04, W-07, W-08.
func TestTranscriptOfASpareIsReplayed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spare-1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	moved := replay(t, dir, "spare.jsonl")
	note, _, err := wire.ReadNote(moved)
	if err != nil || note.RunID != "served" || note.Attempt != 2 || note.Spare != "spare-1" || !slices.Equal(note.Devices, []string{"cpu"}) {
		t.Errorf("%+v %v", note, err)
	}
	if exit, ok, err := wire.ReadExit(moved); err != nil || !ok || exit.RunID != "served" || exit.Finished.Status != "cancelled" {
		t.Errorf("%+v %v %v", exit, ok, err)
	}
	var types []string
	for _, b := range readSpool(t, moved) {
		rec, err := protocol.DecodeRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, string(rec.Type))
		if rec.Type == protocol.RunFacts && string(rec.Facts) != `{"warm":true}` {
			t.Errorf("facts %s", rec.Facts)
		}
	}
	if got := strings.Join(types, " "); got != "run_started run_facts event event run_finished" {
		t.Error(got)
	}
	id, line, _ := strings.Cut(string(read(t, filepath.Join(moved, "output.log"))), "\n")
	var told childproto.Down
	if err := json.Unmarshal([]byte(line), &told); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	want := []string{"PATH=/usr/bin:/bin", "LR=3", "CDUI_RUN_ID=served", "CDUI_REPORT=" + filepath.Join(moved, wire.ReportFile), "CDUI_CHILD_FDS=3,4"}
	if id != "spare-1" || told.RunID != "served" || told.Dir != "/" || !slices.Equal(told.Env, want) || len(told.Argv) != 6 || string(told.Input) != `{"lr":3}` {
		t.Errorf("%s was told %+v", id, told)
	}
}

// A spare is over, with its child, when its host is gone, when it is told to
// end, when nothing comes for too long, when its child ends, and when its
// child prints what would be missing from the output of its run.
// Proves K-04, P-04.
func TestSpareEnds(t *testing.T) {
	const ready = `echo '{"type":"ready"}' >&3; `
	for name, c := range map[string]struct {
		script string
		wait   time.Duration
		do     func(t *testing.T, conn *net.UnixConn)
	}{
		"host gone":         {script: ready + "sleep 60", do: hangUp},
		"told":              {script: ready + "sleep 60", do: func(t *testing.T, conn *net.UnixConn) { tell(t, conn, wire.Message{Op: wire.OpStop}) }},
		"host gone at once": {script: "sleep 60", do: hangUp},
		"too long":          {script: ready + "sleep 60", wait: 300 * time.Millisecond},
		"child ends":        {script: "exit 3"},
		"child prints":      {script: "echo a warning; " + ready + "sleep 60"},
		"helpers":           {script: ready + "sleep 61 & setsid sleep 62 & sleep 60", do: hangUp},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mark := "spare-" + strings.ReplaceAll(name, " ", "-") + fmt.Sprint(os.Getpid())
			conn := startShim(t, dir, c.wait)
			tell(t, conn, wire.Message{Op: wire.OpWarm, Assignment: &protocol.Assignment{
				RunID: mark, Kind: protocol.KindScript, Argv: []string{"sh", "-c", c.script}, Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH")},
			}})
			br := bufio.NewReader(conn)
			if strings.HasPrefix(c.script, ready) {
				expect(t, br, json.RawMessage(`{"op":"hello","v":1,"state":"waiting","isolation":"none"}`))
				expect(t, br, json.RawMessage(`{"op":"ready","pid":1}`))
			}
			if c.do != nil {
				c.do(t, conn)
			}
			for {
				if _, err := wire.Read(br); err != nil {
					break
				}
			}
			awaitUnlocked(t, dir)
			if left := proctree.ByEnv("CDUI_RUN_ID", func(id string) bool { return id == mark }); len(left) > 0 {
				t.Errorf("processes of the spare are left: %v", left)
			}
			if _, noted, err := wire.ReadNote(dir); noted || err != nil {
				t.Errorf("there is a note: %v", err)
			}
		})
	}
}

// awaitUnlocked waits until the shim in dir is gone.
func awaitUnlocked(t *testing.T, dir string) {
	t.Helper()
	lock, err := os.Open(filepath.Join(dir, wire.NoteFile))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_SH)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hangUp ends the host's side; what the shim still says is heard.
func hangUp(t *testing.T, conn *net.UnixConn) {
	if err := conn.CloseWrite(); err != nil {
		t.Error(err)
	}
}

func tell(t *testing.T, conn *net.UnixConn, m wire.Message) {
	t.Helper()
	b, err := wire.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

// The stored files of version 1 are understood.
// Proves W-08.
func TestFilesOfVersion1AreRead(t *testing.T) {
	note, ok, err := wire.ReadNote(v1)
	if err != nil || !ok || note.RunID != "transcript" || note.State != wire.Assigned || note.Shim.PID != 4242 || note.Shim.Start != 1234 {
		t.Errorf("%+v %v %v", note, ok, err)
	}
	exit, ok, err := wire.ReadExit(v1)
	if err != nil || !ok || exit.Finished.Status != "cancelled" || *exit.Finished.Exit.Signal != 15 {
		t.Errorf("%+v %v %v", exit, ok, err)
	}
	records := bytes.Split(bytes.TrimSpace(read(t, filepath.Join(v1, "records.jsonl"))), []byte("\n"))
	for i, b := range readSpool(t, v1) {
		rec, err := protocol.DecodeRecord(b)
		if err != nil || rec.Seq != uint64(i+1) || !bytes.Equal(b, records[i]) {
			t.Errorf("%s: %v", b, err)
		}
		again, err := protocol.EncodeRecord(&rec)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("record %d is written as %s", i+1, again)
		}
	}
	r := console.NewReader(v1)
	marks, err := r.Marks(0, 100, 10)
	if err != nil || len(marks) != 1 || !marks[0].At.Equal(time.Date(2026, 11, 29, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v %v", marks, err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readSpool(t *testing.T, dir string) [][]byte {
	t.Helper()
	r := spool.NewReader(dir, 0)
	defer r.Close()
	recs, err := r.Next(100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, rec := range recs {
		out = append(out, rec.Data)
	}
	return out
}

// replay plays the host of a transcript to a shim in dir, until the shim ends.
// It gives where the folder lies then: that of a spare moves with its run.
func replay(t *testing.T, dir, name string) string {
	t.Helper()
	conn := startShim(t, dir, 0)
	br := bufio.NewReader(conn)
	script, err := os.ReadFile(filepath.Join(v1, name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(script) {
		if bytes.Contains(line, []byte("$MOVED")) {
			moved := filepath.Join(filepath.Dir(dir), "served")
			if err := os.Rename(dir, moved); err != nil {
				t.Fatal(err)
			}
			line, dir = bytes.ReplaceAll(line, []byte("$MOVED"), []byte(moved)), moved
		}
		var entry struct {
			From string          `json:"from"`
			Line json.RawMessage `json:"line"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatal(err)
		}
		if entry.From == "host" {
			if _, err := conn.Write(append(entry.Line, '\n')); err != nil {
				t.Fatal(err)
			}
			continue
		}
		expect(t, br, entry.Line)
	}
	// The shim ends by itself, and the end of the connection shows it.
	for err == nil {
		_, err = wire.Read(br)
	}
	return dir
}

func startShim(t *testing.T, dir string, wait time.Duration) *net.UnixConn {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ln, _, err := unixsock.Listen(dir, wire.SocketFile)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	lnFile, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	defer lnFile.Close()
	lock, err := os.Create(filepath.Join(dir, wire.NoteFile))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, append([]string{"shim"}, wire.Start{Dir: dir, Isolation: wire.IsolateNone, AssignWait: wait}.Args()...)...)
	cmd.ExtraFiles = []*os.File{lnFile, lock}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	c, err := unixsock.Dial(dir, wire.SocketFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// expect reads messages until one of the wanted kind comes; nudges may be
// fewer or more, but lead to the wanted one.
func expect(t *testing.T, br *bufio.Reader, want json.RawMessage) {
	t.Helper()
	var w wire.Message
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := wire.Read(br)
		if err != nil {
			t.Fatalf("waiting for %s: %v", want, err)
		}
		if m.Op == wire.OpAppended && (w.Op != wire.OpAppended || m.Seq < w.Seq || m.Console < w.Console) {
			continue
		}
		got, err := wire.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		sameShape(t, w.Op, want, got)
		return
	}
}

// sameShape compares two documents: the same keys everywhere, and the same
// values but for those that differ from run to run.
func sameShape(t *testing.T, what string, want, got []byte) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if diff := differ("", w, g); diff != "" {
		t.Errorf("%s: %s\n got %s\nwant %s", what, diff, bytes.TrimSpace(got), bytes.TrimSpace(want))
	}
}

func differ(path string, want, got any) string {
	name := path[strings.LastIndexByte(path, '.')+1:]
	if slices.Contains([]string{"pid", "start_ticks", "boot_id", "pid_ns", "ts", "started_at", "deadline", "active_ms"}, name) {
		if reflect.TypeOf(want) != reflect.TypeOf(got) {
			return path + " has another type"
		}
		return ""
	}
	w, ok1 := want.(map[string]any)
	g, ok2 := got.(map[string]any)
	if !ok1 || !ok2 {
		if !reflect.DeepEqual(want, got) {
			return path + " differs"
		}
		return ""
	}
	keys := slices.Sorted(maps.Keys(w))
	if !slices.Equal(keys, slices.Sorted(maps.Keys(g))) {
		return path + " has other keys"
	}
	for _, k := range keys {
		if diff := differ(path+"."+k, w[k], g[k]); diff != "" {
			return diff
		}
	}
	return ""
}
