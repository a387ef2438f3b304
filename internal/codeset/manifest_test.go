package codeset_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/codeset"
	"cdui/internal/protocol"
)

var emptySum = codeset.Hash(nil)

func file(path string) protocol.File {
	return protocol.File{Path: protocol.Path(path), SHA256: emptySum}
}

// ST-02: paths that leave their folder, and lists that would make them.
func TestHostileManifestsAreRefused(t *testing.T) {
	link := func(path, to string) protocol.File {
		return protocol.File{Path: protocol.Path(path), Link: protocol.Path(to)}
	}
	for name, files := range map[string][]protocol.File{
		"absolute":            {file("/etc/passwd")},
		"up":                  {file("../x")},
		"up inside":           {file("a/../../x")},
		"dot":                 {file("./x")},
		"itself":              {file(".")},
		"empty":               {file("")},
		"empty name":          {file("a//b")},
		"folder":              {file("a/")},
		"zero byte":           {file("a\x00b")},
		"long name":           {file(strings.Repeat("n", 256))},
		"long path":           {file(strings.Repeat("n/", 2100) + "n")},
		"twice":               {file("a"), file("b"), file("a")},
		"below a file":        {file("a"), file("a/b/c")},
		"below a link":        {file("a/b"), link("a", "etc")},
		"link out":            {link("a", "../x")},
		"absolute link":       {link("a", "/etc")},
		"link with a content": {{Path: "a", Link: "b", SHA256: emptySum}},
		"no hash":             {{Path: "a"}},
		"short hash":          {{Path: "a", SHA256: emptySum[1:]}},
		"hash as a path":      {{Path: "a", SHA256: "../../" + emptySum[6:]}},
		"upper case":          {{Path: "a", SHA256: strings.ToUpper(emptySum)}},
		"negative":            {{Path: "a", SHA256: emptySum, Size: -1}},
		"sum overflows":       {{Path: "a", SHA256: emptySum, Size: 1<<63 - 1}, {Path: "b", SHA256: codeset.Hash([]byte("b")), Size: 1}},
		"two sizes":           {file("a"), {Path: "b", SHA256: emptySum, Size: 1}},
		"object":              {{Path: "a", SHA256: emptySum, Key: "inputs/x"}},
	} {
		if _, err := codeset.New(files); !errors.Is(err, codeset.ErrBadManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, raw := range map[string]string{
		"not JSON": `{`, "a list": `[]`, "next version": `{"version":2,"files":[]}`, "no version": `{"files":[]}`, "path of numbers": `{"version":1,"files":[{"path":5}]}`,
	} {
		if _, err := codeset.Decode([]byte(raw)); !errors.Is(err, codeset.ErrBadManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := codeset.New(make([]protocol.File, codeset.MaxFiles+1)); !errors.Is(err, codeset.ErrBadManifest) {
		t.Error(err)
	}
}

func TestEqualListsHaveEqualHashes(t *testing.T) {
	files := []protocol.File{file("z"), file("a/b"), {Path: "l", Link: "a/b"}, file("bad\xff\n name"), {Path: "run.sh", SHA256: emptySum, Executable: true}}
	encode := func(files []protocol.File) []byte {
		m, err := codeset.New(files)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	first := encode(files)
	slices.Reverse(files)
	if !bytes.Equal(first, encode(files)) {
		t.Error("the order matters")
	}
	m, err := codeset.Decode(first)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := m.Code(); err != nil || code.Hash != codeset.Hash(first) || len(code.Files) != 5 || code.Files[1].Path != "bad\xff\n name" {
		t.Errorf("%+v %v", code, err)
	}
	files[0].Executable = !files[0].Executable
	if bytes.Equal(first, encode(files)) {
		t.Error("the mode doesn't matter")
	}
}

// ST-02: what is taken for a path stays in its folder, whatever it looks like.
func TestAcceptedPathsStayInTheFolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"..", ".", "/", "a", "\x00", "\\", "..a", " ", "\n", "\xff", "~", "C:"}), 0, 8).Draw(t, "parts")
		p := strings.Join(parts, rapid.SampledFrom([]string{"", "/"}).Draw(t, "between"))
		if protocol.Path(p).Check() != nil {
			return
		}
		if !filepath.IsLocal(p) || filepath.Clean(p) != p || strings.ContainsRune(p, 0) {
			t.Fatalf("%q was taken", p)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"files":[{"path":"a","sha256":"` + emptySum + `","size":0},{"path":{"bytes":"/wo="},"link":"a","size":0}]}`))
	f.Add([]byte(`{"version":1,"files":[{"path":"../a"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := codeset.Decode(raw)
		if err != nil {
			if !errors.Is(err, codeset.ErrBadManifest) {
				t.Fatal(err)
			}
			return
		}
		for _, f := range m.Files() {
			if !filepath.IsLocal(string(f.Path)) || f.Link != "" && !filepath.IsLocal(string(f.Link)) {
				t.Fatalf("%q leads out", f.Path)
			}
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := codeset.Decode(again); err != nil || len(back.Files()) != len(m.Files()) {
			t.Fatalf("not read again: %v", err)
		}
	})
}
