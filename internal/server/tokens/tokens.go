// Package tokens keeps the tokens of people and programs beside the control
// plane's own: it makes and revokes them and knows whom one belongs to. Secrets
// are shown once, when they are made; what is kept is their hash. What a role
// may do is the API's part.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cdui/internal/api"
	"cdui/internal/sorting"
	"cdui/internal/store"
	"cdui/internal/token"
)

// Store is where tokens are kept.
type Store interface {
	AddToken(ctx context.Context, t store.Token) error
	RemoveToken(ctx context.Context, name string) error
	UseToken(ctx context.Context, name string, at time.Time) error
	Tokens(ctx context.Context) ([]store.Token, error)
}

// Keeper is all tokens. Its methods may be called from any goroutine.
type Keeper struct {
	store Store

	mu sync.Mutex
	// byHash is a mirror of the store. used marks those whose last use the
	// store doesn't know.
	byHash map[string]store.Token
	used   map[string]bool
}

// Open reads the tokens.
func Open(ctx context.Context, st Store) (*Keeper, error) {
	k := &Keeper{store: st, byHash: map[string]store.Token{}, used: map[string]bool{}}
	all, err := st.Tokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("load tokens: %w", err)
	}
	for _, t := range all {
		k.byHash[t.Hash] = t
	}
	return k, nil
}

// Close keeps when tokens were last used.
func (k *Keeper) Close(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for hash := range k.used {
		t := k.byHash[hash]
		if t.LastUsed != nil {
			errs = append(errs, k.store.UseToken(ctx, t.Name, *t.LastUsed))
		}
	}
	return errors.Join(errs...)
}

// Find gives the user and the role of a token.
func (k *Keeper) Find(secret string) (name string, role api.Role, ok bool) {
	if secret == "" {
		return "", "", false
	}
	hash := token.Hash(secret)
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.byHash[hash]
	if !ok {
		return "", "", false
	}
	now := time.Now().UTC()
	t.LastUsed = &now
	k.byHash[hash], k.used[hash] = t, true
	return t.Name, api.Role(t.Role), true
}

const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	maxName      = 63
)

// validName tells whether a token can be called name: letters, digits and
// . _ @ -, a letter or digit first.
func validName(name string) bool {
	return name != "" && len(name) <= maxName && strings.Contains(alphanumeric, name[:1]) &&
		strings.Trim(name, alphanumeric+"._@-") == ""
}

// Add makes a token.
func (k *Keeper) Add(ctx context.Context, req api.TokenRequest) (api.TokenReply, error) {
	if !validName(req.Name) {
		return api.TokenReply{}, api.Errorf(api.Invalid, "name %.80q: use 1 to 63 letters, digits and . _ @ -, a letter or digit first", req.Name)
	}
	if !req.Role.Allows(api.RoleRead) {
		return api.TokenReply{}, api.Errorf(api.Invalid, "role %.40q is unknown; use %s, %s or %s", req.Role, api.RoleRead, api.RoleSubmit, api.RoleAdmin)
	}
	if req.Name == api.LocalUser {
		return api.TokenReply{}, api.Errorf(api.Invalid, "name %q stands for the control plane's own token in the log of actions; take another one", req.Name)
	}
	secret := token.New()
	t := store.Token{Name: req.Name, Hash: token.Hash(secret), Role: string(req.Role), CreatedAt: time.Now().UTC()}
	err := k.store.AddToken(ctx, t)
	if errors.Is(err, store.ErrTaken) {
		return api.TokenReply{}, api.Errorf(api.Conflict, "there is a token called %s; revoke it first, or take another name", req.Name)
	}
	if err != nil {
		return api.TokenReply{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byHash[t.Hash] = t
	return api.TokenReply{Name: t.Name, Role: req.Role, Token: secret}, nil
}

// Remove revokes a token.
func (k *Keeper) Remove(ctx context.Context, name string) error {
	err := k.store.RemoveToken(ctx, name)
	if errors.Is(err, store.ErrUnknown) {
		return api.Errorf(api.NotFound, "no token %q", name).With("id", name)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for hash, t := range k.byHash {
		if t.Name == name {
			delete(k.byHash, hash)
			delete(k.used, hash)
		}
	}
	return nil
}

// List gives the tokens by name.
func (k *Keeper) List() api.TokenList {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := api.TokenList{Tokens: []api.Token{}}
	for _, t := range k.byHash {
		out.Tokens = append(out.Tokens, api.Token{Name: t.Name, Role: api.Role(t.Role), CreatedAt: t.CreatedAt, LastUsed: t.LastUsed})
	}
	sorting.Sort(out.Tokens, func(a, b api.Token) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}
