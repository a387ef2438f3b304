package archtest_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/conformance.md")

// TestConformanceIsTheDocument: docs/conformance.md says which tests bear each
// id of the contract. It is made from the tests, so a test that goes, or that
// comes to prove something more, shows up as a change of the document.
func TestConformanceIsTheDocument(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	groups := readGroups(t)
	bearers := map[string][]string{}
	for _, g := range groups {
		for _, id := range g.ids {
			bearers[id] = nil
		}
	}
	for _, b := range bearingTests(t, root) {
		for _, id := range idsOf(b) {
			if _, known := bearers[id]; !known {
				if looksLikeOurs(id, bearers) {
					t.Errorf("%s bears %s, which testdata/ids.txt doesn't list", b.place, id)
				}
				continue
			}
			if !slices.Contains(bearers[id], b.place) {
				bearers[id] = append(bearers[id], b.place)
			}
		}
	}
	path := filepath.Join(root, "docs", "conformance.md")
	if *update {
		if err := os.WriteFile(path, []byte(conformance(groups, bearers)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := readDoc(t, "docs/conformance.md"); got != conformance(groups, bearers) {
		t.Error("docs/conformance.md is not what the tests say: run 'make gen' and commit it")
	}
}

// group is one part of the contract with the ids of its statements.
type group struct {
	name string
	ids  []string
}

func readGroups(t *testing.T) []group {
	t.Helper()
	content, err := os.ReadFile("testdata/ids.txt")
	if err != nil {
		t.Fatal(err)
	}
	var groups []group
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case line[0] == '[':
			groups = append(groups, group{name: strings.Trim(line, "[]")})
		default:
			last := &groups[len(groups)-1]
			last.ids = append(last.ids, line)
		}
	}
	return groups
}

// bearer is one test with the texts that may name ids.
type bearer struct {
	// place is file:TestName.
	place, name string
	// prose is comments and docstrings, literals what stands in strings.
	prose, literals string
}

var (
	// numbered are SCHED-05 and W-04, dotted A.9, A.9.7 and C.11.
	numbered = regexp.MustCompile(`\b[A-Z][A-Z0-9]{0,5}-\d{2}\b`)
	dotted   = regexp.MustCompile(`\b[A-F]\.\d{1,2}(?:\.\d{1,2})?\b`)
	// fault is a case from the field: C1.
	fault = regexp.MustCompile(`\b[A-Z]\d\b`)
	// lone is part E, which has no numbers: a letter in the list of ids that a
	// line begins with, since letters alone stand for much else.
	lone = regexp.MustCompile(`(?m)^\s*(?:Proves )?(?:[A-Z][\w.-]*, )*E(?:, [A-Z][\w.-]*)*[:.]`)
	// named is what a test's name begins with: TestC1_, TestR03_, TestCAT02_.
	named = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark|test_)([A-Z]+)(\d+)_`)
)

func idsOf(b bearer) []string {
	ids := slices.Concat(
		numbered.FindAllString(b.prose, -1), dotted.FindAllString(b.prose, -1), fault.FindAllString(b.prose, -1),
		numbered.FindAllString(b.literals, -1), dotted.FindAllString(b.literals, -1))
	if lone.MatchString(b.prose) {
		ids = append(ids, "E")
	}
	if m := named.FindStringSubmatch(b.name); m != nil {
		if len(m[1]+m[2]) == 2 {
			ids = append(ids, m[1]+m[2])
		} else {
			ids = append(ids, fmt.Sprintf("%s-%02s", m[1], m[2]))
		}
	}
	return ids
}

// looksLikeOurs says whether an id that nobody knows has the letters of one
// that is known, and so is a slip of the pen.
func looksLikeOurs(id string, known map[string][]string) bool {
	letters, _, ok := strings.Cut(id, "-")
	if !ok {
		return false
	}
	for k := range known {
		if strings.HasPrefix(k, letters+"-") {
			return true
		}
	}
	return false
}

func bearingTests(t *testing.T, root string) []bearer {
	t.Helper()
	var all []bearer
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if slices.Contains(untracked, name) || name == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case rel == "internal/archtest/conformance_test.go":
			// Its ids are examples.
		case strings.HasSuffix(name, "_test.go"):
			found, err := goTests(path, rel)
			all = append(all, found...)
			return err
		case strings.HasPrefix(name, "test_") && strings.HasSuffix(name, ".py"):
			content, err := os.ReadFile(path)
			all = append(all, pythonTests(string(content), rel)...)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b bearer) int { return strings.Compare(a.place, b.place) })
	return all
}

func goTests(path, rel string) ([]bearer, error) {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", rel, err)
	}
	var all []bearer
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !testName.MatchString(fn.Name.Name) {
			continue
		}
		b := bearer{place: rel + ":" + fn.Name.Name, name: fn.Name.Name, prose: fn.Doc.Text()}
		for _, c := range f.Comments {
			if c.Pos() > fn.Pos() && c.End() < fn.End() {
				b.prose += c.Text()
			}
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				b.literals += lit.Value + "\n"
			}
			return true
		})
		all = append(all, b)
	}
	return all, nil
}

var testName = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)[A-Z]`)

