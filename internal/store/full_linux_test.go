package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cdui/internal/store"
)

// smallDisk mounts a file system with room for size bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount the small disk that this test fills")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("can't mount a small disk here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no room on the disk of dir.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	block := bytes.Repeat([]byte{1}, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskIsSaidAndEndsWithoutARestart(t *testing.T) {
	dir := smallDisk(t, "20m")
	path := filepath.Join(dir, "cdui.db")
	s := open(t, path)
	apply(t, s, store.Change{Insert: newRow(1)})
	stored := int64(0)
	write := func() error {
		r, err := s.Apply(t.Context(), store.Change{RunID: runID(1), Events: events(int(stored), 300)})
		if err == nil {
			stored = r[0].LastCursor
		}
		return err
	}
	for range 3 {
		free := fill(t, dir)
		var err error
		for n := 0; err == nil && n < 10_000; n++ {
			err = write()
		}
		if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), path) {
			t.Fatalf("a write on a full disk gave %v", err)
		}
		if !errors.Is(s.Healthy(), store.ErrFull) {
			t.Errorf("health is %v", s.Healthy())
		}
		// Reading goes on.
		if last, err := s.LastCursor(t.Context(), runID(1)); err != nil || last != stored {
			t.Errorf("last cursor is %d, want %d, %v", last, stored, err)
		}
		free()
		eventually(t, func() bool { return s.Healthy() == nil })
		if err := write(); err != nil {
			t.Fatalf("with room again: %v", err)
		}
	}
	verify := func(s *store.Store) {
		t.Helper()
		got, err := s.Events(t.Context(), runID(1), 0, 1<<30, 0)
		if err != nil || int64(len(got)) != stored {
			t.Errorf("%d events, %d acknowledged, %v", len(got), stored, err)
		}
		checkSound(t, s)
	}
	verify(s)
	shut(t, s)
	verify(open(t, path))
}

func TestABackupThatFindsNoRoomLeavesNothing(t *testing.T) {
	dir := smallDisk(t, "512k")
	s := fresh(t)
	apply(t, s, store.Change{Insert: newRow(1), Events: events(0, 20_000)})
	_, err := s.Backup(t.Context(), filepath.Join(dir, "copy.db"))
	if !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if s.Healthy() != nil {
		t.Errorf("health is %v", s.Healthy())
	}
}
