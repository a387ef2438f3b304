package httpapi

import (
	"context"
	"net/http"

	"cdui/internal/api"
)

// Workers is what the API asks of the registry of workers.
type Workers interface {
	List(ctx context.Context) []api.Worker
	Worker(ctx context.Context, name string) (api.Worker, error)
	Drain(ctx context.Context, name string, on bool) (api.Worker, error)
	Remove(ctx context.Context, name string) error
	Enrollments
	// Serve answers a connection of an agent; it has its own ways of refusing.
	Serve(w http.ResponseWriter, r *http.Request, hostAllowed bool)
	// ServeTunnel answers one that came through a tunnel.
	ServeTunnel(w http.ResponseWriter, r *http.Request)
}

// Enrollments lets workers in.
type Enrollments interface {
	NewEnrollment(ctx context.Context, user string, req api.EnrollmentRequest) (api.EnrollmentReply, error)
	Rekey(ctx context.Context, user, name string) (api.EnrollmentReply, error)
	Enroll(r *http.Request, req api.EnrollRequest) (api.EnrollReply, error)
}

// enrollBody bounds the body of whoever has no token yet.
const enrollBody = 16 << 10

func (s *Server) workerRoutes() []route {
	if s.cfg.Workers == nil {
		return nil
	}
	return []route{
		{method: "GET", path: api.PathWorkers, doc: "The workers, by name", response: api.WorkerList{}, call: s.listWorkers},
		{method: "GET", path: api.PathWorker, doc: "One worker", response: api.Worker{}, call: s.showWorker},
		{method: "DELETE", path: api.PathWorker, role: api.RoleAdmin, doc: "Forget a worker; its runs end", response: api.WorkerList{}, act: act{"remove", "worker"}, call: s.removeWorker},
		{method: "POST", path: api.PathWorkerDrain, role: api.RoleAdmin, doc: "Keep new runs from a worker", response: api.Worker{}, act: act{"drain", "worker"}, call: s.drainWorker(true)},
		{method: "POST", path: api.PathWorkerUndrain, role: api.RoleAdmin, doc: "Let a worker take runs again", response: api.Worker{}, act: act{"undrain", "worker"}, call: s.drainWorker(false)},
		{method: "POST", path: api.PathWorkerRekey, role: api.RoleAdmin, doc: "Take a worker's token away and make one that enrolls it again", response: api.EnrollmentReply{}, act: act{"rekey", "worker"}, call: s.rekeyWorker},
		{method: "POST", path: api.PathWorkerEnrollments, role: api.RoleAdmin, doc: "Make a one-time token for a new worker", request: api.EnrollmentRequest{}, response: api.EnrollmentReply{}, act: act{"add", "worker"}, call: s.newEnrollment},
		{
			method: "POST", path: api.PathWorkerEnroll, auth: s.fromNoPage, bodyCap: enrollBody,
			doc: "Exchange a one-time token for a worker's own", request: api.EnrollRequest{}, response: api.EnrollReply{}, act: act{"enroll", "worker"}, call: s.enrollWorker,
		},
	}
}

// fromNoPage lets everybody in but web pages.
func (s *Server) fromNoPage(r *http.Request) error {
	if r.Header.Get("Origin") != "" {
		return api.Errorf(api.Unauthorized, "pages may not enroll workers")
	}
	return nil
}

func (s *Server) listWorkers(r *http.Request) (any, error) {
	return api.WorkerList{Workers: s.cfg.Workers.List(r.Context())}, nil
}

func (s *Server) showWorker(r *http.Request) (any, error) {
	return s.cfg.Workers.Worker(r.Context(), r.PathValue("id"))
}

// removeWorker answers with the workers that are left.
func (s *Server) removeWorker(r *http.Request) (any, error) {
	if err := s.cfg.Workers.Remove(r.Context(), r.PathValue("id")); err != nil {
		return nil, err
	}
	s.dropTunnel(r.Context(), r.PathValue("id"))
	return s.listWorkers(r)
}

func (s *Server) drainWorker(on bool) func(r *http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		return s.cfg.Workers.Drain(r.Context(), r.PathValue("id"), on)
	}
}

func (s *Server) rekeyWorker(r *http.Request) (any, error) {
	return s.cfg.Workers.Rekey(r.Context(), s.user(r), r.PathValue("id"))
}

func (s *Server) newEnrollment(r *http.Request) (any, error) {
	var req api.EnrollmentRequest
	if err := decode(r, &req, true); err != nil {
		return nil, err
	}
	return s.cfg.Workers.NewEnrollment(r.Context(), s.user(r), req)
}

func (s *Server) enrollWorker(r *http.Request) (any, error) {
	var req api.EnrollRequest
	if err := decode(r, &req, false); err != nil {
		return nil, err
	}
	return s.cfg.Workers.Enroll(r, req)
}
