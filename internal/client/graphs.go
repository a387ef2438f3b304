package client

import (
	"context"
	"encoding/json"
	"net/http"

	"cdui/internal/api"
	"cdui/internal/catalog"
)

// Validate has a graph checked against the control plane's node types and
// presets.
func (c *Client) Validate(ctx context.Context, graph json.RawMessage) (api.ValidateReply, error) {
	var out api.ValidateReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathGraphValidate, body: graph}, &out)
}

// Nodes lists the node types by name.
func (c *Client) Nodes(ctx context.Context) ([]catalog.Definition, error) {
	var out []catalog.Definition
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathNodes}, &out)
}

// Presets lists the installed presets by name.
func (c *Client) Presets(ctx context.Context) ([]catalog.Preset, error) {
	var out []catalog.Preset
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathPresets}, &out)
}

// Snapshot reads the graph that a run was submitted with.
func (c *Client) Snapshot(ctx context.Context, id string) (json.RawMessage, error) {
	var out json.RawMessage
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathRunGraph, id: id}, &out)
}
