package token_test

import (
	"testing"

	"cdui/internal/token"
)

func TestMatches(t *testing.T) {
	a, b := token.New(), token.New()
	if a == b || len(a) != 64 {
		t.Fatalf("tokens %q and %q", a, b)
	}
	if !token.Matches(a, token.Hash(a)) || token.Matches(b, token.Hash(a)) || token.Matches("", token.Hash("")) {
		t.Error("a token matched what it must not, or missed its own hash")
	}
}
