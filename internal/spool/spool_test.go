package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cdui/internal/spool"
)

func openWriter(t testing.TB, dir string, o spool.Options) *spool.Writer {
	t.Helper()
	w, err := spool.OpenWriter(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func appendRecords(t testing.TB, w *spool.Writer, n int) {
	t.Helper()
	for range n {
		seq := w.Next()
		if err := w.Append(fmt.Appendf(nil, `{"seq":%d}`, seq), seq, false); err != nil {
			t.Fatal(err)
		}
	}
}

func readAll(t testing.TB, r *spool.Reader) []spool.Record {
	t.Helper()
	var all []spool.Record
	for {
		recs, err := r.Next(7, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(recs) == 0 {
			return all
		}
		all = append(all, recs...)
	}
}

func segments(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func wantRecords(t testing.TB, recs []spool.Record, from, to uint64) {
	t.Helper()
	if uint64(len(recs)) != to-from+1 {
		t.Fatalf("got %d records, want %d..%d", len(recs), from, to)
	}
	for i, rec := range recs {
		want := from + uint64(i)
		if rec.Seq != want || string(rec.Data) != fmt.Sprintf(`{"seq":%d}`, want) {
			t.Fatalf("record %d is number %d with %q", want, rec.Seq, rec.Data)
		}
	}
}

func TestReaderStartsAfterAnyRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	w := openWriter(t, dir, spool.Options{SegmentBytes: 100})
	appendRecords(t, w, 30)
	if len(segments(t, dir)) < 4 {
		t.Fatal("the spool did not rotate")
	}
	for after := range uint64(30) {
		r := spool.NewReader(dir, after)
		wantRecords(t, readAll(t, r), after+1, 30)
		r.Close()
	}
	r := spool.NewReader(dir, 30)
	if recs := readAll(t, r); len(recs) != 0 {
		t.Fatalf("got %d records after the last one", len(recs))
	}
	appendRecords(t, w, 1)
	wantRecords(t, readAll(t, r), 31, 31)
	r.Close()
}

// Proves W-04, DSC-04.
func TestReaderSurvivesDeletionOfAcknowledgedSegments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	w := openWriter(t, dir, spool.Options{SegmentBytes: 100})
	appendRecords(t, w, 10)
	r := spool.NewReader(dir, 0)
	first, err := r.Next(1, 1)
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	appendRecords(t, w, 10)
	if err := w.DeleteThrough(12); err != nil {
		t.Fatal(err)
	}
	rest := readAll(t, r)
	if last := rest[len(rest)-1].Seq; last != 20 {
		t.Fatalf("the reader stopped at %d", last)
	}
	before := len(segments(t, dir))
	if err := w.DeleteThrough(1000); err != nil {
		t.Fatal(err)
	}
	if got := len(segments(t, dir)); got != 1 || before < 2 {
		t.Fatalf("%d segments before and %d after everything was acknowledged", before, got)
	}
	appendRecords(t, w, 1)
	wantRecords(t, readAll(t, r), 21, 21)
	r.Close()
}

func TestReaderWaitsForTheRestOfALine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	w := openWriter(t, dir, spool.Options{})
	appendRecords(t, w, 2)
	name := segments(t, dir)[0]
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range whole {
		if err := os.WriteFile(name, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		r := spool.NewReader(dir, 0)
		got := readAll(t, r)
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		got = append(got, readAll(t, r)...)
		wantRecords(t, got, 1, 2)
		if r.Damaged() != 0 {
			t.Fatalf("cut at %d: a torn line was counted as damage", cut)
		}
		r.Close()
	}
}

// Proves W-04.
func TestOpenCutsATornTail(t *testing.T) {
	for _, tail := range []string{"", "deadbeef {\"se", "00000000 {\"seq\":3}\n", "\x00\x00\x00\x00"} {
		dir := filepath.Join(t.TempDir(), "spool")
		w := openWriter(t, dir, spool.Options{})
		appendRecords(t, w, 2)
		w.Close()
		f, err := os.OpenFile(segments(t, dir)[0], os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(tail); err != nil {
			t.Fatal(err)
		}
		f.Close()
		again := openWriter(t, dir, spool.Options{})
		if again.Next() != 3 {
			t.Fatalf("tail %q: the next record is %d", tail, again.Next())
		}
		appendRecords(t, again, 2)
		r := spool.NewReader(dir, 0)
		wantRecords(t, readAll(t, r), 1, 4)
		r.Close()
	}
}

func TestADamagedLineCostsOneRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	w := openWriter(t, dir, spool.Options{})
	appendRecords(t, w, 5)
	name := segments(t, dir)[0]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(`{"seq":3}`), []byte(`{"seq":9}`), 1)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := spool.NewReader(dir, 0)
	defer r.Close()
	var seqs []uint64
	for _, rec := range readAll(t, r) {
		seqs = append(seqs, rec.Seq)
	}
	if fmt.Sprint(seqs) != "[1 2 4 5]" || r.Damaged() != 1 {
		t.Fatalf("read %v with %d damaged", seqs, r.Damaged())
	}
}

// Proves W-04.
func TestTheReserveIsKeptForEndRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	w := openWriter(t, dir, spool.Options{CapBytes: 4096, ReserveBytes: 1024})
	rec := []byte(`{"x":"` + strings.Repeat("x", 200) + `"}`)
	var err error
	for err == nil {
		err = w.Append(rec, w.Next(), false)
	}
	if !errors.Is(err, spool.ErrFull) {
		t.Fatal(err)
	}
	if w.Bytes() > 3072 {
		t.Fatalf("%d bytes used, the reserve is gone", w.Bytes())
	}
	seq := w.Next()
	if err := w.Append(rec, seq, true); err != nil {
		t.Fatalf("an end record did not fit: %v", err)
	}
	if w.Next() != seq+1 {
		t.Fatal("a refused record used up a number")
	}
}

