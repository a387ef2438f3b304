package store_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"cdui/internal/store"
)

// The log of actions is read newest first, page by page, and holds the newest
// only; numbers are never given twice.
func TestActionsAreKeptByCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	add := func(n int) {
		t.Helper()
		a := store.Action{At: at(n), User: "ada", Peer: "10.0.0.7", Verb: "cancel", Kind: "run", Object: fmt.Sprint(n), Detail: "d"}
		if err := s.AddAction(t.Context(), a, 5); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n <= 8; n++ {
		add(n)
	}
	shut(t, s)
	s = open(t, path)
	add(9)
	all, err := s.Actions(t.Context(), 0, 100)
	if err != nil || len(all) != 5 || all[0].Object != "9" || all[4].Object != "5" {
		t.Fatalf("%+v, %v", all, err)
	}
	if a := all[0]; a.Seq != 9 || !a.At.Equal(at(9)) || a.User != "ada" || a.Peer != "10.0.0.7" || a.Verb != "cancel" || a.Kind != "run" || a.Detail != "d" {
		t.Errorf("came back as %+v", a)
	}
	page, err := s.Actions(t.Context(), all[1].Seq, 2)
	if err != nil || len(page) != 2 || page[0].Object != "7" || page[1].Object != "6" {
		t.Errorf("the next page: %+v, %v", page, err)
	}
}
