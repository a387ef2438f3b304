package httpapi

import (
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"cdui/internal/api"
	"cdui/internal/run"
)

const (
	eventsDefault = 500
	eventsMost    = 2000
	waitMost      = 60
)

func (s *Server) events(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	cursor := int64(0)
	if text := q.Get("cursor"); text != "" {
		if cursor, err = strconv.ParseInt(text, 10, 64); err != nil || cursor < 0 {
			return nil, api.Errorf(api.Invalid, "cursor must be a whole number of 0 or more, not %q", text)
		}
	}
	limit, err := whole(q, "limit", eventsDefault, 1, eventsMost)
	if err != nil {
		return nil, err
	}
	wait, err := seconds(q, "wait", waitMost)
	if err != nil {
		return nil, err
	}
	sub := s.cfg.Feed.Subscribe(id)
	defer sub.Close()
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		page, err := s.page(r, id, cursor, limit)
		if err != nil || len(page.Events) > 0 || !page.Active || wait == 0 {
			return page, err
		}
		select {
		case <-sub.C():
		case <-deadline.C:
			return s.page(r, id, cursor, limit)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-s.done:
			return page, nil
		}
	}
}

// page reads the events after cursor and the status. The status is read first:
// a run that is seen to have ended has all of its events in the page or later.
func (s *Server) page(r *http.Request, id string, cursor int64, limit int) (api.Events, error) {
	row, err := s.cfg.Store.Run(r.Context(), id)
	if err != nil {
		return api.Events{}, err
	}
	events, err := s.cfg.Store.Events(r.Context(), id, cursor, limit, s.cfg.ResponseCap)
	if err != nil {
		return api.Events{}, err
	}
	out := api.Events{RunID: id, Status: row.Status, Active: row.Status.Active(), Events: make([]api.Event, len(events)), Cursor: cursor}
	for i, e := range events {
		out.Events[i] = api.Event{Cursor: e.Cursor, Type: e.Type, Payload: e.Payload, TS: e.TS}
		out.Cursor = e.Cursor
	}
	return out, nil
}

func (s *Server) artifacts(r *http.Request) (any, error) {
	id, err := s.find(r)
	if err != nil {
		return nil, err
	}
	rows, err := s.cfg.Store.Artifacts(r.Context(), id, r.URL.Query().Get("kind"))
	if err != nil {
		return nil, err
	}
	out := api.Artifacts{RunID: id, Artifacts: make([]api.Artifact, len(rows))}
	for i, a := range rows {
		out.Artifacts[i] = api.Artifact{ID: a.ID, Kind: a.Kind, Path: a.Path, Meta: a.Meta, NodeID: a.NodeID, Backend: a.Backend, CreatedAt: a.CreatedAt}
	}
	return out, s.brought(id, out.Artifacts)
}

func (s *Server) dbCheck(r *http.Request) (any, error) {
	report, err := s.cfg.Store.Check(r.Context())
	if err != nil {
		return nil, err
	}
	return api.DBCheck{
		OK: len(report.Findings) == 0, Findings: append([]string{}, report.Findings...), Runs: report.Runs, Events: report.Events,
		Bytes: report.Bytes,
	}, nil
}

func (s *Server) dbBackup(r *http.Request) (any, error) {
	var req api.BackupRequest
	if err := decode(r, &req, false); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(req.Path) {
		return nil, api.Errorf(api.Invalid, "path must be an absolute path, not %q", req.Path)
	}
	size, err := s.cfg.Store.Backup(r.Context(), req.Path)
	if err != nil {
		return nil, api.Errorf(api.Conflict, "%v", err)
	}
	return api.BackupReply{Path: req.Path, Bytes: size}, nil
}

// ended tells whether a run has ended.
func (s *Server) ended(r *http.Request, id string) (bool, error) {
	row, err := s.cfg.Store.Run(r.Context(), id)
	if err != nil {
		return false, err
	}
	return run.Status(row.Status).Terminal(), nil
}
