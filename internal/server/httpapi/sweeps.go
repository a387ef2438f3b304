package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"cdui/internal/api"
)

// Sweeps is what the API asks of the keeper of sweeps. Ids may be shortened.
type Sweeps interface {
	Create(ctx context.Context, user string, req api.SweepRequest) (api.SweepReply, error)
	List(ctx context.Context, limit, offset int) (api.SweepList, error)
	Show(ctx context.Context, id string) (api.Sweep, error)
	// CSV gives the sweep's whole id and its variants as a table.
	CSV(ctx context.Context, id string) (string, []byte, error)
	Cancel(ctx context.Context, id string) (api.SweepCancelReply, error)
	Rerun(ctx context.Context, user, id string) (api.SweepRerunReply, error)
}

// page is what the lists of sweeps and of studies are asked.
func page() []param {
	return []param{{"limit", "integer", "1 to 500, 50 by default", false}, {"offset", "integer", "how many to skip", false}}
}

func (s *Server) sweepRoutes() []route {
	if s.cfg.Sweeps == nil {
		return nil
	}
	return []route{
		{method: "GET", path: api.PathSweeps, doc: "Sweeps, newest first", response: api.SweepList{}, params: page(), call: s.listSweeps},
		{method: "POST", path: api.PathSweeps, doc: "Queue a sweep, all of its variants or none", status: http.StatusCreated, request: api.SweepRequest{}, response: api.SweepReply{}, act: act{"submit", "sweep"}, call: s.createSweep},
		{
			method: "GET", path: api.PathSweep, doc: "One sweep with its variants by rank, as JSON or CSV", response: api.Sweep{}, serve: s.showSweep,
			params: []param{{"format", "string", "json or csv", false}},
		},
		{method: "POST", path: api.PathSweepCancel, doc: "Ask the variants to stop that have not ended", response: api.SweepCancelReply{}, act: act{"cancel", "sweep"}, call: s.cancelSweep},
		{method: "POST", path: api.PathSweepRerun, doc: "Queue the variants again that failed, were stopped or are missing", response: api.SweepRerunReply{}, act: act{"rerun", "sweep"}, call: s.rerunSweep},
	}
}

func (s *Server) listSweeps(r *http.Request) (any, error) {
	limit, offset, err := paging(r)
	if err != nil {
		return nil, err
	}
	return s.cfg.Sweeps.List(r.Context(), limit, offset)
}

func paging(r *http.Request) (limit, offset int, err error) {
	q := r.URL.Query()
	if limit, err = whole(q, "limit", 50, 1, 500); err != nil {
		return 0, 0, err
	}
	offset, err = whole(q, "offset", 0, 0, 1<<31-1)
	return limit, offset, err
}

func (s *Server) createSweep(r *http.Request) (any, error) {
	var req api.SweepRequest
	if err := decodeStrict(r, &req, false); err != nil {
		return nil, err
	}
	of := api.SubmitRequest{Options: req.Options, Code: req.Code}
	if err := s.complete(r, &of); err != nil {
		return nil, err
	}
	req.Code = of.Code
	return s.cfg.Sweeps.Create(r.Context(), s.user(r), req)
}

func (s *Server) showSweep(w http.ResponseWriter, r *http.Request) error {
	switch format := r.URL.Query().Get("format"); format {
	case "", "json":
		v, err := s.cfg.Sweeps.Show(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		s.write(w, http.StatusOK, v)
		return nil
	case "csv":
		id, body, err := s.cfg.Sweeps.CSV(r.Context(), r.PathValue("id"))
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="sweep-%s.csv"`, id))
		_, err = w.Write(body)
		return gone(err)
	default:
		return api.Errorf(api.Invalid, "format is %q; use json or csv", format)
	}
}

func (s *Server) cancelSweep(r *http.Request) (any, error) {
	return s.cfg.Sweeps.Cancel(r.Context(), r.PathValue("id"))
}

func (s *Server) rerunSweep(r *http.Request) (any, error) {
	return s.cfg.Sweeps.Rerun(r.Context(), s.user(r), r.PathValue("id"))
}
