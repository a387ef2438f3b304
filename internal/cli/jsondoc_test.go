package cli

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cdui/internal/cli/clitest"
	"cdui/internal/cli/env"
	"cdui/internal/device"
)

const jsonDocument = "../../docs/json.md"

// The types that aren't what their Go kind says.
var written = map[reflect.Type]string{
	reflect.TypeFor[time.Time]():       "time",
	reflect.TypeFor[json.RawMessage](): "any JSON",
	reflect.TypeFor[device.Health]():   `"ok", or an object with code and text`,
	reflect.TypeFor[any]():             "any JSON",
}

// field is a member of an object as it is documented.
type field struct {
	name     string
	typ      reflect.Type
	optional bool
	null     bool
	// owner and goName say where its comment stands.
	owner  reflect.Type
	goName string
}

// fieldsOf lists the members of a struct as encoding/json writes them.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, opts, _ := strings.Cut(tag, ",")
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			out = append(out, fieldsOf(inner)...)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		typ, null := f.Type, false
		for typ.Kind() == reflect.Pointer {
			typ, null = typ.Elem(), true
		}
		out = append(out, field{name: name, typ: typ, null: null, optional: strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero"), owner: t, goName: f.Name})
	}
	return out
}

// source is what the Go source says of types: comments and constants.
type source struct {
	fset     *token.FileSet
	types    map[string]string // pkg.Type
	comments map[string]string // pkg.Type.Field
	values   map[string][]string
	read     map[string]bool
	glossary map[string]string
	used     map[string]bool
}

