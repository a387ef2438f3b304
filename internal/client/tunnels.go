package client

import (
	"context"
	"net/http"

	"cdui/internal/api"
)

// Tunnels lists the ways to workers through ssh, by worker.
func (c *Client) Tunnels(ctx context.Context) (api.TunnelList, error) {
	var out api.TunnelList
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathTunnels}, &out)
}

// OpenTunnel has the control plane open the tunnel of a worker, and keep it.
func (c *Client) OpenTunnel(ctx context.Context, req api.TunnelRequest) (api.Tunnel, error) {
	var out api.Tunnel
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathTunnels, body: req}, &out)
}

// RemoveTunnel has it closed for good.
func (c *Client) RemoveTunnel(ctx context.Context, worker string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: api.PathTunnel, id: worker}, nil)
}
