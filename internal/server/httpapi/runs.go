package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
	"cdui/internal/store"
	"cdui/internal/submission"
)

// find resolves the {id} of a path: a whole run id or a unique prefix.
func (s *Server) find(r *http.Request) (string, error) {
	id := r.PathValue("id")
	ids, err := s.cfg.Store.Resolve(r.Context(), id)
	if err != nil {
		return "", err
	}
	return api.Resolve("run", id, ids)
}

func (s *Server) view(r *http.Request, row run.Row) (api.Run, error) {
	v := s.cfg.Runs.View(row)
	final, err := s.cfg.Store.FinalMetrics(r.Context(), row.ID)
	if err != nil {
		return v, err
	}
	v.FinalMetrics = final
	return v, nil
}

func (s *Server) listRuns(r *http.Request) (any, error) {
	q := r.URL.Query()
	f := store.Filter{Tag: q.Get("tag"), User: q.Get("user")}
	for _, st := range q["status"] {
		if !run.Status(st).Valid() {
			return nil, api.Errorf(api.Invalid, "status %q is unknown; use %v", st, run.Statuses())
		}
		f.Statuses = append(f.Statuses, run.Status(st))
	}
	var err error
	if f.Limit, err = whole(q, "limit", 50, 1, 500); err != nil {
		return nil, err
	}
	if f.Offset, err = whole(q, "offset", 0, 0, 1<<31-1); err != nil {
		return nil, err
	}
	rows, total, err := s.cfg.Store.List(r.Context(), f)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	final, err := s.cfg.Store.FinalMetricsOf(r.Context(), ids)
	if err != nil {
		return nil, err
	}
	out := api.RunList{Runs: make([]api.Run, len(rows)), Total: total, Limit: f.Limit, Offset: f.Offset}
	for i, row := range rows {
		out.Runs[i] = s.cfg.Runs.View(row)
		out.Runs[i].FinalMetrics = final[row.ID]
	}
	return out, nil
}

func (s *Server) showRun(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	row, err := s.cfg.Store.Run(r.Context(), id)
	if err != nil {
		return nil, err
	}
	v, err := s.view(r, row)
	if err != nil {
		return nil, err
	}
	last, err := s.cfg.Store.LastCursor(r.Context(), id)
	if err != nil {
		return nil, err
	}
	v.LastCursor = &last
	return v, nil
}

func (s *Server) submit(r *http.Request) (any, error) {
	var req api.SubmitRequest
	if err := decode(r, &req, false); err != nil {
		return nil, err
	}
	if err := s.complete(r, &req); err != nil {
		return nil, err
	}
	replies, err := s.cfg.Runs.Submit(r.Context(), s.user(r), req)
	if err != nil {
		return nil, err
	}
	return replies[0], nil
}

func (s *Server) submitBulk(r *http.Request) (any, error) {
	var req api.BulkRequest
	if err := decode(r, &req, false); err != nil {
		return nil, err
	}
	if n := len(req.Runs); n == 0 || n > api.MaxBulk {
		return nil, api.Errorf(api.Invalid, "runs has %d entries; a bulk request takes 1 to %d", n, api.MaxBulk)
	}
	for i := range req.Runs {
		if err := s.complete(r, &req.Runs[i]); err != nil {
			return nil, err
		}
	}
	replies, err := s.cfg.Runs.Submit(r.Context(), s.user(r), req.Runs...)
	if err != nil {
		return nil, err
	}
	return api.BulkReply{Runs: replies}, nil
}

// complete checks what a submission names elsewhere: the run which a copy comes
// from, and the folder that comes along.
func (s *Server) complete(r *http.Request, req *api.SubmitRequest) error {
	if req.RerunOf != "" {
		if _, err := s.cfg.Store.Run(r.Context(), req.RerunOf); err != nil {
			return api.Errorf(api.Invalid, "rerun_of: no run %q", req.RerunOf)
		}
	}
	return s.code(r, req)
}

