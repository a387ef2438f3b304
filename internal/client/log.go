package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cdui/internal/api"
)

// LogChunk is a piece of a run's console output.
type LogChunk struct {
	Bytes []byte
	// Offset is where Bytes lie in the whole output, Next where the following
	// piece starts, Size how much there is at present.
	Offset, Next, Size int64
	// Cut is how many bytes before this piece the cap cost.
	Cut int64
	// Ended is true once the run has ended, so that Size grows no more.
	Ended bool
}

// Log reads console output from offset on, at most limit bytes when limit is
// positive. With wait it parks until there is some, the run ends or wait
// passes.
func (c *Client) Log(ctx context.Context, id string, offset int64, limit int, wait time.Duration) (LogChunk, error) {
	q := url.Values{"offset": {strconv.FormatInt(offset, 10)}}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if wait > 0 {
		q.Set("wait", strconv.FormatFloat(wait.Seconds(), 'f', -1, 64))
	}
	res, err := c.do(ctx, request{method: http.MethodGet, path: api.PathRunLog, id: id, query: q})
	if err != nil {
		return LogChunk{}, err
	}
	defer res.Body.Close()
	chunk := LogChunk{
		Offset: headerInt(res.Header, api.HeaderLogOffset, offset),
		Size:   headerInt(res.Header, api.HeaderLogSize, 0),
		Cut:    headerInt(res.Header, api.HeaderLogCut, 0),
	}
	chunk.Ended, _ = strconv.ParseBool(res.Header.Get(api.HeaderLogEnded))
	chunk.Bytes, err = io.ReadAll(res.Body)
	if err != nil {
		if ctx.Err() != nil {
			return LogChunk{}, context.Cause(ctx)
		}
		return LogChunk{}, &Unreachable{Text: "the connection to the control plane broke in the middle of the console output", Err: err}
	}
	chunk.Next = headerInt(res.Header, api.HeaderLogNext, chunk.Offset+int64(len(chunk.Bytes)))
	return chunk, nil
}

func headerInt(h http.Header, name string, def int64) int64 {
	n, err := strconv.ParseInt(h.Get(name), 10, 64)
	if err != nil {
		return def
	}
	return n
}

// LogIndex reads the index of a run's console output: its size and which
// offset was written when.
func (c *Client) LogIndex(ctx context.Context, id string) (api.LogIndex, error) {
	var out api.LogIndex
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathRunLogIndex, id: id}, &out)
}
