package httpapi

import (
	"encoding/json"
	"net/http"

	"cdui/internal/api"
	"cdui/internal/run"
)

func (s *Server) provenanceRoutes() []route {
	return []route{
		{method: "GET", path: api.PathRunFingerprint, doc: "What a run was executed with", response: api.Fingerprint{}, call: s.fingerprint},
		{method: "GET", path: api.PathRunProvenance, doc: "What a run's nodes were made of, if it recorded that", response: api.Provenance{}, call: s.provenance},
	}
}

func (s *Server) fingerprint(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	row, err := s.cfg.Store.Run(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if row.FingerprintDigest == "" {
		return nil, api.Errorf(api.NotFound, "nothing is known of what run %s was executed with; commands don't tell, and others only once they have begun or ended", run.Short(id))
	}
	doc, err := s.cfg.Store.Fingerprint(r.Context(), row.FingerprintDigest)
	if err != nil {
		return nil, err
	}
	var facts struct {
		Source string `json:"fingerprint_source"`
	}
	_ = json.Unmarshal(row.Facts, &facts) // facts that can't be read are none
	return api.Fingerprint{RunID: id, Digest: row.FingerprintDigest, Source: facts.Source, Document: doc}, nil
}

func (s *Server) provenance(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	sources, err := s.cfg.Store.Sources(r.Context(), id)
	if err != nil {
		return nil, err
	}
	out := api.Provenance{RunID: id, Sources: make([]json.RawMessage, len(sources))}
	for i, src := range sources {
		out.Sources[i] = src.Record
	}
	return out, nil
}
