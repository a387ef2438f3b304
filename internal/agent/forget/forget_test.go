package forget_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/agent/folder"
	"cdui/internal/agent/forget"
)

// H-05: what an agent leaves goes with it, and nothing that isn't its own.
func TestForgetLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	lay := func(paths ...string) string {
		data := filepath.Join(t.TempDir(), "cdui")
		for _, p := range paths {
			path := filepath.Join(data, p)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	own := []string{"agent/box/token", "agent/box/files/r/code/x", "agent-cache/ab/abc", "runtime/1/cdui/x.py"}
	data := lay(own...)
	if err := forget.Agent(t.Context(), data, "box"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data folder is left")
	}
	for _, others := range []string{"agent/other/token", "cdui.db", "nodes/mine.py"} {
		data := lay(append(own, others)...)
		if err := forget.Agent(t.Context(), data, "box"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(data, others)); err != nil {
			t.Errorf("%s is gone", others)
		}
		if _, err := os.Stat(filepath.Join(data, "runtime")); err != nil {
			t.Errorf("what others need is gone beside %s", others)
		}
		if _, err := os.Stat(folder.Path(data, "box")); err == nil {
			t.Errorf("its folder is left beside %s", others)
		}
	}
	data = lay(own...)
	f, err := folder.Open(data, "box")
	if err != nil {
		t.Fatal(err)
	}
	if err := forget.Agent(t.Context(), data, "box"); err == nil || !strings.Contains(err.Error(), "another agent holds") {
		t.Errorf("one that runs: %v", err)
	}
	f.Close()
	if err := forget.Agent(t.Context(), data, "box"); err != nil {
		t.Error(err)
	}
	if err := forget.Agent(t.Context(), data, "box"); err != nil {
		t.Errorf("one that isn't there: %v", err)
	}
}
