package console_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cdui/internal/console"
)

func TestAnArchiveCarriesTheWholeConsole(t *testing.T) {
	for _, written := range []int{0, 1, 5000, 100_000} {
		from, to := t.TempDir(), t.TempDir()
		w := console.Create(from, console.Options{HeadBytes: 1000, CapBytes: 20_000, PartBytes: 700})
		data := randomBytes(written)
		for at := 0; at < len(data); at += 333 {
			w.Write(data[at:min(at+333, len(data))], time.Unix(int64(at), 0))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var archive bytes.Buffer
		if err := console.Export(&archive, console.NewReader(from), 64<<20); err != nil {
			t.Fatal(err)
		}
		for range 2 { // again is no harm
			if err := console.Import(context.Background(), to, bytes.NewReader(archive.Bytes()), 64<<20); err != nil {
				t.Fatal(err)
			}
		}
		wantBytes, wantGaps := readAll(t, from, 512)
		gotBytes, gotGaps := readAll(t, to, 512)
		if !bytes.Equal(wantBytes, gotBytes) || !slices.Equal(wantGaps, gotGaps) {
			t.Errorf("%d written: %d bytes with gaps %v, want %d with %v", written, len(gotBytes), gotGaps, len(wantBytes), wantGaps)
		}
		wantMarks, err := console.NewReader(from).Marks(0, 1<<40, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if marks, err := console.NewReader(to).Marks(0, 1<<40, 1<<20); err != nil || !slices.Equal(marks, wantMarks) {
			t.Errorf("%d written: %d marks, want %d: %v", written, len(marks), len(wantMarks), err)
		}
		entries, err := os.ReadDir(to)
		if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.IsDir() }) {
			t.Errorf("left behind: %v %v", entries, err)
		}
	}
}

func TestALongConsoleIsCutInTheMiddle(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	w := console.Create(from, console.Options{HeadBytes: 1000, CapBytes: 1 << 20, PartBytes: 900})
	data := randomBytes(10_000)
	w.Write(data, time.Unix(0, 0))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := console.Export(&archive, console.NewReader(from), 4000); err != nil {
		t.Fatal(err)
	}
	if err := console.Import(context.Background(), to, &archive, 4000); err != nil {
		t.Fatal(err)
	}
	got, gaps := readAll(t, to, 512)
	if want := slices.Concat(data[:1000], data[7000:]); !bytes.Equal(got, want) || len(gaps) != 1 || gaps[0] != (console.Range{From: 1000, To: 7000}) {
		t.Errorf("%d bytes, gaps %v", len(got), gaps)
	}
}

func TestHostileArchivesLeaveNothing(t *testing.T) {
	archive := func(entries ...*tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range entries {
			h.Mode = 0o600
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, h.Size)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := archive(&tar.Header{Name: "output.log", Size: 3000})
	for name, raw := range map[string][]byte{
		"up":         archive(&tar.Header{Name: "../output.log", Size: 1}),
		"absolute":   archive(&tar.Header{Name: "/output.log", Size: 1}),
		"other name": archive(&tar.Header{Name: "artifacts/x", Size: 1}),
		"link":       archive(&tar.Header{Name: "output.log", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}),
		"folder":     archive(&tar.Header{Name: "output.log", Typeflag: tar.TypeDir}),
		"too much":   archive(&tar.Header{Name: "output.log", Size: 3000}, &tar.Header{Name: "output.00000000000000003000.part", Size: 3000}),
		"twice":      archive(&tar.Header{Name: "output.log", Size: 1}, &tar.Header{Name: "output.log", Size: 1}),
		"overflow":   archive(&tar.Header{Name: "output.09223372036854775807.part", Size: 1}),
		"cut":        good[:2000],
		"garbage":    []byte("no tar at all, but as long as a block of one would be" + string(make([]byte, 600))),
	} {
		dir := t.TempDir()
		if err := console.Import(context.Background(), dir, bytes.NewReader(raw), 4000); !errors.Is(err, console.ErrBadArchive) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("%s left %v", name, left)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
			t.Errorf("%s left %v", name, left)
		}
	}
}
