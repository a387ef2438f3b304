package fingerprint_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"cdui/internal/agent/fingerprint"
	"cdui/internal/pyruntime"
)

func collect(t *testing.T, c fingerprint.Config) fingerprint.Facts {
	t.Helper()
	c.Logger = slog.New(slog.DiscardHandler)
	return fingerprint.Collect(t.Context(), c)
}

// CAT-01, CAT-03: what hello says of the machine and its node types.
func TestFactsOfThisMachine(t *testing.T) {
	t.Parallel()
	f := collect(t, fingerprint.Config{Environ: os.Environ(), NodesDir: t.TempDir()})
	if f.Platform.OS != runtime.GOOS || f.Cores < 1 || f.CDUI == "" || f.MachineID == "" {
		t.Errorf("got %+v", f)
	}
	if f.MemoryMiB == nil || *f.MemoryMiB < 64 {
		t.Errorf("memory %v", f.MemoryMiB)
	}
	if len(f.Catalog.Types) == 0 || len(f.Catalog.Hash) != 64 {
		t.Errorf("catalogue of %d types, hash %q", len(f.Catalog.Types), f.Catalog.Hash)
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
}

// TestAMissingPythonIsAFact: K-03: the agent starts without one and says so.
func TestAMissingPythonIsAFact(t *testing.T) {
	t.Parallel()
	f := collect(t, fingerprint.Config{Python: filepath.Join(t.TempDir(), "python"), NodesDir: t.TempDir()})
	if f.Python.Imports || !strings.Contains(f.Python.Problem, "--python") || f.Catalog.Hash == "" {
		t.Errorf("got %+v", f.Python)
	}
}

// K-03: a helper imports torch, and that counts.
func TestTorchCountsOnceItImports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	answer := func(name, line string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\ncase \"$2\" in \"import sys; print(sys.executable)\") echo "+path+";; *) echo '"+line+"';; esac\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, line string
		imports    bool
	}{
		{"good", `{"version":"3.11.2","torch":"2.1.0","cuda":false}`, true},
		{"broken", `{"version":"3.11.2","torch":"2.1.0","cuda":false,"faults":[{"code":"torch_broken","text":"x"}]}`, false},
		{"without", `{"version":"3.11.2"}`, false},
		{"notasked", `{"version":"3.11.2","torch":"2.1.0"}`, false},
	} {
		f := collect(t, fingerprint.Config{Python: answer(c.name, c.line), NodesDir: t.TempDir()})
		if f.Python.Imports != c.imports || f.Python.Version != "3.11.2" {
			t.Errorf("%s: %+v", c.name, f.Python)
		}
	}
}

func TestUserTypesCountInTheCatalogue(t *testing.T) {
	t.Parallel()
	python, err := pyruntime.Find(t.Context(), "", os.Environ())
	if err != nil {
		t.Skipf("no Python here: %v", err)
	}
	root, err := pyruntime.Extract(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	nodes := t.TempDir()
	c := fingerprint.Config{Python: python, Environ: os.Environ(), Runtime: root, NodesDir: nodes}
	before := collect(t, c)
	if err := os.WriteFile(filepath.Join(nodes, "broken.py"), []byte("syntax error here"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, c); got.Catalog.Hash != before.Catalog.Hash {
		t.Error("a broken file changes the catalogue")
	}
}
