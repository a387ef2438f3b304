package codeset_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/codeset"
	"cdui/internal/protocol"
)

// hostileNames are legal on Linux, all of them.
var hostileNames = []string{
	"with space", " lead", "trail ", "new\nline", "tab\t", "-rf", "--", "~", "$HOME", "`id`", "'", `"`, `\`, "*", "?", "[", ";", "&", "|", "%2e%2e", "..hidden", "...",
	"😀.py", "e\u0301", "é", "مرحبا", "\xff\xfe", "\xc3", "\x01\x1b[31m", strings.Repeat("n", 255), strings.Repeat("é", 127), "CON", "a:b", "a.part",
}

func contents(t *testing.T, dir string, m codeset.Manifest) func(string) (io.ReadCloser, error) {
	t.Helper()
	bySum := map[string]protocol.Path{}
	for _, f := range m.Files() {
		bySum[f.SHA256] = f.Path
	}
	return func(sum string) (io.ReadCloser, error) { return os.Open(filepath.Join(dir, string(bySum[sum]))) }
}

func sum(t *testing.T, dir string) codeset.Manifest {
	t.Helper()
	m, err := codeset.Sum(context.Background(), open(t, dir), scan(t, dir).Files)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ST-01, ST-02: a folder is the same elsewhere, whatever its files are called.
func TestAnyNameSurvivesTheWay(t *testing.T) {
	files := map[string]string{"data/x.bin": strings.Repeat("\x00\xff", 40000), "empty": "", "l": "-> data/x.bin", "data/deep/l": "-> ../../empty"}
	for i, n := range hostileNames {
		files[n] = strings.Repeat("c", i)
		files["dir"+n[:min(len(n), 200)]+"/"+n] = "x"
	}
	from := tree(t, files)
	if err := os.Chmod(filepath.Join(from, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	m := sum(t, from)
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if m, err = codeset.Decode(raw); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "code")
	for range 2 { // what is there already is replaced
		if err := codeset.Unpack(context.Background(), to, m, contents(t, from, m)); err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	for name, content := range files {
		want := content
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			if text, err := os.Readlink(filepath.Join(to, name)); err != nil || text != target {
				t.Errorf("link %q: %q %v", name, text, err)
			}
			raw, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				t.Fatal(err)
			}
			want = string(raw)
		}
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%q: %v", name, err)
		}
		count++
	}
	if n := len(m.Files()); n != count {
		t.Errorf("%d entries for %d files", n, count)
	}
	if info, err := os.Stat(filepath.Join(to, "empty")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("not executable any more: %v", err)
	}
}

func TestWhatIsDamagedIsNotUnpacked(t *testing.T) {
	m, err := codeset.New([]protocol.File{{Path: "d/a", SHA256: codeset.Hash([]byte("right")), Size: 5}})
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"wrong", "righ", "right and more", ""} {
		to := filepath.Join(t.TempDir(), "code")
		err := codeset.Unpack(context.Background(), to, m, func(string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(content)), nil
		})
		var damaged *codeset.DamagedError
		if !errors.As(err, &damaged) || damaged.Path != "d/a" {
			t.Errorf("%q: %v", content, err)
		}
		for _, left := range []string{to, to + ".part"} {
			if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q left %s behind", content, left)
			}
		}
	}
}

// ST-02: links of a hostile list can only point into the folder, however they are
// put together.
func TestUnpackedLinksLeadNowhereElse(t *testing.T) {
	files := []protocol.File{
		{Path: "a/b/c/l", Link: "a/up"},
		{Path: "a/up", Link: "x"},
		{Path: "x", Link: "a/b/c/l"},
		{Path: "a/b/deep", Link: "nothing/here"},
		{Path: "q", SHA256: emptySum},
	}
	m, err := codeset.New(files)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "code")
	if err := codeset.Unpack(context.Background(), to, m, func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(nil)), nil }); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Link == "" {
			continue
		}
		text, err := os.Readlink(filepath.Join(to, string(f.Path)))
		if err != nil {
			t.Fatal(err)
		}
		if got := filepath.Join(to, filepath.Dir(string(f.Path)), text); got != filepath.Join(to, string(f.Link)) {
			t.Errorf("%s leads to %s", f.Path, got)
		}
	}
}
