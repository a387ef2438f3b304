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

// GraphContract says what a graph of the folder graphs/ takes and gives as a
// function.
func (c *Client) GraphContract(ctx context.Context, name string) (api.ContractReply, error) {
	var out api.ContractReply
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathGraphContract, name: name}, &out)
}

// GraphRun calls a graph of the folder graphs/ as a function. A call that
// fails is a reply too, with its Error.
func (c *Client) GraphRun(ctx context.Context, name string, body api.FunctionRequest) (api.FunctionReply, error) {
	var out api.FunctionReply
	err := c.call(ctx, request{method: http.MethodPost, path: api.PathGraphRun, name: name, body: body, function: true}, &out)
	if err == nil && out.Status == "" && out.Error != nil {
		// Refused before it came to the graph.
		err = api.Errorf(api.Code(out.Error.Code), "%s", out.Error.Message)
	}
	return out, err
}
