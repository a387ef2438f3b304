package store_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"cdui/internal/store"
)

func TestTunnels(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	for i, name := range []string{"box2", "box1", "box1"} {
		spec, _ := json.Marshal(map[string]int{"n": i})
		if err := s.PutTunnel(ctx, store.Tunnel{Worker: name, Spec: spec, CreatedAt: at(i)}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.Tunnels(ctx)
	if err != nil || len(list) != 2 || list[0].Worker != "box1" || string(list[0].Spec) != `{"n":2}` || !list[0].CreatedAt.Equal(at(1)) {
		t.Errorf("tunnels %+v, %v", list, err)
	}
	if err := s.RemoveTunnel(ctx, "box1"); err != nil {
		t.Error(err)
	}
	if err := s.RemoveTunnel(ctx, "box1"); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
}

// TestTheSchemaBeforeTunnelsIsMigrated opens a database of the release before,
// with a worker in it.
func TestTheSchemaBeforeTunnelsIsMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cdui.db")
	s := open(t, path)
	ctx := t.Context()
	if err := s.AddEnrollment(ctx, enrollment("e", "", 0, 100)); err != nil {
		t.Fatal(err)
	}
	if err := s.Enroll(ctx, "e", "box", "h1", store.WorkerFacts{}, at(1)); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, `DROP TABLE tunnels; PRAGMA user_version = 4`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if list, err := s.Workers(ctx); err != nil || len(list) != 1 {
		t.Errorf("workers %+v, %v", list, err)
	}
	if err := s.PutTunnel(ctx, store.Tunnel{Worker: "box", Spec: json.RawMessage(`{}`), CreatedAt: at(2)}); err != nil {
		t.Error(err)
	}
}
