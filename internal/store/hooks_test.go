package store_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"cdui/internal/store"
)

func TestHooksAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	h := store.Hook{Name: "mail", Spec: json.RawMessage(`{"on":["failed"]}`), CreatedBy: "ada", CreatedAt: at(1)}
	if err := s.AddHook(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := s.AddHook(t.Context(), h); !errors.Is(err, store.ErrTaken) {
		t.Errorf("a name twice: %v", err)
	}
	shut(t, s)
	s = open(t, path)
	got, err := s.Hooks(t.Context())
	if err != nil || len(got) != 1 || got[0].Name != "mail" || string(got[0].Spec) != string(h.Spec) || got[0].CreatedBy != "ada" || !got[0].CreatedAt.Equal(h.CreatedAt) {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := s.RemoveHook(t.Context(), "mail"); err != nil {
		t.Error(err)
	}
	if err := s.RemoveHook(t.Context(), "mail"); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a name that is gone: %v", err)
	}
}
