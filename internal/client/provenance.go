package client

import (
	"context"
	"net/http"

	"cdui/internal/api"
)

// Fingerprint reads what a run was executed with.
func (c *Client) Fingerprint(ctx context.Context, id string) (api.Fingerprint, error) {
	var out api.Fingerprint
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathRunFingerprint, id: id}, &out)
}

// Provenance reads what a run's nodes were made of.
func (c *Client) Provenance(ctx context.Context, id string) (api.Provenance, error) {
	var out api.Provenance
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathRunProvenance, id: id}, &out)
}
