package tuicmd

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What a run named as its file may be anything by now; only files are read, and
// nothing is waited for.
func TestOnlyFilesAreLookedInto(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("text"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := disk{}
	for name, want := range map[string]string{"text": "0123", "empty": ""} {
		if head, err := d.Head(at(name), 4); err != nil || string(head) != want || head == nil {
			t.Errorf("%s: %q, %v", name, head, err)
		}
	}
	if n, err := d.Size(at("text")); n != 10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, name := range []string{"pipe", "."} {
		if _, err := d.Head(at(name), 4); err == nil || !strings.Contains(err.Error(), "is no file") {
			t.Errorf("head of %s: %v", name, err)
		}
		if _, err := d.Size(at(name)); err == nil {
			t.Errorf("%s has a size", name)
		}
	}
	if _, err := d.Head(at("none"), 4); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}
