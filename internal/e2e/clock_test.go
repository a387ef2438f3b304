package e2e_test

import (
	little "encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// wrongClock is the time of day on a machine, for all of its processes: wrong
// by as much as its file says.
type wrongClock struct {
	b    *box
	file string
}

// wrongClock gives a machine a clock that can be set. What was started there
// before keeps the right time.
func (b *box) wrongClock() wrongClock {
	t := b.w.t
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skipf("clocks can't be made wrong on %s/%s: testdata/clock/clock.c is for Linux on x86-64", runtime.GOOS, runtime.GOARCH)
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc here: the library that makes clocks wrong can't be built")
	}
	dir := shortTemp(t)
	c := wrongClock{b, filepath.Join(dir, "clock")}
	if err := os.WriteFile(c.file, make([]byte, 16), 0o666); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "clock.so")
	sh(t, "gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fno-stack-protector", fmt.Sprintf("-DOFFSET_FILE=%q", c.file),
		"-o", library, filepath.Join("testdata", "clock", "clock.c"))
	b.w.ownEtc()
	// What lies here lies in /etc for the machine's processes, and for them alone.
	machine := filepath.Join("/etc/netns", b.name)
	if err := os.MkdirAll(machine, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(machine, "ld.so.preload"), []byte(library+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return c
}

// ownEtc gives the world a copy of /etc that may be changed.
func (w *world) ownEtc() {
	w.t.Helper()
	if w.etc {
		return
	}
	w.etc = true
	dir := shortTemp(w.t)
	if err := syscall.Mount("cdui-etc", dir, "tmpfs", 0, ""); err != nil {
		w.t.Skipf("can't make a copy of /etc: %v", err)
	}
	sh(w.t, "cp", "-a", "/etc/.", dir)
	if err := syscall.Mount(dir, "/etc", "", syscall.MS_BIND, ""); err != nil {
		w.t.Fatal(err)
	}
	if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile("/etc/ld.so.preload", nil, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// set puts the clock off the right time from now on.
func (c wrongClock) set(off time.Duration) {
	c.b.w.t.Helper()
	f, err := os.OpenFile(c.file, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(little.LittleEndian.AppendUint64(nil, uint64(off)), 0) //nolint:gosec // the same bits
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		c.b.w.t.Fatal(err)
	}
}

// holds makes sure that the machine's processes have that clock.
func (c wrongClock) holds() {
	c.b.w.t.Helper()
	raw, err := os.ReadFile(c.file)
	if err != nil || len(raw) != 16 {
		c.b.w.t.Fatal(err)
	}
	if little.LittleEndian.Uint32(raw[12:]) > 0 {
		c.b.w.t.Skip("this kernel lets no process change its vDSO, so clocks can't be made wrong")
	}
	if little.LittleEndian.Uint32(raw[8:]) == 0 {
		c.b.w.t.Fatal("no process has taken the wrong clock")
	}
}

// near tells whether two moments or spans differ by less than what a busy
// machine may take, and by less than the clocks are off here.
func near(a, b time.Duration) bool { return (a - b).Abs() < 50*time.Second }

// took makes sure that no time of a row is before one that it can't be before.
func (w *world) took(r api.Run) {
	w.t.Helper()
	if r.StartedAt == nil || r.FinishedAt == nil || r.StartedAt.Before(r.CreatedAt) || r.FinishedAt.Before(*r.StartedAt) {
		w.t.Errorf("run %s: submitted %v, started %v, ended %v", r.ID, r.CreatedAt, r.StartedAt, r.FinishedAt)
	}
	if r.FinishedAt != nil && time.Until(*r.FinishedAt) > time.Second {
		w.t.Errorf("run %s ends in the future, %v", r.ID, r.FinishedAt)
	}
}

// P4, W-06, ENR-02: two minutes off either way, a worker is enrolled with a
// token that lives one minute, keeps its own, and runs what it gets at once.
func TestP4_AMachineWhoseClockIsOff(t *testing.T) {
	inWorld(t, 5*time.Minute, func(t *testing.T, w *world) {
		w.start()
		for _, off := range []time.Duration{-2 * time.Minute, 2 * time.Minute} {
			b := w.box(map[bool]string{true: "slow", false: "fast"}[off < 0])
			clock := b.wrongClock()
			clock.set(off)
			b.start("--token", w.enrollment(b.name, "--ttl", "1m"))
			clock.holds()
			shown := func() {
				t.Helper()
				if ms := b.row().ClockSkewMS; ms == nil || !near(time.Duration(*ms)*time.Millisecond, off) {
					t.Errorf("%s: the skew is shown as %v ms", b.name, ms)
				}
			}
			shown()
			id := w.run("--worker", b.name, "--no-files", "--time-limit", "60s", "--", "date", "+%s")
			r := w.succeeded(id)
			w.took(r)
			unix, err := strconv.ParseInt(strings.TrimSpace(string(w.rawLog(id))), 10, 64)
			if err != nil || !near(time.Until(time.Unix(unix, 0)), off) {
				t.Errorf("%s: to a run it is %d: %v", b.name, unix, err)
			}
			w.took(w.succeeded(w.run("--worker", b.name, w.file("net.json", tinyGraph))))

			tr := w.train(b, "counts", "0.1", "--time-limit", "60s")
			b.kill9()
			b.start() // its own token isn't refused, either
			shown()
			tr.goesOn()
			tr.finish()
			w.took(w.show(tr.id))
			if out := w.cdui("workers", "show", b.name); !strings.Contains(out, "clock") {
				t.Errorf("workers show says %s", out)
			}
		}
		if out := w.cdui("workers"); strings.Count(out, "clock off by") != 2 {
			t.Errorf("workers says %s", out)
		}
	})
}

// P4, W-06: the clock of a machine jumps while it trains. What is measured goes
// on as it was, and a limit is reached when the time has passed.
func TestP4_AClockThatJumps(t *testing.T) {
	inWorld(t, 5*time.Minute, func(t *testing.T, w *world) {
		w.env = append(w.env, "CDUI_CANCEL_GRACE_S=1")
		w.start()
		b := w.box("box1")
		clock := b.wrongClock()
		b.enroll()
		clock.holds()
		since := *b.row().ConnectedAt
		tr := w.train(b, "counts", "0.1", "--time-limit", "4m")
		limited := func() string {
			t.Helper()
			id := w.run("--worker", b.name, "--no-files", "--time-limit", "2s", "--", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
			w.running(id)
			return id
		}
		for _, jump := range []time.Duration{3 * time.Hour, -3 * time.Hour, 2 * time.Minute, -2 * time.Minute} {
			id := limited()
			clock.set(jump)
			tr.goesOn()
			if jump > 0 {
				// The limit of the one that counts is far away, whatever the clock says.
				if r := w.show(tr.id); r.Status != run.Running {
					t.Fatalf("after a jump by %v: %s %s", jump, r.Status, r.Error)
				}
			}
			r := w.ended(id)
			if r.EndClass != run.EndTimeout {
				t.Errorf("after a jump by %v: %s %s %q", jump, r.Status, r.EndClass, r.Error)
			}
			w.took(r)
		}
		tr.finish()
		w.took(w.show(tr.id))
		if warned := tr.warned(); len(warned) > 0 {
			t.Errorf("warned of %q", warned)
		}
		if row := b.row(); row.State != api.WorkerOnline || !row.ConnectedAt.Equal(since) {
			t.Errorf("the connection was lost: %+v", row)
		}
	})
}
