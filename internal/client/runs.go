package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

// Health asks whether the control plane is well.
func (c *Client) Health(ctx context.Context) (api.Health, error) {
	var out api.Health
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathHealth}, &out)
}

// Status asks for the control plane, its cards and counts.
func (c *Client) Status(ctx context.Context) (api.ServerStatus, error) {
	var out api.ServerStatus
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathStatus}, &out)
}

// Shutdown stops the control plane.
func (c *Client) Shutdown(ctx context.Context, cancelRuns bool) (api.ShutdownReply, error) {
	var out api.ShutdownReply
	body := api.ShutdownRequest{CancelRuns: cancelRuns}
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathShutdown, body: body}, &out)
}

// Submit queues a run.
func (c *Client) Submit(ctx context.Context, body api.SubmitRequest) (api.SubmitReply, error) {
	var out api.SubmitReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathRuns, body: body}, &out)
}

// ListFilter narrows a list of runs.
type ListFilter struct {
	Statuses []run.Status
	Tag      string
	// User is who submitted the runs, empty for everybody.
	User   string
	Limit  int
	Offset int
}

// Runs lists runs, newest first.
func (c *Client) Runs(ctx context.Context, f ListFilter) (api.RunList, error) {
	q := url.Values{}
	for _, s := range f.Statuses {
		q.Add("status", string(s))
	}
	if f.Tag != "" {
		q.Set("tag", f.Tag)
	}
	if f.User != "" {
		q.Set("user", f.User)
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	if f.Offset > 0 {
		q.Set("offset", strconv.Itoa(f.Offset))
	}
	var out api.RunList
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathRuns, query: q}, &out)
}

// Run reads one run; id may be any unique prefix.
func (c *Client) Run(ctx context.Context, id string) (api.Run, error) {
	var out api.Run
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathRun, id: id}, &out)
}

// Events reads the page of a run's log after cursor. With wait it parks until
// there is one, the run ends or wait passes (60 s at most).
func (c *Client) Events(ctx context.Context, id string, cursor int64, wait time.Duration, limit int) (api.Events, error) {
	q := url.Values{"cursor": {strconv.FormatInt(cursor, 10)}}
	if wait > 0 {
		q.Set("wait", strconv.FormatFloat(wait.Seconds(), 'f', -1, 64))
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out api.Events
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathRunEvents, id: id, query: q}, &out)
}

// Metrics reads a run's metrics; an empty name means all of them.
func (c *Client) Metrics(ctx context.Context, id, name string) (api.Metrics, error) {
	var out api.Metrics
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathRunMetrics, id: id, query: nameQuery(name)}, &out)
}

// MetricsCSV copies a run's metrics to w as CSV.
func (c *Client) MetricsCSV(ctx context.Context, id, name string, w io.Writer) error {
	q := nameQuery(name)
	q.Set("format", "csv")
	res, err := c.do(ctx, request{method: http.MethodGet, path: api.PathRunMetrics, id: id, query: q})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &Unreachable{Text: "the connection to the control plane broke in the middle of the metrics", Err: err}
	}
	return nil
}

func nameQuery(name string) url.Values {
	q := url.Values{}
	if name != "" {
		q.Set("name", name)
	}
	return q
}

// Artifacts lists what a run produced, oldest first; an empty kind means all.
func (c *Client) Artifacts(ctx context.Context, id, kind string) (api.Artifacts, error) {
	q := url.Values{}
	if kind != "" {
		q.Set("kind", kind)
	}
	var out api.Artifacts
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathRunArtifacts, id: id, query: q}, &out)
}

// Cancel asks a run to stop.
func (c *Client) Cancel(ctx context.Context, id string, body api.CancelRequest) (api.CancelReply, error) {
	var out api.CancelReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathRunCancel, id: id, body: body}, &out)
}

// Hold keeps a waiting run from starting.
func (c *Client) Hold(ctx context.Context, id string) (api.RunState, error) {
	var out api.RunState
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathRunHold, id: id}, &out)
}

// Release lets a held run queue again.
func (c *Client) Release(ctx context.Context, id string) (api.RunState, error) {
	var out api.RunState
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathRunRelease, id: id}, &out)
}

// Pin keeps a run's logs and outputs from being pruned.
func (c *Client) Pin(ctx context.Context, id string) (api.RunState, error) {
	var out api.RunState
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathRunPin, id: id}, &out)
}

// Unpin lets them be pruned again.
func (c *Client) Unpin(ctx context.Context, id string) (api.RunState, error) {
	var out api.RunState
	return out, c.call(ctx, request{method: http.MethodDelete, path: api.PathRunPin, id: id}, &out)
}

// Rerun queues a copy of a run.
func (c *Client) Rerun(ctx context.Context, id string, body api.RerunRequest) (api.SubmitReply, error) {
	var out api.SubmitReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathRunRerun, id: id, body: body}, &out)
}

// Delete removes an ended run with all that is recorded of it.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: api.PathRun, id: id}, nil)
}

// Queue lists every queue key with its order.
func (c *Client) Queue(ctx context.Context) (api.Queue, error) {
	var out api.Queue
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathQueue}, &out)
}

// DBCheck has the database checked.
func (c *Client) DBCheck(ctx context.Context) (api.DBCheck, error) {
	var out api.DBCheck
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathDBCheck}, &out)
}

// DBBackup has the database copied to a file on the server's machine.
func (c *Client) DBBackup(ctx context.Context, path string) (api.BackupReply, error) {
	var out api.BackupReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathDBBackup, body: api.BackupRequest{Path: path}}, &out)
}
