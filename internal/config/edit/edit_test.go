package edit_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/BurntSushi/toml"
	"pgregory.net/rapid"

	"cdui/internal/config/edit"
)

const lived = `# my settings, by hand
listen = "127.0.0.1:9000"   # not 8000: taken
note = """
[contexts.fake]
current_context = 'no'
"""

# the lab's
[contexts.lab]
url = 'https://lab:8000' # behind the door
pin = "sha256:00"
colour = "red"

# home
["contexts".'my "home"']
url = "http://home"
`

func TestSetAndUnset(t *testing.T) {
	t.Parallel()
	type step struct {
		path  []string
		value string
		unset bool
	}
	for _, c := range []struct {
		name, text string
		steps      []step
		want       string
	}{
		{"nothing there", "", []step{{path: []string{"a", "b", "c"}, value: "x"}}, "[a.b]\nc = \"x\"\n"},
		{"root key of an empty file", "", []step{{path: []string{"a"}, value: "x"}}, "a = \"x\"\n"},
		{"no end of line", "# c", []step{{path: []string{"a"}, value: "x"}}, "# c\na = \"x\"\n"},
		{
			"root key after the others", lived, []step{{path: []string{"current_context"}, value: "lab"}},
			strings.Replace(lived, "\"\"\"\n\n# the lab's", "\"\"\"\ncurrent_context = \"lab\"\n\n# the lab's", 1),
		},
		{"root key before tables", "# top\n\n# t\n[t]\na = 1\n", []step{{path: []string{"b"}, value: "x"}}, "# top\n\nb = \"x\"\n\n# t\n[t]\na = 1\n"},
		{"root key before a table at the top", "# t\n[t]\na = 1\n", []step{{path: []string{"b"}, value: "x"}}, "b = \"x\"\n\n# t\n[t]\na = 1\n"},
		{
			"a value keeps its comment", lived, []step{{path: []string{"contexts", "lab", "url"}, value: `http://"new"`}},
			strings.Replace(lived, `'https://lab:8000'`, `"http://\"new\""`, 1),
		},
		{
			"a new key of a table", lived, []step{{path: []string{"contexts", "lab", "ca"}, value: "/ca"}},
			strings.Replace(lived, "colour = \"red\"\n", "colour = \"red\"\nca = \"/ca\"\n", 1),
		},
		{"a quoted table", lived, []step{{path: []string{"contexts", `my "home"`, "pin"}, value: "p"}}, lived + "pin = \"p\"\n"},
		{"a new table", lived, []step{{path: []string{"contexts", "a.b", "url"}, value: "u"}}, lived + "\n[contexts.\"a.b\"]\nurl = \"u\"\n"},
		{"a key goes", lived, []step{{path: []string{"contexts", "lab", "pin"}, unset: true}}, strings.Replace(lived, "pin = \"sha256:00\"\n", "", 1)},
		{
			"a table goes", lived, []step{{path: []string{"contexts", "lab"}, unset: true}},
			strings.Replace(lived, "[contexts.lab]\nurl = 'https://lab:8000' # behind the door\npin = \"sha256:00\"\ncolour = \"red\"\n", "", 1),
		},
		{"what isn't there goes", lived, []step{{path: []string{"contexts", "nobody"}, unset: true}}, lived},
		{"there and back", lived, []step{{path: []string{"contexts", "x", "url"}, value: "u"}, {path: []string{"contexts", "x", "ca"}, value: "c"}, {path: []string{"contexts", "x"}, unset: true}}, lived},
		{"Windows' ends of lines", "a = 1\r\n", []step{{path: []string{"t", "b"}, value: "x"}, {path: []string{"c"}, value: "y"}}, "a = 1\r\nc = \"y\"\r\n\r\n[t]\r\nb = \"x\"\r\n"},
		{"dotted keys", "contexts.lab.url = 'a'\ncontexts.lab.pin = 'p'\nx = 1\n", []step{{path: []string{"contexts", "lab", "url"}, value: "b"}, {path: []string{"contexts", "lab", "pin"}, unset: true}}, "contexts.lab.url = \"b\"\nx = 1\n"},
		{"a value of several lines", "a = [ # one\n 1, 2, # ]\n] # two\nb = {c = ']', d = '#'}\n", []step{{path: []string{"a"}, value: "x"}}, "a = \"x\" # two\nb = {c = ']', d = '#'}\n"},
		{"arrays of tables are left alone", "[[t]]\na = 1\n[[t]]\na = 2\n[t.b]\nc = 3\n", []step{{path: []string{"u", "a"}, value: "x"}}, "[[t]]\na = 1\n[[t]]\na = 2\n[t.b]\nc = 3\n\n[u]\na = \"x\"\n"},
	} {
		text := []byte(c.text)
		for _, s := range c.steps {
			var err error
			if s.unset {
				text, err = edit.Unset(text, s.path...)
			} else {
				text, err = edit.Set(text, s.value, s.path...)
			}
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if string(text) != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, text, c.want)
		}
	}
}

