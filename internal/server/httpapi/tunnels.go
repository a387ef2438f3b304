package httpapi

import (
	"context"
	"net/http"
	"slices"

	"cdui/internal/api"
)

// Tunnels is what the API asks of the keeper of tunnels.
type Tunnels interface {
	Open(ctx context.Context, req api.TunnelRequest) (api.Tunnel, error)
	Remove(ctx context.Context, worker string) error
	List() []api.Tunnel
	// Pin is the key that is shown at every end.
	Pin() (string, error)
}

func (s *Server) tunnelRoutes() []route {
	if s.cfg.Tunnels == nil {
		return nil
	}
	return []route{
		{method: "GET", path: api.PathTunnels, doc: "The ways to workers through ssh, by worker", response: api.TunnelList{}, call: s.listTunnels},
		{method: "POST", path: api.PathTunnels, role: api.RoleAdmin, doc: "Open the tunnel of a worker, and keep it open", request: api.TunnelRequest{}, response: api.Tunnel{}, act: act{"open", "tunnel"}, call: s.openTunnel},
		{method: "DELETE", path: api.PathTunnel, role: api.RoleAdmin, doc: "Close the tunnel of a worker for good", response: api.TunnelList{}, act: act{"remove", "tunnel"}, call: s.removeTunnel},
	}
}

func (s *Server) listTunnels(*http.Request) (any, error) {
	pin, err := s.cfg.Tunnels.Pin()
	if err != nil {
		return nil, err
	}
	return api.TunnelList{Tunnels: s.cfg.Tunnels.List(), Pin: pin}, nil
}

func (s *Server) openTunnel(r *http.Request) (any, error) {
	var req api.TunnelRequest
	if err := decode(r, &req, false); err != nil {
		return nil, err
	}
	return s.cfg.Tunnels.Open(r.Context(), req)
}

// removeTunnel answers with the tunnels that are left.
func (s *Server) removeTunnel(r *http.Request) (any, error) {
	if err := s.cfg.Tunnels.Remove(r.Context(), r.PathValue("id")); err != nil {
		return nil, err
	}
	return s.listTunnels(r)
}

// dropTunnel closes the tunnel of a worker that is removed, where there is one.
func (s *Server) dropTunnel(ctx context.Context, worker string) {
	if s.cfg.Tunnels == nil {
		return
	}
	if err := s.cfg.Tunnels.Remove(ctx, worker); err != nil && api.CodeOf(err) != api.NotFound {
		s.log.WarnContext(ctx, "close the tunnel of a removed worker", "worker", worker, "error", err)
	}
}

// Door is what is served at the end of a worker's tunnel, where anybody on that
// machine may stand: enrollment, the workers' socket, and the files of the
// worker's own runs. Nothing that comes through it counts as coming from this
// machine, and no token but a worker's opens anything (H-03, CARD-03).
func (s *Server) Door(worker string) http.Handler {
	mux := http.NewServeMux()
	var files, enroll []route
	if s.cfg.Files != nil {
		files = s.codeRoutes()
	}
	if s.cfg.Workers != nil {
		enroll = s.workerRoutes()
		mux.HandleFunc("GET "+api.PathWorkerSocket, func(w http.ResponseWriter, r *http.Request) {
			s.cfg.Workers.ServeTunnel(w, r)
		})
	}
	for _, rt := range slices.Concat(files, enroll) {
		switch rt.path {
		case api.PathWorkerEnroll:
		case api.PathBlob, api.PathRunArtifactUpload, api.PathRunLog:
			if rt.method == http.MethodPut && rt.path == api.PathBlob {
				continue // that is how people bring files
			}
			own := rt.auth
			rt.auth = func(r *http.Request) error {
				if _, ok := s.peer(r); !ok {
					return api.Errorf(api.Unauthorized, "through a tunnel this needs a worker's token")
				}
				return own(r)
			}
		default:
			continue
		}
		mux.Handle(rt.method+" "+rt.path, s.handler(rt))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, api.Errorf(api.NotFound, "nothing of that name is served through a tunnel"))
	})
	// An address that is nobody's, and tells one tunnel from another.
	peer := "[fe80::1%" + worker + "]:1"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.RemoteAddr = peer
		mux.ServeHTTP(w, r)
	})
}
