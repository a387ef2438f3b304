package protocol_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdui/internal/device"
	"cdui/internal/protocol"
)

const page = "../../docs/protocol.md"

// constants gives the literals of the package's constants whose name begins
// with the prefix, by name.
func constants(tb testing.TB, prefix string) map[string]string {
	tb.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		tb.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			tb.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				if strings.HasPrefix(v.Names[0].Name, prefix) && len(v.Values) == 1 {
					if lit, ok := v.Values[0].(*ast.BasicLit); ok {
						found[v.Names[0].Name] = strings.Trim(lit.Value, `"`)
					}
				}
			}
		}
	}
	if len(found) == 0 {
		tb.Fatalf("no constant %s…; did they move?", prefix)
	}
	return found
}

func frameTypes(tb testing.TB) []protocol.FrameType {
	tb.Helper()
	var types []protocol.FrameType
	for _, v := range constants(tb, "Type") {
		types = append(types, protocol.FrameType(v))
	}
	slices.Sort(types)
	return types
}

func closeCodes(tb testing.TB) map[int]bool {
	tb.Helper()
	codes := map[int]bool{}
	for name, v := range constants(tb, "Close") {
		n, err := strconv.Atoi(v)
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		codes[n] = true
	}
	return codes
}

// sections gives the text under each heading of the third level.
func sections(t *testing.T) (map[string]string, string) {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	heading := regexp.MustCompile(`(?m)^#{2,3} .*$`)
	found := map[string]string{}
	at := heading.FindAllStringIndex(string(content), -1)
	for i, m := range at {
		end := len(content)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		title := string(content[m[0]:m[1]])
		if name, ok := strings.CutPrefix(title, "### "); ok {
			found[strings.Trim(name, "`")] = string(content[m[1]:end])
		}
	}
	return found, string(content)
}

// objects are the types that have a section of their own because several
// frames hold them.
func objects() map[reflect.Type]string {
	return map[reflect.Type]string{
		reflect.TypeFor[device.Device]():          "device object",
		reflect.TypeFor[protocol.File]():          "file object",
		reflect.TypeFor[protocol.Problem]():       "problem object",
		reflect.TypeFor[protocol.S3Credentials](): "S3 credentials object",
		reflect.TypeFor[protocol.Catalog]():       "catalog object",
		reflect.TypeFor[protocol.Python]():        "python object",
	}
}

// fields lists the members of a struct as the page names them: a.b for those
// of an object in it, a[].b for those of each object in a list.
func fields(t reflect.Type, prefix string, skip map[reflect.Type]string) []string {
	var out []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		out = append(out, prefix+name)
		inner, suffix := f.Type, "."
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			if inner.Kind() == reflect.Slice {
				suffix = "[]."
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && skip[inner] == "" && inner != reflect.TypeFor[time.Time]() {
			out = append(out, fields(inner, prefix+name+suffix, skip)...)
		}
	}
	return out
}

// TestDocsNameEveryFrameAndField holds docs/protocol.md against the types.
func TestDocsNameEveryFrameAndField(t *testing.T) {
	text, _ := sections(t)
	shared := objects()
	types := map[string]reflect.Type{}
	for typ, title := range shared {
		types[title] = typ
	}
	blank := map[protocol.FrameType]reflect.Type{}
	for _, lines := range transcripts(t) {
		for _, l := range lines {
			if l.Frame == nil || l.Unknown {
				continue
			}
			e, err := l.decode()
			if err != nil {
				t.Fatal(err)
			}
			blank[e.Frame.FrameType()] = reflect.TypeOf(e.Frame).Elem()
		}
	}
	for _, ft := range frameTypes(t) {
		types[string(ft)] = blank[ft]
	}
	types["a single record"] = reflect.TypeFor[protocol.SingleRecord]()
	for title, typ := range types {
		section, ok := text[title]
		if !ok {
			t.Errorf("%s has no section %q", page, title)
			continue
		}
		for _, field := range fields(typ, "", shared) {
			if !strings.Contains(section, "`"+field+"`") {
				t.Errorf("%s: the section %q doesn't name the field %s", page, title, field)
			}
		}
	}
	for title := range text {
		if types[title] == nil {
			t.Errorf("%s describes %q, which the code doesn't have", page, title)
		}
	}
}

func TestDocsNameEveryCodeAndCapability(t *testing.T) {
	_, content := sections(t)
	for _, prefix := range []string{"Cap", "Reject", "Refuse", "CodeWorker", "Cause", "Log", "Backend", "Alive", "Close"} {
		for name, value := range constants(t, prefix) {
			if !strings.Contains(content, "`"+value+"`") {
				t.Errorf("%s doesn't name %s (%s)", page, value, name)
			}
		}
	}
	listed := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| .* \\|$").FindAllStringSubmatch(
		content[strings.Index(content, "## Capabilities"):strings.Index(content, "## From the agent")], -1)
	var known []string
	for _, c := range constants(t, "Cap") {
		known = append(known, c)
	}
	for _, m := range listed {
		if !slices.Contains(known, m[1]) {
			t.Errorf("%s lists the capability %s, which the code doesn't have", page, m[1])
		}
	}
	if len(listed) != len(known) {
		t.Errorf("%s lists %d capabilities, the code has %d", page, len(listed), len(known))
	}
}

// TestEveryFrameHasADirection: a type without an empty frame behind it would be
// passed over as unknown.
func TestEveryFrameHasADirection(t *testing.T) {
	for _, ft := range frameTypes(t) {
		raw, err := json.Marshal(map[string]any{"type": ft})
		if err != nil {
			t.Fatal(err)
		}
		known := 0
		for _, decode := range []func([]byte) (protocol.Envelope, error){protocol.DecodeFromAgent, protocol.DecodeFromServer} {
			e, err := decode(raw)
			if _, unknown := e.Frame.(*protocol.Unknown); err != nil || !unknown {
				known++
			}
		}
		want := 1
		if ft == protocol.TypePart {
			want = 2
		}
		if known != want {
			t.Errorf("%s is known in %d directions, not %d", ft, known, want)
		}
	}
}
