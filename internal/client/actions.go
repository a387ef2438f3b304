package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"cdui/internal/api"
)

// Actions lists up to limit changes that people made, newest first; before is
// the seq that the list goes on below, 0 for the newest.
func (c *Client) Actions(ctx context.Context, before int64, limit int) (api.ActionList, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if before > 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	var out api.ActionList
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathActions, query: q}, &out)
}
