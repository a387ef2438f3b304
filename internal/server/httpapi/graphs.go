package httpapi

import (
	"encoding/json"
	"io"
	"net/http"

	"cdui/internal/api"
	"cdui/internal/graph"
)

func (s *Server) validateGraph(r *http.Request) (any, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !json.Valid(raw) {
		return nil, api.Errorf(api.Unreadable, "the body is no JSON document")
	}
	report := graph.Inspect(raw, s.cfg.Host.Catalog(r.Context()))
	reply := api.ValidateReply{
		Valid: len(report.Findings) == 0, Errors: []string{},
		Issues: api.IssuesOf(report.Findings), Warnings: api.IssuesOf(report.Warnings),
	}
	for _, f := range report.Findings {
		reply.Errors = append(reply.Errors, f.Message)
	}
	return reply, nil
}

func (s *Server) nodes(r *http.Request) (any, error) {
	return s.cfg.Host.Catalog(r.Context()).Nodes(), nil
}

func (s *Server) presets(r *http.Request) (any, error) {
	return s.cfg.Host.Catalog(r.Context()).Presets(), nil
}
