package archtest_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestOnePackageComment: the comment says what the package is for and what it
// must not know; two of them contradict each other sooner or later.
func TestOnePackageComment(t *testing.T) {
	packages := loadPackages(t)
	for _, path := range sortedPaths(packages) {
		p := packages[path]
		files := p.files(t, false)
		if len(files) == 0 {
			files = p.files(t, true)
		}
		var with []string
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Errorf("%s does not parse: %v", path, err)
				continue
			}
			if f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != "" {
				with = append(with, filepath.Base(file))
			}
		}
		if len(with) != 1 {
			t.Errorf("package %s has %d package comments %v; it needs exactly one", path, len(with), with)
		}
	}
}

// TestPureCoreHasNoClockAndNoGoroutines: what the import rules can't see.
func TestPureCoreHasNoClockAndNoGoroutines(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	packages := loadPackages(t)
	for _, path := range sortedPaths(packages) {
		if !matchesAny(path, domain) && !matchesAny(path, contracts) {
			continue
		}
		for _, file := range packages[path].files(t, false) {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Errorf("%s does not parse: %v", path, err)
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s starts a goroutine: a pure package leaves that to its caller", place(set, path, n))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
						t.Errorf("%s uses time.%s: a pure package takes the time as an argument", place(set, path, n), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func place(set *token.FileSet, path string, n ast.Node) string {
	p := set.Position(n.Pos())
	return path + "/" + filepath.Base(p.Filename) + ":" + strconv.Itoa(p.Line)
}

const (
	maxFileLines    = 500
	maxPackageLines = 1500
)

// roomy packages hold many small files of one kind: a file a table, a route,
// a screen, a command.
var roomy = []string{"internal/store", "internal/server/httpapi", "internal/tui/screen", "internal/cli"}

func TestFilesAndPackagesStaySmall(t *testing.T) {
	packages := loadPackages(t)
	for _, path := range sortedPaths(packages) {
		total := 0
		for _, file := range packages[path].files(t, false) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if generated(content) {
				continue
			}
			if n := bytes.Count(content, []byte("\n")); n > maxFileLines {
				t.Errorf("%s/%s has %d lines, the limit is %d: split it by what its parts are for", path, filepath.Base(file), n, maxFileLines)
			}
			total += codeLines(content)
		}
		if total > maxPackageLines && !matchesAny(path, roomy) {
			t.Errorf("package %s has %d lines of code, the limit is %d: it does more than one thing", path, total, maxPackageLines)
		}
	}
}

// codeLines counts lines that are neither blank nor only a comment, so that
// nobody saves on those.
func codeLines(content []byte) int {
	n := 0
	for line := range bytes.Lines(content) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			n++
		}
	}
	return n
}

var generatedLine = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func generated(content []byte) bool { return generatedLine.Match(content) }

// TestNoPathsOfOneMachine: a path of somebody's own machine in a file is a
// test that passes there alone, or a name that was not meant to be published.
func TestNoPathsOfOneMachine(t *testing.T) {
	pattern := regexp.MustCompile(`(?:^|[^\w.~}/*-])/(home|root|work|Users)/([\w.-]*)`)
	madeUp := []string{"ada", "x"}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(untracked, rel) || d.Name() == "testdata" || d.Name() == "__pycache__" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.IndexByte(content, 0) >= 0 {
			return nil
		}
		for i, line := range strings.Split(string(content), "\n") {
			for _, m := range pattern.FindAllStringSubmatch(line, -1) {
				if !slices.Contains(madeUp, m[2]) {
					t.Errorf("%s:%d names a path of one machine (/%s/%s): use a relative one, t.TempDir, or the home of ada, whom nobody knows", rel, i+1, m[1], m[2])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// untracked folders hold what was built or fetched, not the project's
// own files.
var untracked = []string{".git", "bin", ".tools", ".venv", ".test"}

// TestNoPatternIsCompiledAtStart: every start of the program pays for what
// packages do when they are initialised, and a shim is started for each run.
// One pattern with Unicode classes was a third of a shim's start.
func TestNoPatternIsCompiledAtStart(t *testing.T) {
	packages := loadPackages(t)
	for _, path := range sortedPaths(packages) {
		for _, file := range packages[path].files(t, false) {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Errorf("%s does not parse: %v", path, err)
				continue
			}
			for _, d := range f.Decls {
				decl, ok := d.(*ast.GenDecl)
				if !ok || decl.Tok != token.VAR {
					continue
				}
				ast.Inspect(decl, func(n ast.Node) bool {
					if _, inside := n.(*ast.FuncLit); inside {
						return false
					}
					if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "MustCompile") {
						t.Errorf("%s compiles a pattern when the program starts; compile it where it is used, or look at the text by hand", set.Position(n.Pos()))
					}
					return true
				})
			}
		}
	}
}
