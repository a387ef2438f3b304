package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cdui/internal/config"
)

// TestDocsNameEverySetting: a page that lacks one tells people that it doesn't
// exist.
func TestDocsNameEverySetting(t *testing.T) {
	operating := readDoc(t, "docs/operating.md")
	for _, s := range config.Settings() {
		if !strings.Contains(operating, "| "+s.Name+" |") {
			t.Errorf("docs/operating.md has no row for the setting %s", s.Name)
		}
	}
}

// TestDocsTellWhatEveryCodeMeans: docs/troubleshooting.md has a row for each
// stable code that people meet, and for no other.
func TestDocsTellWhatEveryCodeMeans(t *testing.T) {
	codes := map[string]bool{}
	for _, from := range []struct{ path, typ, prefix string }{
		{"internal/api", "Code", ""},
		{"internal/run", "EndClass", ""},
		{"internal/run", "", "Reason"},
		{"internal/shim", "", "Code"},
		{"internal/shim/launch", "", "Code"},
		{"internal/protocol", "", "Reject"},
		{"internal/protocol", "", "Refuse"},
		{"internal/protocol", "", "Code"},
		{"internal/protocol", "", "Cause"},
		{"internal/protocol", "", "Log"},
		{"internal/device", "", "Unhealthy"},
		{"internal/graph/finding", "", "Code"},
		{"internal/graph/function", "", "Code"},
		{"internal/server/httpapi", "", "code"},
	} {
		found := constants(t, from.path, from.typ, from.prefix)
		if len(found) == 0 {
			t.Errorf("%s has no codes %s%s…; did the constants move?", from.path, from.typ, from.prefix)
		}
		for _, code := range found {
			codes[code] = true
		}
	}
	// What is written where it is said: warnings in a run, problems, and what is
	// wrong with an interpreter.
	for _, said := range []struct{ folder, suffix, pattern string }{
		{"internal/shim", ".go", `\.warn\("([a-z_]+)"`},
		{"internal/server", ".go", `run\.Warning\("([a-z_]+)"`},
		{"internal/server", ".go", `api\.Problem\{Code: "([a-z_]+)"`},
		{"runtime/cdui", ".py", `\.warn\(\s*"([a-z_]+)"`},
		{"runtime/cdui", ".py", `\bfault\(\s*"([a-z_]+)"`},
	} {
		found := matches(t, said.folder, said.suffix, said.pattern)
		if len(found) == 0 {
			t.Errorf("nothing in %s matches %s; is it said otherwise now?", said.folder, said.pattern)
		}
		for _, code := range found {
			codes[code] = true
		}
	}

	told := map[string]bool{}
	word := regexp.MustCompile("`([a-z0-9_]+)`")
	for line := range strings.Lines(readDoc(t, "docs/troubleshooting.md")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		for _, m := range word.FindAllStringSubmatch(cells[1], -1) {
			told[m[1]] = strings.TrimSpace(cells[2]) != ""
			if !codes[m[1]] {
				t.Errorf("docs/troubleshooting.md tells of %s, which nothing says", m[1])
			}
		}
	}
	for code := range codes {
		if !told[code] {
			t.Errorf("docs/troubleshooting.md says nothing of the code %s", code)
		}
	}
}

// matches gives what a pattern's group finds in the files below a folder, tests
// left out.
func matches(t *testing.T, folder, suffix, pattern string) []string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	wanted := regexp.MustCompile(pattern)
	var out []string
	err = filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range wanted.FindAllStringSubmatch(string(content), -1) {
			out = append(out, m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// constants gives the string constants of a package that have the type, or,
// where typ is empty, no type and the prefix.
func constants(t *testing.T, path, typ, prefix string) []string {
	t.Helper()
	p := loadPackages(t)[path]
	if p == nil {
		t.Fatalf("no package %s", path)
	}
	var values []string
	for _, file := range p.files(t, false) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				ident, _ := v.Type.(*ast.Ident)
				if (ident == nil) != (typ == "") || ident != nil && ident.Name != typ ||
					!strings.HasPrefix(v.Names[0].Name, prefix) || len(v.Values) == 0 {
					continue
				}
				if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					values = append(values, strings.Trim(lit.Value, `"`))
				}
			}
		}
	}
	return values
}

// TestDocsNameEveryDependency: each module that our code imports has a row that
// says why it is here, and each row is of a module that is still imported.
func TestDocsNameEveryDependency(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| ([\w.-]+\.[\w-]+/\S+) \|`)
	used := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(readDoc(t, "docs/DEPENDENCIES.md"), -1) {
		used[m[1]] = false
	}
	packages := loadPackages(t)
	for _, path := range sortedPaths(packages) {
		p := packages[path]
		for _, imported := range slices.Concat(p.imports, p.testImports) {
			host, _, _ := strings.Cut(imported, "/")
			if !strings.Contains(host, ".") {
				continue
			}
			known := false
			for m := range used {
				if imported == m || strings.HasPrefix(imported, m+"/") {
					used[m], known = true, true
				}
			}
			if !known {
				t.Errorf("%s imports %s, which docs/DEPENDENCIES.md doesn't name", path, imported)
			}
		}
	}
	for m, is := range used {
		if !is {
			t.Errorf("docs/DEPENDENCIES.md names %s, which nothing imports", m)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)

// TestDocsLinkToFilesThatAreThere checks the links from one document to
// another.
func TestDocsLinkToFilesThatAreThere(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range documents(t, root) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(content), -1) {
			target := m[1]
			if strings.Contains(target, ":") || strings.Contains(target, "…") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", strings.TrimPrefix(file, root+"/"), target)
			}
		}
	}
}

func documents(t *testing.T, root string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if strings.HasSuffix(path, ".md") && !d.IsDir() {
				files = append(files, path)
			}
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return files
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
