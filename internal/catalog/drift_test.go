package catalog_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"testing"
)

var update = flag.Bool("update", false, "write builtin.json from the Python side")

// TestBuiltinIsWhatPythonSays: the embedded definitions are those of the node
// classes. Listing them must not need torch, which -S proves: it leaves out
// every installed package.
// CAT-10, P-02: the catalogue needs no torch and can't drift.
func TestBuiltinIsWhatPythonSays(t *testing.T) {
	python := ""
	for _, name := range []string{os.Getenv("CDUI_TEST_PYTHON"), "python3"} {
		if path, err := exec.LookPath(name); err == nil {
			python = path
			break
		}
	}
	if python == "" {
		t.Skip("no Python here")
	}
	cmd := exec.CommandContext(t.Context(), python, "-I", "-S", "-B", "../../runtime/cdui/registry.py")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	want, err := cmd.Output()
	if err != nil {
		t.Fatalf("list node types: %v\n%s", err, stderr.Bytes())
	}
	if *update {
		if err := os.WriteFile("builtin.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile("builtin.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("builtin.json is not what the node classes say: run `make gen`")
	}
}
