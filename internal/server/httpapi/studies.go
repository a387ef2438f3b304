package httpapi

import (
	"context"
	"net/http"

	"cdui/internal/api"
)

// Studies is what the API asks of the keeper of studies. Ids may be shortened.
type Studies interface {
	Create(ctx context.Context, user string, req api.StudyRequest) (api.StudyReply, error)
	List(ctx context.Context, limit, offset int) (api.StudyList, error)
	Show(ctx context.Context, id string) (api.Study, error)
	Cancel(ctx context.Context, id string) (api.Study, error)
	Resume(ctx context.Context, id string, req api.StudyResumeRequest) (api.Study, error)
}

func (s *Server) studyRoutes() []route {
	if s.cfg.Studies == nil {
		return nil
	}
	return []route{
		{method: "GET", path: api.PathStudies, doc: "Studies, newest first", response: api.StudyList{}, params: page(), call: s.listStudies},
		{method: "POST", path: api.PathStudies, doc: "Queue a study, all of its repetitions or none", status: http.StatusCreated, request: api.StudyRequest{}, response: api.StudyReply{}, act: act{"submit", "study"}, call: s.createStudy},
		{method: "GET", path: api.PathStudy, doc: "One study with its repetitions", response: api.Study{}, call: s.showStudy},
		{method: "POST", path: api.PathStudyCancel, doc: "Stop a study and its attempts", response: api.Study{}, act: act{"cancel", "study"}, call: s.cancelStudy},
		{method: "POST", path: api.PathStudyResume, doc: "Start the unscored repetitions over", request: api.StudyResumeRequest{}, response: api.Study{}, act: act{"resume", "study"}, call: s.resumeStudy},
	}
}

func (s *Server) listStudies(r *http.Request) (any, error) {
	limit, offset, err := paging(r)
	if err != nil {
		return nil, err
	}
	return s.cfg.Studies.List(r.Context(), limit, offset)
}

func (s *Server) createStudy(r *http.Request) (any, error) {
	var req api.StudyRequest
	if err := decodeStrict(r, &req, false); err != nil {
		return nil, err
	}
	of := api.SubmitRequest{Options: req.Options, Code: req.Code}
	if err := s.complete(r, &of); err != nil {
		return nil, err
	}
	req.Code = of.Code
	return s.cfg.Studies.Create(r.Context(), s.user(r), req)
}

func (s *Server) showStudy(r *http.Request) (any, error) {
	return s.cfg.Studies.Show(r.Context(), r.PathValue("id"))
}

func (s *Server) cancelStudy(r *http.Request) (any, error) {
	return s.cfg.Studies.Cancel(r.Context(), r.PathValue("id"))
}

func (s *Server) resumeStudy(r *http.Request) (any, error) {
	var req api.StudyResumeRequest
	if err := decodeStrict(r, &req, true); err != nil {
		return nil, err
	}
	return s.cfg.Studies.Resume(r.Context(), r.PathValue("id"), req)
}
