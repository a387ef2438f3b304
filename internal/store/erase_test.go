package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"cdui/internal/store"
)

// A.10: what is deleted is overwritten, not only left out of the tables.
func TestDeletedBytesAreOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	row := newRow(1)
	const marker = "a-value-that-was-taken-back"
	row.Graph = append(append([]byte(`{"x":"`), bytes.Repeat([]byte(marker), 2000)...), `"}`...)
	apply(t, s, store.Change{Insert: row})
	apply(t, s, finish(row.ID))
	if err := s.Delete(t.Context(), row.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(content, []byte(marker)); n > 0 {
		t.Errorf("the file still holds it %d times", n)
	}
}