var (
	pythonTest = regexp.MustCompile(`^(\s*)def (test_\w+)\(`)
	pythonDoc  = regexp.MustCompile(`(?s)^\s*def [^:]*?\)(?: -> \w+)?:\s*"""(.*?)"""`)
	pythonNote = regexp.MustCompile(`(?m)(?:^|\s)# (.*)$`)
)

// pythonTests reads the functions of a module by their indentation: their
// docstrings and the comments inside.
func pythonTests(content, rel string) []bearer {
	lines := strings.SplitAfter(content, "\n")
	var all []bearer
	for i := range lines {
		m := pythonTest.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		end := i + 1
		for end < len(lines) && (strings.TrimSpace(lines[end]) == "" || indent(lines[end]) > len(m[1]) || strings.HasPrefix(lines[end], m[1]+")")) {
			end++
		}
		body := strings.Join(lines[i:end], "")
		b := bearer{place: rel + ":" + m[2], name: m[2]}
		if doc := pythonDoc.FindStringSubmatch(body); doc != nil {
			b.prose = doc[1] + "\n"
		}
		for _, note := range pythonNote.FindAllStringSubmatch(body, -1) {
			b.prose += note[1] + "\n"
		}
		all = append(all, b)
	}
	return all
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// TestIDsAreFoundWhereTestsBearThem: a scanner that overlooks a place would
// leave a hole in the document that nobody sees.
func TestIDsAreFoundWhereTestsBearThem(t *testing.T) {
	module := strings.Join([]string{
		"def test_seeds(", "    tmp_path,", "):", `    """Proves C.11, E."""`, "    assert run() == 1  # EVT-09", "",
		"# A.1: of no test.", "class TestSums:", "    def test_sum(self):", "        # D.4: a sum", "        assert 1", "",
		"def helper():", "    # A.2: of no test either", "    pass", "",
	}, "\n")
	got := map[string][]string{}
	for _, b := range pythonTests(module, "t.py") {
		got[b.place] = idsOf(b)
	}
	goFile := filepath.Join(t.TempDir(), "x_test.go")
	source := strings.Join([]string{
		"package x", "// SCHED-05: heads.", "func TestC1_Stops(t *testing.T) {", "\t// A.9.7: a wire", "\tt.Run(\"SET-03: reserves\", nil)", "}",
		"// W-04 is not here.", "func helper() {}", "func TestCAT02_Hash(t *testing.T) {}", "",
	}, "\n")
	if err := os.WriteFile(goFile, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := goTests(goFile, "x_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range found {
		got[b.place] = idsOf(b)
	}
	want := map[string][]string{
		"t.py:test_seeds":          {"EVT-09", "C.11", "E"},
		"t.py:test_sum":            {"D.4"},
		"x_test.go:TestC1_Stops":   {"SCHED-05", "A.9.7", "SET-03", "C1"},
		"x_test.go:TestCAT02_Hash": {"CAT-02"},
	}
	if !maps.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func conformance(groups []group, bearers map[string][]string) string {
	var borne, total int
	for _, g := range groups {
		for _, id := range g.ids {
			total++
			if len(bearers[id]) > 0 {
				borne++
			}
		}
	}
	var b strings.Builder
	b.WriteString("# Which tests prove what\n\n")
	b.WriteString("Generated from the tests by `make gen`. The ids are those of the contract: A to F are the rules of graph files, nodes, execution, runs, queue and sweeps, with a third number for the kind of a finding; G are the statements about workers; then come the specification and the faults that users of such tools met in the field. ")
	b.WriteString("A test bears an id when its name, its comment or docstring, a comment inside it or, in Go, the name of a case says so.\n\n")
	fmt.Fprintf(&b, "Of %d ids, %d are borne by a test.\n", total, borne)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n", g.name)
		var missing []string
		header := false
		for _, id := range g.ids {
			if len(bearers[id]) == 0 {
				missing = append(missing, id)
				continue
			}
			if !header {
				b.WriteString("| id | tests |\n|---|---|\n")
				header = true
			}
			fmt.Fprintf(&b, "| %s | %s |\n", id, strings.Join(bearers[id], "<br>"))
		}
		if len(missing) > 0 {
			if header {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "Not borne by a test yet: %s.\n", strings.Join(missing, ", "))
		}
	}
	return b.String()
}
