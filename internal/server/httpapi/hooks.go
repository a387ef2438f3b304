package httpapi

import (
	"context"
	"net/http"

	"cdui/internal/api"
)

// Hooks is what the API asks of the keeper of hooks.
type Hooks interface {
	Add(ctx context.Context, user string, req api.HookRequest) (api.Hook, error)
	Remove(ctx context.Context, name string) error
	List() api.HookList
	Test(ctx context.Context, name string) (api.HookTestReply, error)
}

// hookRoutes are for admins alone: a command runs as the control plane's user,
// and an address may be nobody else's business.
func (s *Server) hookRoutes() []route {
	if s.cfg.Hooks == nil {
		return nil
	}
	return []route{
		{method: "GET", path: api.PathHooks, role: api.RoleAdmin, doc: "What is called when something happens, by name", response: api.HookList{}, call: s.listHooks},
		{method: "POST", path: api.PathHooks, role: api.RoleAdmin, doc: "Have a command or a URL called when something happens", request: api.HookRequest{}, response: api.Hook{}, act: act{"add", "hook"}, call: s.addHook},
		{method: "DELETE", path: api.PathHook, role: api.RoleAdmin, doc: "Forget a hook", response: api.HookList{}, act: act{"remove", "hook"}, call: s.removeHook},
		{method: "POST", path: api.PathHookTest, role: api.RoleAdmin, doc: "Call a hook once, now", response: api.HookTestReply{}, act: act{"test", "hook"}, call: s.testHook},
	}
}

func (s *Server) listHooks(*http.Request) (any, error) { return s.cfg.Hooks.List(), nil }

func (s *Server) addHook(r *http.Request) (any, error) {
	var req api.HookRequest
	if err := decodeStrict(r, &req, false); err != nil {
		return nil, err
	}
	return s.cfg.Hooks.Add(r.Context(), s.user(r), req)
}

// removeHook answers with the hooks that are left.
func (s *Server) removeHook(r *http.Request) (any, error) {
	if err := s.cfg.Hooks.Remove(r.Context(), r.PathValue("id")); err != nil {
		return nil, err
	}
	return s.cfg.Hooks.List(), nil
}

func (s *Server) testHook(r *http.Request) (any, error) {
	return s.cfg.Hooks.Test(r.Context(), r.PathValue("id"))
}
