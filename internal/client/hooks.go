package client

import (
	"context"
	"net/http"

	"cdui/internal/api"
)

// Hooks lists what is called when something happens.
func (c *Client) Hooks(ctx context.Context) (api.HookList, error) {
	var out api.HookList
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathHooks}, &out)
}

// AddHook has something called when something happens.
func (c *Client) AddHook(ctx context.Context, body api.HookRequest) (api.Hook, error) {
	var out api.Hook
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathHooks, body: body}, &out)
}

// RemoveHook forgets a hook.
func (c *Client) RemoveHook(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: api.PathHook, id: name}, nil)
}

// TestHook calls a hook once, now.
func (c *Client) TestHook(ctx context.Context, name string) (api.HookTestReply, error) {
	var out api.HookTestReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathHookTest, id: name}, &out)
}
