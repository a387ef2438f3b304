package httpapi

import (
	"net/http"

	"cdui/internal/api"
)

func (s *Server) pinRun(r *http.Request) (any, error) { return s.setPin(r, true) }

func (s *Server) unpinRun(r *http.Request) (any, error) { return s.setPin(r, false) }

func (s *Server) setPin(r *http.Request, pinned bool) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	row, err := s.cfg.Store.Run(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Host.Pin(id, pinned); err != nil {
		return nil, err
	}
	return api.RunState{RunID: id, Status: row.Status, Held: row.Options.Hold && row.Status.Active()}, nil
}
