package blobs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"cdui/internal/blobs"
)

func sumOf(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func open(t *testing.T) (*blobs.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := blobs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func put(t *testing.T, s *blobs.Store, content string) string {
	t.Helper()
	if err := s.Put(context.Background(), sumOf(content), strings.NewReader(content), 0); err != nil {
		t.Fatal(err)
	}
	return sumOf(content)
}

// leftovers lists the files that are no contents.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "parts"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestOnlyTheRightBytesAreKept(t *testing.T) {
	s, dir := open(t)
	ctx := context.Background()
	sum := sumOf("right")
	for name, c := range map[string]struct {
		sum   string
		r     io.Reader
		limit int64
		want  error
	}{
		"other bytes": {sum, strings.NewReader("wrong"), 0, blobs.ErrMismatch},
		"cut":         {sum, strings.NewReader("righ"), 0, blobs.ErrMismatch},
		"broken off":  {sum, io.MultiReader(strings.NewReader("rig"), iotest.ErrReader(io.ErrUnexpectedEOF)), 0, io.ErrUnexpectedEOF},
		"too many":    {sum, strings.NewReader("right"), 4, blobs.ErrTooLarge},
		"no hash":     {"../../../../etc/passwd", strings.NewReader(""), 0, blobs.ErrBadSum},
		"short":       {sum[1:], strings.NewReader("right"), 0, blobs.ErrBadSum},
		"upper":       {strings.ToUpper(sum), strings.NewReader("right"), 0, blobs.ErrBadSum},
	} {
		if err := s.Put(ctx, c.sum, c.r, c.limit); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.Has(sum) || len(leftovers(t, dir)) > 0 {
		t.Fatalf("something was kept: %v", leftovers(t, dir))
	}
	if err := s.Put(ctx, sum, strings.NewReader("right"), 5); err != nil {
		t.Fatal(err)
	}
	// Again: nothing is read.
	if err := s.Put(ctx, sum, iotest.ErrReader(io.ErrClosedPipe), 5); err != nil {
		t.Error(err)
	}
	f, err := s.Open(sum)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if raw, err := io.ReadAll(f); err != nil || string(raw) != "right" {
		t.Errorf("%q %v", raw, err)
	}
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := s.Open(sumOf("nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := s.Drop(sum); err != nil || s.Has(sum) {
		t.Error(err)
	}
}

func TestManyPutTheSame(t *testing.T) {
	s, dir := open(t)
	content := strings.Repeat("x", 1<<20)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if err := s.Put(context.Background(), sumOf(content), iotest.OneByteReader(strings.NewReader(content[:1000])), 0); !errors.Is(err, blobs.ErrMismatch) && err != nil {
				t.Error(err)
			}
			if err := s.Put(context.Background(), sumOf(content), strings.NewReader(content), 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if !s.Has(sumOf(content)) || len(leftovers(t, dir)) > 0 {
		t.Errorf("%v", leftovers(t, dir))
	}
}

func TestAContentIsContinued(t *testing.T) {
	s, dir := open(t)
	ctx := context.Background()
	content := strings.Repeat("0123456789", 1000)
	sum := sumOf(content)
	for at := 0; at < len(content); {
		p, err := s.Resume(ctx, sum)
		if err != nil {
			t.Fatal(err)
		}
		if p.Offset() != int64(at) {
			t.Fatalf("goes on at %d, %d were written", p.Offset(), at)
		}
		if _, err := s.Resume(ctx, sum); !errors.Is(err, blobs.ErrBusy) {
			t.Errorf("second: %v", err)
		}
		next := min(at+3333, len(content))
		if _, err := p.Write([]byte(content[at:next])); err != nil {
			t.Fatal(err)
		}
		if at = next; at == len(content) {
			if err := p.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = blobs.Open(dir); err != nil { // another process
			t.Fatal(err)
		}
	}
	if !s.Has(sum) || len(leftovers(t, dir)) > 0 {
		t.Errorf("%v", leftovers(t, dir))
	}
	// Wrong bytes are thrown away, and the right ones may follow.
	p, err := s.Resume(ctx, sumOf("good"))
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"evil", "good"} {
		if _, err := p.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := p.Commit(); (err == nil) != (i == 1) || i == 0 && !errors.Is(err, blobs.ErrMismatch) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPruneKeepsWhatIsNeeded(t *testing.T) {
	s, dir := open(t)
	now := time.Now()
	age := func(sum string, d time.Duration) {
		if err := os.Chtimes(filepath.Join(dir, sum[:2], sum), now.Add(-d), now.Add(-d)); err != nil {
			t.Fatal(err)
		}
	}
	needed, old, older, young := put(t, s, "needed"), put(t, s, "old"), put(t, s, "older"), put(t, s, "young")
	age(needed, 100*time.Hour)
	age(old, 50*time.Hour)
	age(older, 60*time.Hour)
	part := filepath.Join(dir, "parts", sumOf("part"))
	if err := os.WriteFile(part, bytes.Repeat([]byte("x"), 9), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := blobs.Policy{Keep: func(sum string) bool { return sum == needed }, Spare: 24 * time.Hour, MaxBytes: int64(len("young") + len("old"))}
	if freed, err := s.Prune(policy, now); err != nil || freed != int64(len("older")) {
		t.Errorf("%d %v", freed, err)
	}
	if !s.Has(needed) || !s.Has(old) || !s.Has(young) || s.Has(older) || len(leftovers(t, dir)) != 1 {
		t.Error("the wrong ones went")
	}
	policy.MaxBytes = 0
	if !s.Use(old) {
		t.Error("it is not there")
	}
	if _, err := s.Prune(policy, now.Add(48*time.Hour)); err != nil {
		t.Error(err)
	}
	if !s.Has(needed) || s.Has(old) || s.Has(young) || len(leftovers(t, dir)) > 0 {
		t.Error("the wrong ones stayed")
	}
}
