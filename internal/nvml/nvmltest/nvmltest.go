// Package nvmltest gives tests NVIDIA cards where there are none: a library
// that answers as the driver's does, and a file that says what it answers. It
// is for tests alone.
package nvmltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Machine is a machine with made-up cards.
type Machine struct {
	tb testing.TB
	// Library is the folder with the library, State the file that it reads.
	Library, State string
	cards          int
}

// OldDriver leaves out of the library what drivers of years ago lack.
const OldDriver = "-DOLD_DRIVER"

// New builds the library and gives it cards. The test is skipped where nothing
// can build it, or where the test's own build reads no library.
func New(tb testing.TB, cards int, flags ...string) *Machine {
	tb.Helper()
	if !readsLibrary {
		tb.Skip("this build reads no NVIDIA library: it is not for Linux, or without cgo")
	}
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		tb.Skip("no gcc here: the made-up NVIDIA library can't be built")
	}
	dir := tb.TempDir()
	m := &Machine{tb: tb, Library: dir, State: filepath.Join(dir, "state"), cards: cards}
	m.Set()
	args := append([]string{
		"-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1",
		"-o", filepath.Join(dir, "libnvidia-ml.so.1"), source(tb),
	}, flags...)
	if out, err := exec.CommandContext(tb.Context(), compiler, args...).CombinedOutput(); err != nil {
		tb.Fatalf("build the made-up NVIDIA library: %v\n%s", err, out)
	}
	return m
}

// source finds stub.c from the folder that a test runs in.
func source(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "internal", "nvml", "testdata", "stub", "stub.c")
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if dir == filepath.Dir(dir) {
			tb.Fatal("stub.c is not above the test's folder")
		}
	}
}

// Set says what the library answers from now on; the lines are described in
// stub.c.
func (m *Machine) Set(lines ...string) {
	m.tb.Helper()
	// A reader must never see half a file.
	next := m.State + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		m.tb.Fatal(err)
	}
	if err := os.Rename(next, m.State); err != nil {
		m.tb.Fatal(err)
	}
}

// Environ is what a program needs in its environment to see the cards.
func (m *Machine) Environ() []string {
	return []string{
		"LD_LIBRARY_PATH=" + m.Library,
		"NVML_STUB_STATE=" + m.State,
		"NVML_STUB_GPUS=" + strconv.Itoa(m.cards),
	}
}