func (s *Server) deleteRun(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	row, err := s.cfg.Store.Run(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if row.Status.Active() {
		return nil, api.Errorf(api.Conflict, "run %s is %s; cancel it first", run.Short(id), row.Status).With("status", row.Status)
	}
	if err := s.cfg.Store.Delete(r.Context(), id); err != nil {
		return nil, err
	}
	s.cfg.Host.Forget(id)
	s.cfg.Feed.Notify(id)
	return api.RunState{RunID: id, Status: row.Status}, nil
}

func (s *Server) runGraph(w http.ResponseWriter, r *http.Request) error {
	id, err := s.find(r)
	if err != nil {
		return err
	}
	raw, err := s.cfg.Store.Graph(r.Context(), id)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, raw)
	return nil
}

func (s *Server) cancelRun(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	var req api.CancelRequest
	if err := decode(r, &req, true); err != nil {
		return nil, err
	}
	grace := time.Duration(-1)
	if req.GraceS != nil {
		const most = 7 * 24 * 3600
		if *req.GraceS < 0 || *req.GraceS > most {
			return nil, api.Errorf(api.Invalid, "grace_s must be 0 to %d seconds", most)
		}
		grace = time.Duration(*req.GraceS * float64(time.Second))
	}
	return s.cfg.Runs.Cancel(r.Context(), id, grace, req.Force)
}

func (s *Server) holdRun(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	return s.cfg.Runs.Hold(r.Context(), id)
}

func (s *Server) releaseRun(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	return s.cfg.Runs.Release(r.Context(), id)
}

// rerun submits a copy: the same options and graph, with what the body changes.
func (s *Server) rerun(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	var req api.RerunRequest
	if err := decode(r, &req, true); err != nil {
		return nil, err
	}
	row, err := s.cfg.Store.Run(r.Context(), id)
	if err != nil {
		return nil, err
	}
	copied, err := copyOf(row, req)
	if err != nil {
		return nil, err
	}
	if row.Options.Script == nil && row.Options.Command == nil {
		if len(req.Args) > 0 {
			return nil, api.Errorf(api.Invalid, "args: run %s is a graph and takes none", run.Short(id))
		}
		if copied.Graph, err = s.cfg.Store.Graph(r.Context(), id); err != nil {
			return nil, err
		}
	}
	if err := s.complete(r, &copied); err != nil {
		return nil, err
	}
	replies, err := s.cfg.Runs.Submit(r.Context(), s.user(r), copied)
	if err != nil {
		return nil, err
	}
	return replies[0], nil
}

// copyOf builds the submission of a rerun. A key and a dependency belong to
// the first run alone.
func copyOf(row run.Row, req api.RerunRequest) (api.SubmitRequest, error) {
	o := row.Options.Fresh()
	o.Key, o.After, o.Hold = "", []run.After{}, false
	if req.Args != nil {
		switch {
		case o.Script != nil:
			script := *o.Script
			script.Args, o.Script = req.Args, &script
		case o.Command != nil:
			command := *o.Command
			command.Argv, o.Command = append([]string{command.Argv[0]}, req.Args...), &command
		}
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return api.SubmitRequest{}, fmt.Errorf("copy options of run %s: %w", row.ID, err)
	}
	if len(req.Options) > 0 {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			return api.SubmitRequest{}, fmt.Errorf("copy options of run %s: %w", row.ID, err)
		}
		maps.Copy(m, req.Options)
		if raw, err = json.Marshal(m); err != nil {
			return api.SubmitRequest{}, fmt.Errorf("copy options of run %s: %w", row.ID, err)
		}
	}
	name := &row.Name
	if req.Name != nil {
		name = req.Name
	}
	return api.SubmitRequest{
		Options: raw, Name: name, RerunOf: row.ID, Code: submission.FactsOf(row).Code,
		Git: &api.GitState{Commit: row.GitCommit, Dirty: row.GitDirty},
	}, nil
}

// whole reads a query parameter that is a whole number from low to high.
func whole(q url.Values, name string, def, low, high int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, api.Errorf(api.Invalid, "%s must be a whole number from %d to %d, not %q", name, low, high, text)
	}
	return n, nil
}

// seconds reads a query parameter that is a number of seconds up to most.
func seconds(q url.Values, name string, most float64) (time.Duration, error) {
	text := q.Get(name)
	if text == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= most) {
		return 0, api.Errorf(api.Invalid, "%s must be 0 to %g seconds, not %q", name, most, text)
	}
	return time.Duration(f * float64(time.Second)), nil
}
