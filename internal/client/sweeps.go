package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"cdui/internal/api"
)

// CreateSweep queues a sweep.
func (c *Client) CreateSweep(ctx context.Context, body api.SweepRequest) (api.SweepReply, error) {
	var out api.SweepReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathSweeps, body: body}, &out)
}

// Sweeps lists sweeps, newest first.
func (c *Client) Sweeps(ctx context.Context, limit, offset int) (api.SweepList, error) {
	var out api.SweepList
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathSweeps, query: pageQuery(limit, offset)}, &out)
}

func pageQuery(limit, offset int) url.Values {
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if offset > 0 {
		q.Set("offset", strconv.Itoa(offset))
	}
	return q
}

// Sweep reads one sweep; id may be any unique prefix.
func (c *Client) Sweep(ctx context.Context, id string) (api.Sweep, error) {
	var out api.Sweep
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathSweep, id: id}, &out)
}

// SweepCSV copies a sweep's variants to w as CSV.
func (c *Client) SweepCSV(ctx context.Context, id string, w io.Writer) error {
	res, err := c.do(ctx, request{method: http.MethodGet, path: api.PathSweep, id: id, query: url.Values{"format": {"csv"}}})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &Unreachable{Text: "the connection to the control plane broke in the middle of the table", Err: err}
	}
	return nil
}

// CancelSweep asks the variants of a sweep to stop.
func (c *Client) CancelSweep(ctx context.Context, id string) (api.SweepCancelReply, error) {
	var out api.SweepCancelReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathSweepCancel, id: id}, &out)
}

// RerunSweep queues the variants of a sweep again that didn't succeed.
func (c *Client) RerunSweep(ctx context.Context, id string) (api.SweepRerunReply, error) {
	var out api.SweepRerunReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathSweepRerun, id: id}, &out)
}

// CreateStudy queues a study.
func (c *Client) CreateStudy(ctx context.Context, body api.StudyRequest) (api.StudyReply, error) {
	var out api.StudyReply
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathStudies, body: body}, &out)
}

// Studies lists studies, newest first.
func (c *Client) Studies(ctx context.Context, limit, offset int) (api.StudyList, error) {
	var out api.StudyList
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathStudies, query: pageQuery(limit, offset)}, &out)
}

// Study reads one study; id may be any unique prefix.
func (c *Client) Study(ctx context.Context, id string) (api.Study, error) {
	var out api.Study
	return out, c.call(ctx, request{method: http.MethodGet, path: api.PathStudy, id: id}, &out)
}

// CancelStudy stops a study.
func (c *Client) CancelStudy(ctx context.Context, id string) (api.Study, error) {
	var out api.Study
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathStudyCancel, id: id}, &out)
}

// ResumeStudy starts the unscored repetitions of a study over.
func (c *Client) ResumeStudy(ctx context.Context, id string, body api.StudyResumeRequest) (api.Study, error) {
	var out api.Study
	return out, c.call(ctx, request{method: http.MethodPost, path: api.PathStudyResume, id: id, body: body}, &out)
}