func TestWhatCannotBeChangedIsRefused(t *testing.T) {
	t.Parallel()
	for text, path := range map[string][]string{
		"contexts = {lab = {url = 'a'}}\n": {"contexts", "home", "url"},
		"contexts = 3\n":                   {"contexts", "home", "url"},
		"[[contexts]]\nlab = 1\n":          {"contexts", "lab", "url"},
		"[contexts.lab]\na = 1\n":          {"contexts", "lab"},
		"a = [\n":                          {"b"},
	} {
		if got, err := edit.Set([]byte(text), "x", path...); err == nil {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if got, err := edit.Unset([]byte("contexts = {lab = {url = 'a'}}\n"), "contexts", "lab"); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := edit.Set(nil, "\xff", "a"); err == nil {
		t.Error("a value that is no UTF-8 is taken")
	}
}

// decoded reads TOML; nil for what is none.
func decoded(text []byte) map[string]any {
	doc := map[string]any{}
	if _, err := toml.Decode(string(text), &doc); err != nil {
		return nil
	}
	return doc
}

func value(doc map[string]any, path ...string) any {
	for _, name := range path[:len(path)-1] {
		doc, _ = doc[name].(map[string]any)
	}
	return doc[path[len(path)-1]]
}

// Any mixture of ordinary tables, keys and comments can be changed, and each
// line that has nothing to do with the change stays.
func TestOrdinaryFilesCanAlwaysBeChanged(t *testing.T) {
	t.Parallel()
	values := []string{"1", "true", `"a # b"`, "'[x]'", "[1, 2, # c\n 3]", "\"\"\"\n[t]\nu = 1\n\"\"\"", "1979-05-27 07:32:00", "{a = ']'}", "nan"}
	comments := []string{"", " # why", "  # [no] = 'x'"}
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var lines []string
		body := func(label string) {
			for i := range rapid.IntRange(0, 3).Draw(t, label) {
				line := fmt.Sprintf("k%d = %s%s\n", i, rapid.SampledFrom(values).Draw(t, "value"), rapid.SampledFrom(comments).Draw(t, "comment"))
				lines = append(lines, line)
				text.WriteString(rapid.SampledFrom([]string{"", "\n", "# note\n"}).Draw(t, "before") + line)
			}
		}
		body("root keys")
		for i := range rapid.IntRange(0, 4).Draw(t, "tables") {
			text.WriteString(rapid.SampledFrom([]string{"", "\n", "# of table\n"}).Draw(t, "gap"))
			fmt.Fprintf(&text, rapid.SampledFrom([]string{"[contexts.c%d]\n", " [ contexts . \"c%d\" ] # x\n", "[other.c%d]\n"}).Draw(t, "header"), i)
			body("keys")
		}
		path := rapid.SampledFrom([][]string{{"current"}, {"contexts", "c0", "k0"}, {"contexts", "c1", "url"}, {"contexts", "new", "url"}}).Draw(t, "path")
		v := rapid.String().Draw(t, "new value")
		got, err := edit.Set([]byte(text.String()), v, path...)
		if _, table := value(decoded([]byte(text.String())), path...).(map[string]any); table || strings.ContainsRune(v, '\uFFFD') {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text.String())
		}
		if value(decoded(got), path...) != v {
			t.Fatalf("got\n%s", got)
		}
		missing := 0
		for _, line := range lines {
			if bytes.Count(got, []byte(line)) < bytes.Count([]byte(text.String()), []byte(line)) {
				missing++
			}
		}
		if missing > 0 && path[len(path)-1] != "k0" {
			t.Fatalf("lines of\n%s\nare not in\n%s", text.String(), got)
		}
		gone, err := edit.Unset(got, path...)
		if err != nil || value(decoded(gone), path...) != nil {
			t.Fatalf("%v, got\n%s", err, gone)
		}
	})
}

func FuzzSetAndUnset(f *testing.F) {
	f.Add([]byte(lived), "x", "contexts", "lab", "url")
	f.Add([]byte("a = '''\n'''' #\nb.'c' = [\"]\"]\n"), "\x00\"", "b", "c", "")
	f.Fuzz(func(t *testing.T, text []byte, v, a, b, c string) {
		before := decoded(text)
		got, err := edit.Set(text, v, a, b, c)
		if before == nil && err == nil {
			t.Fatalf("%q is no TOML and becomes %q", text, got)
		}
		if err != nil {
			return
		}
		if after := decoded(got); value(after, a, b, c) != v {
			t.Fatalf("%q becomes %q", text, got)
		}
		gone, err := edit.Unset(got, a)
		if err != nil {
			return
		}
		after := decoded(gone)
		delete(before, a)
		if fmt.Sprint(after) != fmt.Sprint(before) && !reflect.DeepEqual(after, before) {
			t.Fatalf("%q without %q becomes %q", text, a, gone)
		}
	})
}

func TestFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "c.toml")
	set := func(key string) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) { return edit.Set(text, "x", "t", key) }
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if err := edit.File(path, set(fmt.Sprintf("k%d", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(decoded(text)["t"].(map[string]any)); n != 16 {
		t.Errorf("%d of 16 changes are there:\n%s", n, text)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, dir: 0o700 | os.ModeDir} {
		if st, err := os.Stat(name); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	// A change that fails changes nothing.
	why := errors.New("no")
	if err := edit.File(path, func([]byte) ([]byte, error) { return nil, why }); !errors.Is(err, why) {
		t.Error(err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(after, text) {
		t.Error("a failed change changed the file")
	}
	// A link to where somebody keeps their dotfiles stays one.
	link := filepath.Join(t.TempDir(), "config.toml")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := edit.File(link, set("linked")); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", st.Mode(), err)
	}
	if after, _ := os.ReadFile(path); !bytes.Contains(after, []byte("linked")) {
		t.Error("the change didn't reach the file behind the link")
	}
}
