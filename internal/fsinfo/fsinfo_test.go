package fsinfo

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExistingClimbsToTheFirstFolderThatIsThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got, err := Existing(filepath.Join(dir, "a", "b", "c"))
	if err != nil || got != dir {
		t.Fatalf("Existing = %q, %v; want %q", got, err, dir)
	}
}

func TestLocalDiskIsNoNetwork(t *testing.T) {
	t.Parallel()
	if kind, yes := Network(filepath.Join(os.TempDir(), "not", "there")); yes {
		t.Errorf("the temporary folder counts as %s", kind)
	}
	if kind, yes := Network("/proc/self/no-such-file/x"); yes {
		t.Errorf("a path that can't be asked counts as %s", kind)
	}
}

func TestSpaceIsKnown(t *testing.T) {
	t.Parallel()
	s, err := SpaceAt(t.TempDir())
	if err != nil || s.Total == 0 || s.Free > s.Total {
		t.Fatalf("SpaceAt = %+v, %v", s, err)
	}
}

func TestMachineIDIsStableAndHidesTheSystemsOwn(t *testing.T) {
	t.Parallel()
	id := MachineID()
	if len(id) != 32 || id != MachineID() {
		t.Fatalf("MachineID = %q", id)
	}
	if b, err := os.ReadFile("/etc/machine-id"); err == nil && len(b) >= 32 && id == string(b[:32]) {
		t.Error("MachineID gives the system's own id away")
	}
}
