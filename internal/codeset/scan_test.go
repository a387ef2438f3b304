package codeset_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cdui/internal/codeset"
	"cdui/internal/protocol"
)

// tree makes files; a content of "-> x" makes a link to x.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t *testing.T, dir string) *codeset.Disk {
	t.Helper()
	d, err := codeset.OpenDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func scan(t *testing.T, dir string, listed ...string) codeset.Found {
	t.Helper()
	found, err := codeset.Scan(context.Background(), open(t, dir), listed...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func paths(found codeset.Found) []string {
	var out []string
	for _, e := range found.Files {
		out = append(out, string(e.Path))
	}
	slices.Sort(out)
	return out
}

// ST-01: the folder minus what .cduiignore and .gitignore leave out.
func TestRulesLeaveFilesBehind(t *testing.T) {
	dir := tree(t, map[string]string{
		".gitignore":        "*.pt\n/out/\n!/keep.pt\n",
		".cduiignore":       "notes.md\n!model/base.pt\n",
		"sub/.gitignore":    "!x.pt\n/local\n",
		"train.py":          "",
		"x.pt":              "",
		"keep.pt":           "",
		"model/base.pt":     "",
		"notes.md":          "",
		"out/a.txt":         "",
		"sub/out/a.txt":     "",
		"sub/x.pt":          "",
		"sub/local/f":       "",
		"sub/notes.md":      "",
		".git/config":       "",
		"sub/module/.git/x": "",
	})
	want := []string{".cduiignore", ".gitignore", "keep.pt", "model/base.pt", "sub/.gitignore", "sub/out/a.txt", "sub/x.pt", "train.py"}
	if got := paths(scan(t, dir)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// ST-01: the listed files.
// S-02, ENR-03: tokens stay where they are, whatever the rules say.
func TestDataFoldersOfOurOwnStayBehind(t *testing.T) {
	dir := tree(t, map[string]string{
		"main.py": "", "plane/cdui.db": "", "plane/token": "secret", "plane/runs/x/output.log": "",
		"agent/box/agent.json": "secret", "agent/box/lock": "", "agent/box/agent-runs/y": "",
		"mine/token": "a file of the user's", ".cduiignore": "!plane\n!agent\n",
	})
	found := scan(t, dir)
	if got := paths(found); !slices.Equal(got, []string{".cduiignore", "main.py", "mine/token"}) {
		t.Errorf("sent %q", got)
	}
	if len(found.LeftOut) != 2 || !strings.Contains(found.LeftOut[0].Reason, "tokens") {
		t.Errorf("left out %+v", found.LeftOut)
	}
	if _, err := codeset.Scan(context.Background(), open(t, filepath.Join(dir, "plane"))); err == nil || !strings.Contains(err.Error(), "tokens") {
		t.Errorf("the data folder itself: %v", err)
	}
}

func TestListedFilesComeAlong(t *testing.T) {
	dir := tree(t, map[string]string{
		".gitignore": "*.pt\n", "a.py": "", "b.py": "", "w.pt": "", "sub/x.pt": "", "sub/c.py": "", "sub/deep/d.pt": "", "sub/deep/d.py": "",
	})
	for _, c := range []struct {
		listed, want []string
	}{
		{[]string{"a.py", "./w.pt", "a.py"}, []string{"a.py", "w.pt"}},
		{[]string{"sub"}, []string{"sub/c.py", "sub/deep/d.py"}},
		{[]string{"sub/deep/"}, []string{"sub/deep/d.py"}},
		{[]string{"sub/deep/d.pt", "."}, []string{".gitignore", "a.py", "b.py", "sub/c.py", "sub/deep/d.pt", "sub/deep/d.py"}},
	} {
		if got := paths(scan(t, dir, c.listed...)); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.listed, got, c.want)
		}
	}
	for _, name := range []string{"../x", "/etc/passwd", "nothing.py", "sub/../../x"} {
		if _, err := codeset.Scan(context.Background(), open(t, dir), name); err == nil || !strings.Contains(err.Error(), filepath.Base(name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// ST-02: no link leads out of the folder.
func TestLinksThatMeanTheSameElsewhereAreKept(t *testing.T) {
	dir := tree(t, map[string]string{
		"data/v1/train.csv": "1",
		"data/latest":       "-> v1",
		"current":           "-> data/latest",
		"code/data":         "-> ../data",
		"code/file":         "-> ../data/latest/train.csv",
		"code/later":        "-> ./checkpoints/last.pt",
		"self":              "-> self",
		"ping":              "-> pong",
		"pong":              "-> ping",
		"here":              "-> .",
		"data/up":           "-> ..",
		"data/v1/me":        "-> ../v1",
		"trick/up":          "-> ../data/latest/../..",
		"passwd":            "-> /etc/passwd",
		"parent":            "-> ../",
		"far":               "-> data/../../../etc",
		"via":               "-> parent/etc/passwd",
		"chained":           "-> passwd",
	})
	found := scan(t, dir)
	kept := map[string]string{}
	for _, e := range found.Files {
		if e.Link != "" {
			kept[string(e.Path)] = string(e.Link)
		}
	}
	want := map[string]string{
		"data/latest": "data/v1", "current": "data/latest", "code/data": "data",
		"code/file": "data/v1/train.csv", "code/later": "code/checkpoints/last.pt",
	}
	for p, means := range want {
		if kept[p] != means {
			t.Errorf("link %s means %q, want %q", p, kept[p], means)
		}
	}
	if len(kept) != len(want) {
		t.Errorf("kept %v", kept)
	}
	reasons := map[string]string{}
	for _, l := range found.LeftOut {
		reasons[string(l.Path)] = l.Reason
	}
	for p, word := range map[string]string{
		"self": "itself", "ping": "itself", "pong": "itself", "here": "itself", "data/up": "itself", "data/v1/me": "itself", "trick/up": "itself",
		"passwd": "out of the folder", "parent": "out of the folder", "far": "out of the folder", "via": "out of the folder", "chained": "out of the folder",
	} {
		if !strings.Contains(reasons[p], word) {
			t.Errorf("%s: left out since %q, want %q", p, reasons[p], word)
		}
	}
}

func TestWhatIsNoFileIsLeftOut(t *testing.T) {
	dir := tree(t, map[string]string{"a.py": ""})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // a socket's path must be short
	l, err := net.Listen("unix", "sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	found := scan(t, dir)
	if got := paths(found); !slices.Equal(got, []string{"a.py"}) {
		t.Errorf("%q", got)
	}
	if len(found.LeftOut) != 2 || !strings.Contains(found.LeftOut[0].Reason, "pipe") || !strings.Contains(found.LeftOut[1].Reason, "socket") {
		t.Errorf("%v", found.LeftOut)
	}
	d := open(t, dir)
	if f, err := d.Open("pipe"); err == nil {
		f.Close()
		t.Error("a pipe was opened")
	}
}

// ST-01: the largest are named.
func TestTooMuchIsRefusedWithTheLargest(t *testing.T) {
	dir := tree(t, map[string]string{"big.bin": strings.Repeat("x", 5000), "a b.bin": strings.Repeat("x", 3000), "s": "x"})
	found := scan(t, dir)
	if found.Bytes() != 8001 || codeset.Largest(found.Files, 2)[0].Path != "big.bin" {
		t.Errorf("%+v", found)
	}
	if err := (codeset.Limits{Total: 8001, File: 5000}).Check(found.Files); err != nil {
		t.Error(err)
	}
	err := codeset.Limits{Total: 8000}.Check(found.Files)
	if err == nil || !strings.Contains(err.Error(), `big.bin (4.9 KiB), "a b.bin" (2.9 KiB)`) || !strings.Contains(err.Error(), ".cduiignore") {
		t.Errorf("%v", err)
	}
	if err := (codeset.Limits{File: 4999}).Check(found.Files); err == nil || !strings.Contains(err.Error(), "big.bin") {
		t.Errorf("%v", err)
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[protocol.Path]string{"a/b.py": "a/b.py", "a b": `"a b"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`, "é": "é"} {
		if got := codeset.Quote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
