package shimhost_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cdui/internal/shimhost"
)

// fullDisk gives a file system of its own with the given size.
func fullDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		t.Skipf("no small disk can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// Proves W-04.
func TestAFullDiskDoesNotEndARun(t *testing.T) {
	t.Parallel()
	disk := fullDisk(t, "4m")
	h := newHost(t, shimhost.Config{Dir: disk})
	gate := filepath.Join(t.TempDir(), "gate")
	a := shell(`head -c 20000000 /dev/zero; while [ ! -e ` + gate + ` ]; do sleep 0.05; done; sleep 0.5; echo; echo the end; exit 6`)
	r := launch(t, h, a)
	if _, err := follow(t, r, isStarted); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is printed", func() bool { return r.Status().Console == 20_000_000 })
	// Space comes back, and the run goes on to be recorded.
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=16m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	recs := toEnd(t, r)
	f := finished(t, recs)
	if f.Status != "failed" || f.Error != "exit code 6" || f.Dropped["console_bytes"] < 10_000_000 {
		t.Fatalf("%+v", f)
	}
	if !strings.Contains(words(recs), "warning:records_dropped") {
		t.Fatal(words(recs))
	}
	if got := output(t, r); !strings.HasSuffix(got, "\nthe end\n") {
		t.Fatalf("%q", got[max(0, len(got)-50):])
	}
}

// Proves W-04.
func TestTheEndOfARunIsKeptOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := fullDisk(t, "4m")
	h := newHost(t, shimhost.Config{Dir: disk})
	// The disk stays full to the end: only the room that was kept is left.
	r := launch(t, h, shell(`while :; do head -c 5000000 /dev/zero && break; done; dd if=/dev/zero of=`+disk+`/filler bs=4096 2>/dev/null; exit 6`))
	recs := toEnd(t, r)
	f := finished(t, recs)
	if f.Status != "failed" || f.Error != "exit code 6" {
		t.Fatalf("%+v", f)
	}
	// The same for whoever comes later.
	again, err := h.Attach(t.Context(), r.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	later := toEnd(t, again)
	if a, b := recs[len(recs)-1], later[len(later)-1]; a.Seq != b.Seq || a.Finished.Error != b.Finished.Error {
		t.Fatalf("%+v and %+v", a, b)
	}
}
