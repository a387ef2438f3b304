package console_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cdui/internal/console"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// readAll reads everything that is kept; lost bytes come as the gaps.
func readAll(t testing.TB, dir string, chunk int) (data []byte, gaps []console.Range) {
	t.Helper()
	r := console.NewReader(dir)
	buf := make([]byte, chunk)
	off := int64(0)
	for {
		n, at, err := r.ReadAt(buf, off)
		if errors.Is(err, io.EOF) {
			return data, gaps
		}
		if err != nil {
			t.Fatal(err)
		}
		if at > off {
			gaps = append(gaps, console.Range{From: off, To: at})
		}
		data = append(data, buf[:n]...)
		off = at + int64(n)
	}
}

func randomBytes(n int) []byte {
	src := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(src.Uint32())
	}
	return b
}

// Proves R-07.
func TestL2_BytesBelowTheCapAreKeptExactly(t *testing.T) {
	dir := t.TempDir()
	w := console.Create(dir, console.Options{HeadBytes: 100_000, PartBytes: 70_000})
	all := randomBytes(1_000_000)
	for i := 0; i < len(all); i += 7777 {
		w.Write(all[i:min(i+7777, len(all))], start)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, gaps := readAll(t, dir, 50_000)
	if !bytes.Equal(got, all) || len(gaps) != 0 || w.Lost() != 0 || w.Size() != int64(len(all)) {
		t.Fatalf("%d bytes back of %d, gaps %v, lost %d", len(got), len(all), gaps, w.Lost())
	}
	tail, at, err := console.NewReader(dir).Tail(200_000)
	if err != nil || at != 800_000 || !bytes.Equal(tail, all[at:]) {
		t.Fatalf("tail of %d bytes at %d: %v", len(tail), at, err)
	}
}

// Proves R-07.
func TestTheCapKeepsTheHeadAndTheNewest(t *testing.T) {
	dir := t.TempDir()
	w := console.Create(dir, console.Options{HeadBytes: 1000, CapBytes: 5000, PartBytes: 1000})
	all := randomBytes(100_500)
	for i := 0; i < len(all); i += 333 {
		w.Write(all[i:min(i+333, len(all))], start)
	}
	w.Close()
	got, gaps := readAll(t, dir, 64<<10)
	cuts, err := console.NewReader(dir).Cuts()
	if err != nil {
		t.Fatal(err)
	}
	if len(gaps) != 1 || gaps[0].From != 1000 || fmt.Sprint(cuts) != fmt.Sprint(gaps) {
		t.Fatalf("gaps %v, cuts %v", gaps, cuts)
	}
	want := append(bytes.Clone(all[:1000]), all[gaps[0].To:]...)
	if !bytes.Equal(got, want) || len(got) > 5000 || len(got) < 3500 {
		t.Fatalf("kept %d bytes", len(got))
	}
	size, err := console.NewReader(dir).Size()
	if err != nil || size != int64(len(all)) {
		t.Fatalf("size %d: %v", size, err)
	}
	// A tail longer than what is kept after the cut starts after it.
	tail, at, err := console.NewReader(dir).Tail(50_000)
	if err != nil || at != gaps[0].To || !bytes.Equal(tail, all[at:]) {
		t.Fatalf("tail at %d: %v", at, err)
	}
}

// Proves R-07.
func TestIndexFindsBytesByTime(t *testing.T) {
	dir := t.TempDir()
	w := console.Create(dir, console.Options{})
	for i := range 1000 {
		w.Write([]byte("0123456789"), start.Add(time.Duration(i)*10*time.Millisecond))
	}
	w.Close()
	r := console.NewReader(dir)
	marks, err := r.Marks(0, 1<<40, 1<<20)
	if err != nil || len(marks) != 100 {
		t.Fatalf("%d marks: %v", len(marks), err)
	}
	if m := marks[7]; m.Offset != 700 || !m.At.Equal(start.Add(700*time.Millisecond)) {
		t.Fatalf("mark 7 is %+v", m)
	}
	some, err := r.Marks(750, 950, 10)
	if err != nil || len(some) != 3 || some[0].Offset != 700 || some[2].Offset != 900 {
		t.Fatalf("%v: %v", some, err)
	}
	off, err := r.OffsetAt(start.Add(2 * time.Second))
	if err != nil || off != 2000 {
		t.Fatalf("offset %d: %v", off, err)
	}
	off, err = r.OffsetAt(start.Add(time.Hour))
	if err != nil || off != 10_000 {
		t.Fatalf("offset %d: %v", off, err)
	}
}

func TestIndexSurvivesAClockThatIsSetBack(t *testing.T) {
	dir := t.TempDir()
	w := console.Create(dir, console.Options{})
	for i, at := range []time.Time{start, start.Add(-time.Hour), start.Add(time.Second)} {
		w.Write(bytes.Repeat([]byte{byte(i)}, 100_000), at)
	}
	w.Close()
	marks, err := console.NewReader(dir).Marks(0, 1<<40, 10)
	if err != nil || len(marks) != 3 {
		t.Fatal(marks, err)
	}
	for i := 1; i < len(marks); i++ {
		if marks[i].At.Before(marks[i-1].At) {
			t.Fatalf("time goes back: %v", marks)
		}
	}
}

func TestLostBytesShowAsAGap(t *testing.T) {
	dir := t.TempDir()
	w := console.Create(dir, console.Options{HeadBytes: 4, PartBytes: 4})
	w.Write([]byte("head"), start)
	// A folder in the way stands for a disk that refuses.
	block := filepath.Join(dir, fmt.Sprintf("output.%020d.part", 4))
	if err := os.Mkdir(block, 0o700); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("lost"), start)
	w.Write([]byte("too"), start.Add(time.Millisecond))
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("kept"), start.Add(time.Second))
	w.Close()
	got, gaps := readAll(t, dir, 100)
	if string(got) != "headkept" || fmt.Sprint(gaps) != "[{4 11}]" || w.Lost() != 7 {
		t.Fatalf("%q, gaps %v, lost %d", got, gaps, w.Lost())
	}
}

