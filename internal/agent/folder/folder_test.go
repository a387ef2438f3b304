package folder_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cdui/internal/agent/folder"
)

func TestTwoAgentsDoNotShareAFolder(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	first, err := folder.Open(data, "box")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.KeepNote(folder.Note{Name: "box", PID: 4711}); err != nil {
		t.Fatal(err)
	}
	_, err = folder.Open(data, "box")
	if !errors.Is(err, folder.ErrBusy) || !strings.Contains(err.Error(), "pid 4711") || !strings.Contains(err.Error(), "cdui agent stop") {
		t.Errorf("second agent: %v", err)
	}
	other, err := folder.Open(data, "box2")
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	first.Close()
	again, err := folder.Open(data, "box")
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestTokenIsForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	f, err := folder.Open(data, "box")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := f.Token(); err != nil || got != "" {
		t.Errorf("before: %q, %v", got, err)
	}
	if err := f.KeepToken("abc"); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Token(); err != nil || got != "abc" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "token": 0o600, "lock": 0o600} {
		info, err := os.Stat(filepath.Join(f.Dir(), name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v", name, info, err)
		}
	}
}

func TestNote(t *testing.T) {
	t.Parallel()
	f, err := folder.Open(t.TempDir(), "box")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := folder.Note{Name: "box", WorkerID: "box", Control: "http://h:1", PID: 3, EnrolledWith: "h", ResumeGraceS: 7}
	if err := f.KeepNote(want); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Note(); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(f.Dir(), "agent.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Note(); err == nil || !strings.Contains(err.Error(), "agent.json") {
		t.Errorf("damaged: %v", err)
	}
}
