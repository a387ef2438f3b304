package tokens_test

import (
	"path/filepath"
	"testing"

	"cdui/internal/api"
	"cdui/internal/server/tokens"
	"cdui/internal/store"
)

func TestTokensAreKeptAsHashesAndCanBeRevoked(t *testing.T) {
	st, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "cdui.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	open := func() *tokens.Keeper {
		k, err := tokens.Open(t.Context(), st)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := open()
	made, err := k.Add(t.Context(), api.TokenRequest{Name: "ada", Role: api.RoleSubmit})
	if err != nil || len(made.Token) < 32 {
		t.Fatalf("made %+v, %v", made, err)
	}
	for name, req := range map[string]api.TokenRequest{
		"taken": {Name: "ada", Role: api.RoleRead}, "no role": {Name: "bob"}, "another role": {Name: "bob", Role: "root"},
		"no name": {Role: api.RoleRead}, "a path": {Name: "../x", Role: api.RoleRead},
	} {
		if _, err := k.Add(t.Context(), req); err == nil || api.CodeOf(err) == api.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if name, role, ok := k.Find(made.Token); name != "ada" || role != api.RoleSubmit || !ok {
		t.Errorf("found %s, %s, %v", name, role, ok)
	}
	for _, wrong := range []string{"", made.Token + "x", store.Token{}.Hash} {
		if _, _, ok := k.Find(wrong); ok {
			t.Errorf("%q is good", wrong)
		}
	}
	stored, err := st.Tokens(t.Context())
	if err != nil || len(stored) != 1 || stored[0].Hash == made.Token {
		t.Errorf("stored %+v, %v", stored, err)
	}
	if err := k.Close(t.Context()); err != nil {
		t.Error(err)
	}
	k = open()
	if list := k.List(); len(list.Tokens) != 1 || list.Tokens[0].LastUsed == nil {
		t.Errorf("after a restart %+v", list)
	}
	if err := k.Remove(t.Context(), "ada"); err != nil {
		t.Error(err)
	}
	if _, _, ok := k.Find(made.Token); ok {
		t.Error("a revoked token is good")
	}
	if err := k.Remove(t.Context(), "ada"); api.CodeOf(err) != api.NotFound {
		t.Errorf("revoked twice: %v", err)
	}
}

func TestRoles(t *testing.T) {
	order := []api.Role{"", api.RoleRead, api.RoleSubmit, api.RoleAdmin}
	for i, have := range order {
		for j, need := range order[1:] {
			if got := have.Allows(need); got != (i >= j+1) {
				t.Errorf("%q allows %q: %v", have, need, got)
			}
		}
	}
}