func TestMoveTakesTheWholeConsole(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	w := console.Create(from, console.Options{HeadBytes: 10, PartBytes: 10})
	w.Write([]byte("some output that needs several files"), start)
	w.Close()
	if err := os.WriteFile(filepath.Join(from, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := console.Move(from, to); err != nil {
		t.Fatal(err)
	}
	if got, _ := readAll(t, to, 100); string(got) != "some output that needs several files" {
		t.Fatalf("%q", got)
	}
	if marks, err := console.NewReader(to).Marks(0, 100, 10); err != nil || len(marks) != 1 {
		t.Fatal(marks, err)
	}
	left, err := os.ReadDir(from)
	if err != nil || len(left) != 1 || left[0].Name() != "other" {
		t.Fatal(left, err)
	}
}

func TestKeptBytesAreAlwaysTheRightOnes(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		if err := os.Mkdir(dir, 0o700); err != nil {
			rt.Fatal(err)
		}
		w := console.Create(dir, console.Options{
			HeadBytes: int64(rapid.IntRange(1, 50).Draw(rt, "head")),
			CapBytes:  int64(rapid.IntRange(60, 200).Draw(rt, "cap")),
			PartBytes: int64(rapid.IntRange(1, 60).Draw(rt, "part")),
		})
		var all []byte
		for range rapid.IntRange(0, 20).Draw(rt, "writes") {
			p := rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(rt, "p")
			all = append(all, p...)
			w.Write(p, start)
		}
		w.Close()
		got, gaps := readAll(t, dir, rapid.IntRange(1, 100).Draw(rt, "chunk"))
		want, from := []byte(nil), int64(0)
		for _, g := range gaps {
			want = append(want, all[from:g.From]...)
			from = g.To
		}
		want = append(want, all[from:]...)
		if !bytes.Equal(got, want) || len(gaps) > 1 {
			rt.Fatalf("got %d bytes, want %d, gaps %v", len(got), len(want), gaps)
		}
	})
}