// Proves W-08.
func TestANewerVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "00000000000000000001.seg"), []byte("cdui-spool 2\nsomething\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := spool.NewReader(dir, 0)
	defer r.Close()
	if _, err := r.Next(1, 1); !errors.Is(err, spool.ErrVersion) {
		t.Fatal(err)
	}
}

func TestMissingSpoolHasNothingToRead(t *testing.T) {
	r := spool.NewReader(filepath.Join(t.TempDir(), "none"), 0)
	if recs := readAll(t, r); len(recs) != 0 {
		t.Fatal(recs)
	}
}

// Any mix of appending, reading, acknowledging and reopening gives each record
// once and in order.
// W-04, DSC-03, EVT-07: numbered from one, without a gap.
func TestRecordsArriveOnceAndInOrder(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		opt := spool.Options{SegmentBytes: int64(rapid.IntRange(1, 300).Draw(rt, "segment"))}
		w := openWriter(t, dir, opt)
		r := spool.NewReader(dir, 0)
		defer r.Close()
		seen := uint64(0)
		read := func(max int) {
			recs, err := r.Next(max, 1<<20)
			if err != nil {
				rt.Fatal(err)
			}
			for _, rec := range recs {
				seen++
				if rec.Seq != seen {
					rt.Fatalf("read record %d, want %d", rec.Seq, seen)
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) { appendRecords(t, w, rapid.IntRange(1, 20).Draw(rt, "n")) },
			"read":   func(rt *rapid.T) { read(rapid.IntRange(1, 20).Draw(rt, "max")) },
			"ack": func(rt *rapid.T) {
				if err := w.DeleteThrough(uint64(rapid.IntRange(0, int(seen)).Draw(rt, "seq"))); err != nil {
					rt.Fatal(err)
				}
			},
			"reopen": func(rt *rapid.T) {
				next := w.Next()
				w.Close()
				w = openWriter(t, dir, opt)
				if w.Next() != next {
					rt.Fatalf("reopened at %d, want %d", w.Next(), next)
				}
			},
			"reread": func(rt *rapid.T) {
				r.Close()
				r = spool.NewReader(dir, seen)
			},
		})
		for seen < w.Next()-1 {
			read(50)
		}
		w.Close()
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("cdui-spool 1\n"), []byte("x"))
	f.Add([]byte("cdui-spool 1\n00000000 {}\n11111111 {"), []byte("cdui-spool 1\n\n\n"))
	f.Add([]byte("garbage"), []byte("\x00\n\x00\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"00000000000000000001.seg": a, "00000000000000000009.seg": b} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := spool.NewReader(dir, 0)
		defer r.Close()
		last := uint64(0)
		for {
			recs, err := r.Next(10, 1<<20)
			if err != nil && !errors.Is(err, spool.ErrVersion) {
				t.Fatal(err)
			}
			if err != nil || len(recs) == 0 {
				return
			}
			for _, rec := range recs {
				if rec.Seq <= last && last < 9 {
					t.Fatalf("record %d after %d", rec.Seq, last)
				}
				last = rec.Seq
			}
		}
	})
}
