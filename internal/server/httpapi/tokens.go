package httpapi

import (
	"context"
	"net/http"

	"cdui/internal/api"
)

// Tokens is what the API asks of the keeper of users' tokens.
type Tokens interface {
	// Find gives the user and the role of a token.
	Find(secret string) (name string, role api.Role, ok bool)
	Add(ctx context.Context, req api.TokenRequest) (api.TokenReply, error)
	Remove(ctx context.Context, name string) error
	List() api.TokenList
}

func (s *Server) tokenRoutes() []route {
	if s.cfg.Tokens == nil {
		return nil
	}
	return []route{
		{method: "GET", path: api.PathTokens, role: api.RoleAdmin, doc: "Users' tokens, by name and without their secrets", response: api.TokenList{}, call: s.listTokens},
		{method: "POST", path: api.PathTokens, role: api.RoleAdmin, doc: "Make a token for a user", request: api.TokenRequest{}, response: api.TokenReply{}, act: act{"add", "token"}, call: s.addToken},
		{method: "DELETE", path: api.PathToken, role: api.RoleAdmin, doc: "Revoke a user's token", response: api.TokenList{}, act: act{"remove", "token"}, call: s.removeToken},
	}
}

func (s *Server) listTokens(*http.Request) (any, error) { return s.cfg.Tokens.List(), nil }

func (s *Server) addToken(r *http.Request) (any, error) {
	var req api.TokenRequest
	if err := decode(r, &req, false); err != nil {
		return nil, err
	}
	return s.cfg.Tokens.Add(r.Context(), req)
}

// removeToken answers with the tokens that are left.
func (s *Server) removeToken(r *http.Request) (any, error) {
	if err := s.cfg.Tokens.Remove(r.Context(), r.PathValue("id")); err != nil {
		return nil, err
	}
	return s.cfg.Tokens.List(), nil
}