func newSource(t *testing.T) *source {
	t.Helper()
	s := &source{fset: token.NewFileSet(), types: map[string]string{}, comments: map[string]string{}, values: map[string][]string{}, read: map[string]bool{}, glossary: map[string]string{}, used: map[string]bool{}}
	raw, err := os.ReadFile(filepath.Join("testdata", "fields.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
		if line == "" {
			continue
		}
		name, meaning, ok := strings.Cut(line, "\t")
		if !ok || s.glossary[name] != "" {
			t.Fatalf("testdata/fields.txt: %q is no name, tab and meaning, or there twice", line)
		}
		s.glossary[name] = meaning
	}
	return s
}

// look reads the package of a type.
func (s *source) look(t *testing.T, pkg string) {
	t.Helper()
	if s.read[pkg] || !strings.HasPrefix(pkg, "cdui/") {
		return
	}
	s.read[pkg] = true
	files, err := filepath.Glob(filepath.Join("..", "..", strings.TrimPrefix(pkg, "cdui/"), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(s.fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				s.declared(pkg, gen, spec)
			}
		}
	}
}

func (s *source) declared(pkg string, gen *ast.GenDecl, spec ast.Spec) {
	switch d := spec.(type) {
	case *ast.TypeSpec:
		doc := d.Doc
		if doc == nil {
			doc = gen.Doc
		}
		s.types[pkg+"."+d.Name.Name] = flat(doc.Text())
		st, ok := d.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range st.Fields.List {
			for _, n := range f.Names {
				s.comments[pkg+"."+d.Name.Name+"."+n.Name] = flat(cmp.Or(f.Doc.Text(), f.Comment.Text()))
			}
		}
	case *ast.ValueSpec:
		typ, ok := d.Type.(*ast.Ident)
		if !ok || gen.Tok != token.CONST {
			return
		}
		for _, v := range d.Values {
			if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING && lit.Value != `""` {
				s.values[pkg+"."+typ.Name] = append(s.values[pkg+"."+typ.Name], strings.Trim(lit.Value, `"`))
			}
		}
	}
}

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// inJSON names fields as JSON does in a comment that names them as Go does, and
// leaves out that a field "is" something.
func inJSON(comment, goName string, fields []field) string {
	if goName != "" {
		comment = regexp.MustCompile(`^`+goName+`(?: (?:is|are) (a|an|the|what|who|where|when|why|how|whether|one|all|every|direct|local|respect|none)\b|: (\w)| (tells|says|describes|holds|has|gives|lists|maps|compares|names|counts)\b)`).ReplaceAllString(comment, "$1$2$3")
	}
	for _, f := range fields {
		if f.goName != f.name {
			comment = regexp.MustCompile(`\b`+f.goName+`\b`).ReplaceAllString(comment, "`"+f.name+"`")
		}
	}
	if comment == "" {
		return ""
	}
	return strings.TrimSuffix(title(comment), ".")
}

func (s *source) meaning(t *testing.T, f field, fields []field) string {
	t.Helper()
	s.look(t, f.owner.PkgPath())
	key := f.owner.Name() + "." + f.name
	for _, name := range []string{key, f.name} {
		if m := s.glossary[name]; m != "" {
			if name == key || s.comments[f.owner.PkgPath()+"."+f.owner.Name()+"."+f.goName] == "" {
				s.used[name] = true
				return m
			}
		}
	}
	return inJSON(s.comments[f.owner.PkgPath()+"."+f.owner.Name()+"."+f.goName], f.goName, fields)
}

// book is all documents.
type book struct {
	src   *source
	names map[reflect.Type]string
	order []reflect.Type
}

// name gives the heading of a struct, "" for what is none.
func (b *book) name(t reflect.Type) string {
	if name, ok := b.names[t]; ok {
		return name
	}
	name := title(t.Name())
	if name == "Status" || slices.Contains(slices.Collect(maps.Values(b.names)), name) {
		name = title(filepath.Base(t.PkgPath())) + name
	}
	b.names[t] = name
	b.order = append(b.order, t)
	return name
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// typeText says what a value is.
func (b *book) typeText(t *testing.T, typ reflect.Type) string {
	t.Helper()
	if w, ok := written[typ]; ok {
		return w
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return b.typeText(t, typ.Elem())
	case reflect.Struct:
		name := b.name(typ)
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case reflect.Slice, reflect.Array:
		return "list of " + b.typeText(t, typ.Elem())
	case reflect.Map:
		return "object of " + b.typeText(t, typ.Elem()) + " by name"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		b.src.look(t, typ.PkgPath())
		if vs := b.src.values[typ.PkgPath()+"."+typ.Name()]; len(vs) > 0 {
			return "text: " + strings.Join(vs, ", ")
		}
		return "text"
	}
	return "number"
}

func (f field) nullable(meaning string) bool {
	return f.null || f.typ.Kind() != reflect.Struct && f.typ != reflect.TypeFor[json.RawMessage]() && regexp.MustCompile(`\bnull\b`).MatchString(meaning)
}

// documented is a command that prints documents, by its path.
func documented(root *cobra.Command) map[string][]env.Document {
	out := map[string][]env.Document{}
	each(root, func(cmd *cobra.Command) {
		if docs := env.Documents(cmd.Flags()); docs != nil && !cmd.Hidden {
			out[cmd.CommandPath()] = docs
		}
	})
	return out
}

// write makes the document.
func (b *book) write(t *testing.T, commands map[string][]env.Document) string {
	t.Helper()
	var out strings.Builder
	out.WriteString(`# What the commands print with --json

This page is made from the program (` + "`make gen`" + `), and tests hold it against what the commands print.
Names and types here are stable: a field is added now and then, but none is renamed, removed or given another
meaning within a major version. So read the fields that you know and pass over the others.

A command prints one document; those that print lines print one document a line, as they come (NDJSON), and so do lists
with --watch, one for each change. Times are RFC 3339 in UTC. A field is always there unless it says "when set". What isn't
known or doesn't apply is null where the type says "or null", and else empty text, 0 or an empty list.
Exit codes are the same with and without --json; errors go to stderr as text.

## Commands

| command | prints |
|---|---|
`)
	for _, path := range slices.Sorted(maps.Keys(commands)) {
		var parts []string
		for _, d := range commands[path] {
			text := b.typeText(t, d.Of)
			if d.Lines {
				text += ", a line each"
			}
			if d.When != "" {
				text += " " + d.When
			}
			parts = append(parts, text)
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", path, strings.Join(parts, "; "))
	}
	out.WriteString("\n## Documents\n")
	for i := 0; i < len(b.order); i++ {
		typ := b.order[i]
		b.src.look(t, typ.PkgPath())
		fields := fieldsOf(typ)
		fmt.Fprintf(&out, "\n### %s\n\n", b.names[typ])
		if doc := b.src.types[typ.PkgPath()+"."+typ.Name()]; doc != "" {
			fmt.Fprintf(&out, "%s.\n\n", inJSON(doc, typ.Name(), fields))
		}
		out.WriteString("| field | type | meaning |\n|---|---|---|\n")
		for _, f := range fields {
			meaning := b.src.meaning(t, f, fields)
			if meaning == "" {
				t.Errorf("%s.%s has no meaning: comment the field %s, or give the name a line in internal/cli/testdata/fields.txt", typ, f.name, f.goName)
			}
			text := b.typeText(t, f.typ)
			if f.nullable(meaning) {
				text += " or null"
			}
			if f.optional {
				text += ", when set"
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", f.name, text, strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(meaning))
		}
	}
	return out.String()
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

func newBook(t *testing.T) *book {
	t.Helper()
	return &book{src: newSource(t), names: map[reflect.Type]string{}}
}

// The fields of every --json document are documented.
func TestJSONIsTheDocument(t *testing.T) { //nolint:paralleltest // the second reads what the first writes with -update
	b := newBook(t)
	got := b.write(t, documented(newRoot(clitest.New(t, 0).Env)))
	for name := range b.src.glossary {
		if !b.src.used[name] {
			t.Errorf("testdata/fields.txt: no document has %q without a comment of its own", name)
		}
	}
	if updating() {
		if err := os.WriteFile(jsonDocument, []byte(got), 0o644); err != nil { //nolint:gosec // checked in
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(jsonDocument)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Error("docs/json.md is out of date: run 'make gen' and commit it")
	}
}

// shape is a document as the golden files hold it: names, types and what may be
// missing or null. What a text may be is left out, since that may grow.
func (b *book) shape(t *testing.T, typ reflect.Type) any {
	t.Helper()
	if _, ok := written[typ]; ok {
		return b.typeText(t, typ)
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return b.shape(t, typ.Elem())
	case reflect.Struct:
		out, fields := map[string]any{}, fieldsOf(typ)
		for _, f := range fields {
			name := f.name
			if f.nullable(b.src.meaning(t, f, fields)) {
				name += " or null"
			}
			if f.optional {
				name += ", when set"
			}
			out[name] = b.shape(t, f.typ)
		}
		return out
	case reflect.Slice, reflect.Array:
		return []any{b.shape(t, typ.Elem())}
	case reflect.Map:
		return map[string]any{"*": b.shape(t, typ.Elem())}
	case reflect.String:
		return "text"
	}
	return b.typeText(t, typ)
}

// lost lists what a shape had and a new one hasn't got.
func lost(path string, was, is any) []string {
	var out []string
	switch was := was.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(was)) {
			if _, has := is[name]; !ok || !has {
				out = append(out, path+"."+name)
				continue
			}
			out = append(out, lost(path+"."+name, was[name], is[name])...)
		}
	case []any:
		if is, ok := is.([]any); ok && len(is) == len(was) {
			return lost(path+"[]", was[0], is[0])
		}
		return []string{path}
	default:
		if was != is {
			return []string{fmt.Sprintf("%s: %v", path, was)}
		}
	}
	return out
}

// Proves 3: --json has stable names. What a golden file holds can't be written
// over: a field that goes or changes has to be taken out of it by hand.
func TestJSONIsStable(t *testing.T) { //nolint:paralleltest // the second reads what the first writes with -update
	b := newBook(t)
	names := map[string]bool{}
	kept := map[string]bool{}
	for path, docs := range documented(newRoot(clitest.New(t, 0).Env)) {
		shapes := make([]any, len(docs))
		for i, d := range docs {
			shapes[i] = b.shape(t, d.Of)
		}
		raw, err := json.MarshalIndent(shapes, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, '\n')
		file := filepath.Join("testdata", "json", strings.ReplaceAll(strings.TrimPrefix(path, "cdui "), " ", "-")+".json")
		kept[file] = true
		golden, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err == nil {
			var was, is any
			for to, from := range map[*any][]byte{&was: golden, &is: raw} {
				if err := json.Unmarshal(from, to); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
			}
			if gone := lost(path, was, is); len(gone) > 0 {
				t.Errorf("scripts rely on what %s --json prints, and this is no longer there:\n  %s", path, strings.Join(gone, "\n  "))
				continue
			}
		}
		if updating() {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // checked in
				t.Fatal(err)
			}
			if err := os.WriteFile(file, raw, 0o644); err != nil { //nolint:gosec // checked in
				t.Fatal(err)
			}
		} else if string(golden) != string(raw) {
			t.Errorf("%s lacks what is new: run 'make gen' and commit it", file)
		}
		for _, m := range regexp.MustCompile(`"([^"]+)":`).FindAllStringSubmatch(string(raw), -1) {
			name, _, _ := strings.Cut(strings.TrimSuffix(m[1], ", when set"), " or null")
			names[name] = name != "*"
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "json", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !kept[file] {
			t.Errorf("%s is of a command that prints no document any more", file)
		}
	}
	page, err := os.ReadFile(jsonDocument)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^` ]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		told[m[1]] = true
		if !names[m[1]] {
			t.Errorf("docs/json.md tells of %s, which no golden file has", m[1])
		}
	}
	for name, real := range names {
		if real && !told[name] {
			t.Errorf("docs/json.md doesn't tell of %s", name)
		}
	}
}
