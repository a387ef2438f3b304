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

// TestDocsNameEverySettingAndCode: a page that lacks one tells people that it
// doesn't exist.
func TestDocsNameEverySettingAndCode(t *testing.T) {
	operating, troubleshooting := readDoc(t, "docs/operating.md"), readDoc(t, "docs/troubleshooting.md")
	for _, s := range config.Settings() {
		if !strings.Contains(operating, "| "+s.Name+" |") {
			t.Errorf("docs/operating.md has no row for the setting %s", s.Name)
		}
	}
	var codes []string
	codes = append(codes, constants(t, "internal/api", "Code", "")...)
	codes = append(codes, constants(t, "internal/run", "EndClass", "")...)
	codes = append(codes, constants(t, "internal/run", "", "Reason")...)
	codes = append(codes, constants(t, "internal/shim", "", "Code")...)
	if len(codes) < 20 {
		t.Fatalf("found %d codes; did the constants move?", len(codes))
	}
	for _, code := range codes {
		if !strings.Contains(troubleshooting, "`"+code+"`") {
			t.Errorf("docs/troubleshooting.md says nothing of the code %s", code)
		}
	}
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
