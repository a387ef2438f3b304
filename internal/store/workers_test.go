package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"cdui/internal/store"
)

func enrollment(hash, worker string, created, expires int) store.Enrollment {
	return store.Enrollment{TokenHash: hash, Worker: worker, CreatedBy: "ada", CreatedAt: at(created), ExpiresAt: at(expires)}
}

func TestEnrollmentTokensAreSpentOnce(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	for _, e := range []store.Enrollment{enrollment("once", "", 0, 100), enrollment("late", "", 0, 5), enrollment("second", "", 0, 100)} {
		if err := s.AddEnrollment(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	enroll := func(token, name, hash string) error {
		return s.Enroll(ctx, token, name, hash, store.WorkerFacts{MachineID: "m", Version: "v"}, at(10))
	}
	if err := enroll("once", "box", "h1"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		token, name string
		is          error
		says        string
	}{
		{"once", "box2", store.ErrEnrollment, "used for box"},
		{"late", "box2", store.ErrEnrollment, "expired"},
		{"nope", "box2", store.ErrEnrollment, "unknown"},
		{"second", "box", store.ErrTaken, "box"},
	} {
		err := enroll(c.token, c.name, "h-"+c.token)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s for %s: %v, want %q", c.token, c.name, err, c.says)
		}
	}
	// The refusal of a taken name spends nothing.
	if err := enroll("second", "box2", "h2"); err != nil {
		t.Error(err)
	}
	workers, err := s.Workers(ctx)
	if err != nil || len(workers) != 2 || workers[0].Name != "box" || workers[0].TokenHash != "h1" || workers[1].MachineID != "m" {
		t.Errorf("workers %+v, %v", workers, err)
	}
}

func TestRekeyTakesTheTokenAndBindsTheNextOne(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.AddEnrollment(ctx, enrollment("e", "", 0, 100)))
	must(s.Enroll(ctx, "e", "box", "h1", store.WorkerFacts{}, at(1)))
	must(s.DrainWorker(ctx, "box", true))
	must(s.SeeWorker(ctx, "box", store.WorkerFacts{MachineID: "m2", Inventory: json.RawMessage(`[1]`)}, at(2)))
	must(s.RekeyWorker(ctx, "box", enrollment("r1", "box", 3, 100)))
	must(s.RekeyWorker(ctx, "box", enrollment("r2", "box", 4, 100)))
	if err := s.Enroll(ctx, "r1", "box", "h2", store.WorkerFacts{}, at(5)); !errors.Is(err, store.ErrEnrollment) {
		t.Errorf("the token of an earlier rekey is good: %v", err)
	}
	if err := s.Enroll(ctx, "r2", "other", "h2", store.WorkerFacts{}, at(5)); !errors.Is(err, store.ErrEnrollment) {
		t.Errorf("a bound token enrolls another worker: %v", err)
	}
	must(s.Enroll(ctx, "r2", "box", "h2", store.WorkerFacts{MachineID: "m3"}, at(5)))
	workers, err := s.Workers(ctx)
	must(err)
	w := workers[0]
	if len(workers) != 1 || w.TokenHash != "h2" || !w.Draining || w.MachineID != "m3" || string(w.Inventory) != `[1]` || !w.LastSeen.Equal(at(2)) {
		t.Errorf("worker %+v", w)
	}
	must(s.RemoveWorker(ctx, "box"))
	for _, err := range []error{s.RemoveWorker(ctx, "box"), s.DrainWorker(ctx, "box", true), s.RekeyWorker(ctx, "box", enrollment("x", "box", 0, 1))} {
		if !errors.Is(err, store.ErrUnknown) {
			t.Errorf("a removed worker: %v", err)
		}
	}
}

func TestTokensAndHashes(t *testing.T) {
	s := fresh(t)
	ctx := t.Context()
	if err := s.AddToken(ctx, store.Token{Name: "ada", Hash: "h", Role: "submit", CreatedAt: at(1)}); err != nil {
		t.Fatal(err)
	}
	if err := s.AddToken(ctx, store.Token{Name: "ada", Hash: "h2", Role: "read", CreatedAt: at(1)}); !errors.Is(err, store.ErrTaken) {
		t.Errorf("a second ada: %v", err)
	}
	if err := s.UseToken(ctx, "ada", at(3)); err != nil {
		t.Error(err)
	}
	tokens, err := s.Tokens(ctx)
	if err != nil || len(tokens) != 1 || tokens[0].Role != "submit" || !tokens[0].LastUsed.Equal(at(3)) {
		t.Errorf("tokens %+v, %v", tokens, err)
	}
	if err := s.RemoveToken(ctx, "ada"); err != nil {
		t.Error(err)
	}
	if err := s.RemoveToken(ctx, "ada"); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}

	h := store.FileHash{Path: "/x/a", Size: 3, ModAt: time.Unix(1, 5), SHA256: "s1"}
	if err := s.KeepFileHashes(ctx, h); err != nil {
		t.Fatal(err)
	}
	h.ModAt, h.SHA256 = time.Unix(1, 6), "s2"
	if err := s.KeepFileHashes(ctx, h); err != nil {
		t.Fatal(err)
	}
	for nanos, want := range map[int64]string{5: "", 6: "s2"} {
		if got, err := s.FileHash(ctx, "/x/a", 3, time.Unix(1, nanos)); got != want || err != nil {
			t.Errorf("mtime %d: %q, %v; want %q", nanos, got, err, want)
		}
	}
}
