package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
)

const module = "cdui/"

// pkg is one package of the module, as seen on every platform together, with
// cgo and without.
type pkg struct {
	// path is relative to the module: internal/run.
	path    string
	name    string
	dir     string
	imports []string
	// testImports are those of its tests alone.
	testImports []string
}

// files gives the package's Go files of every platform; tests says whether
// those that are test files are wanted, or the others.
func (p pkg) files(t *testing.T, tests bool) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(p.dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(f string) bool { return strings.HasSuffix(f, "_test.go") != tests })
}

var load = sync.OnceValues(func() (map[string]*pkg, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	packages := map[string]*pkg{}
	for _, build := range [][]string{{"GOOS=linux", "CGO_ENABLED=0"}, {"GOOS=linux", "CGO_ENABLED=1"}, {"GOOS=darwin", "CGO_ENABLED=0"}} {
		cmd := exec.Command("go", "list", "-e", "-buildvcs=false", "-json=ImportPath,Name,Imports,TestImports,XTestImports", "./...")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), build...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, errors.New("go list: " + stderr.String())
		}
		if err := merge(packages, root, out); err != nil {
			return nil, err
		}
	}
	return packages, nil
})

func merge(packages map[string]*pkg, root string, list []byte) error {
	for dec := json.NewDecoder(bytes.NewReader(list)); ; {
		var l struct {
			ImportPath, Name                   string
			Imports, TestImports, XTestImports []string
		}
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		path := strings.TrimPrefix(l.ImportPath, module)
		p := packages[path]
		if p == nil {
			p = &pkg{path: path, name: l.Name, dir: filepath.Join(root, filepath.FromSlash(path))}
			packages[path] = p
		}
		p.imports = union(p.imports, l.Imports)
		p.testImports = union(p.testImports, slices.Concat(l.TestImports, l.XTestImports))
	}
}

func union(have, more []string) []string {
	for _, path := range more {
		path = strings.TrimPrefix(path, module)
		if !slices.Contains(have, path) {
			have = append(have, path)
		}
	}
	return have
}

// loadPackages gives the module's packages by path.
func loadPackages(t *testing.T) map[string]*pkg {
	t.Helper()
	packages, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) == 0 {
		t.Fatal("go list found no package")
	}
	return packages
}

func sortedPaths(packages map[string]*pkg) []string {
	paths := make([]string, 0, len(packages))
	for p := range packages {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	return paths
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the test")
		}
		dir = parent
	}
}
