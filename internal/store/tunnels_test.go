package store_test

import (
	"encoding/json"
	"errors"
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
