package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"cdui/internal/api"
	"cdui/internal/catalog"
	"cdui/internal/run"
	"cdui/internal/server/feed"
	"cdui/internal/store"
)

// Runs is what the API asks of the run service.
type Runs interface {
	Submit(ctx context.Context, user string, requests ...api.SubmitRequest) ([]api.SubmitReply, error)
	Call(ctx context.Context, user string, req api.SubmitRequest, inputs map[string]json.RawMessage) (api.SubmitReply, error)
	Cancel(ctx context.Context, id string, grace time.Duration, force bool) (api.CancelReply, error)
	Hold(ctx context.Context, id string) (api.RunState, error)
	Release(ctx context.Context, id string) (api.RunState, error)
	View(row run.Row) api.Run
	Lines(most int) []api.LiveKey
}

// Host is the control plane around the API.
type Host interface {
	Info() api.ServerInfo
	Status(ctx context.Context) api.ServerStatus
	Problems(ctx context.Context) []api.Problem
	// Catalog gives the node types and presets that are known now.
	Catalog(ctx context.Context) *catalog.Catalog
	// Graph reads a stored graph by its name.
	Graph(name string) (json.RawMessage, error)
	// Shutdown asks the control plane to stop; it returns before it has.
	Shutdown(cancelRuns bool) (left int)
	// Console reads a run's output, live or ended, wherever it lies.
	Console(ctx context.Context, runID string) Console
	// Pin keeps a run's bytes from retention, or lets them go.
	Pin(runID string, pinned bool) error
	// Forget removes the files of a run whose row was deleted.
	Forget(runID string)
}

// Config is what the API is made of. All fields but Workers, Tokens, Policies,
// Sweeps, Studies, Files, Peers, Tunnels, Hooks, Outcomes and Logger are required.
type Config struct {
	Runs  Runs
	Host  Host
	Store *store.Store
	Feed  *feed.Hub
	// Workers knows the workers, Tokens the users; nil is none.
	Workers Workers
	Tokens  Tokens
	// Policies keeps what people decide of devices and queues; nil keeps nothing.
	Policies Policies
	// Sweeps and Studies are those of the control plane; nil is none.
	Sweeps  Sweeps
	Studies Studies
	// Files keeps what runs bring along and leave; nil takes nothing. Peers
	// knows the workers that call; nil knows none.
	Files Files
	Peers Peers
	// Tunnels keeps the ways to workers through ssh; nil keeps none.
	Tunnels Tunnels
	// Hooks are called when something happens; nil keeps none.
	Hooks Hooks
	// Outcomes counts the runs that ended since the start; nil counts none.
	Outcomes func() map[Outcome]uint64
	// TokenHash is the hash of the session token that writes need.
	TokenHash string
	// AllowedHosts are names beyond loopback that requests may be addressed to.
	AllowedHosts []string
	// Listen is the address that the server listens on.
	Listen      string
	BodyCap     int64
	ResponseCap int
	Logger      *slog.Logger
}

// Server is the API.
type Server struct {
	cfg  Config
	log  *slog.Logger
	mux  *http.ServeMux
	done chan struct{}

	mu     sync.Mutex
	closed bool
	// sockets are the open connections of /ws/execution and /ws/live. None is
	// added once closed is set.
	sockets sync.WaitGroup
	// actions counts what came into the log of actions, for readers of the feed.
	actions atomic.Int64
}

// New builds the API.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, log: cfg.Logger, mux: http.NewServeMux(), done: make(chan struct{})}
	for _, r := range s.routes() {
		s.mux.Handle(r.method+" "+r.path, s.handler(r))
	}
	s.mux.Handle("GET "+api.PathExecution, http.HandlerFunc(s.execution))
	s.mux.Handle("GET "+api.PathLive, http.HandlerFunc(s.live))
	if cfg.Workers != nil {
		s.mux.Handle("GET "+api.PathWorkerSocket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cfg.Workers.Serve(w, r, s.hostAllowed(r.Host))
		}))
	}
	s.mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, api.Errorf(api.NotFound, "no route %s %s; see %s", r.Method, r.URL.Path, api.PathOpenAPI))
	}))
	return s
}

// ServeHTTP checks the Host header before anything else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The sockets say so with a close code of their own.
	if !s.hostAllowed(r.Host) && r.URL.Path != api.PathExecution && r.URL.Path != api.PathWorkerSocket {
		s.fail(w, r, api.Errorf(api.Misdirected, "this control plane doesn't answer to the name %q; allow it with CDUI_ALLOWED_HOSTS", r.Host))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Close ends long polls and sockets and waits for the sockets.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.sockets.Wait()
}

// upgrade makes a request a socket that Close waits for until the caller says
// sockets.Done. Without one the request has been answered.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, bool) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.sockets.Add(1)
	}
	s.mu.Unlock()
	if closed {
		s.fail(w, r, api.Errorf(api.Unavailable, "the control plane stops"))
		return nil, false
	}
	// Who may come from where is looked at by the handlers.
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		s.sockets.Done()
		return nil, false
	}
	return conn, true
}

// route is one entry of the table. Exactly one of call and serve is set: call
// answers with a JSON document, serve writes the response itself.
type route struct {
	method, path string
	// reads: a POST that changes nothing, allowed to whoever may read.
	reads bool
	// role is what the caller's token must allow; without one it goes by the
	// method.
	role api.Role
	// act is what the route does to what; what succeeds goes into the log of
	// actions.
	act    act
	doc    string
	status int
	// auth decides in place of the ordinary rules.
	auth func(r *http.Request) error
	// bodyCap bounds the body in place of the setting; negative: the handler
	// does it while it reads.
	bodyCap int64
	// request and response are zero values of the bodies' types, nil for none.
	request, response any
	params            []param
	call              func(r *http.Request) (any, error)
	serve             func(w http.ResponseWriter, r *http.Request) error
}

// param is a query parameter, for the OpenAPI document.
type param struct {
	name, kind, doc string
	repeated        bool
}

func (s *Server) handler(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.allowed(rt, r); err != nil {
			s.fail(w, r, err)
			return
		}
		switch {
		case rt.bodyCap == 0:
			r.Body = http.MaxBytesReader(w, r.Body, s.cfg.BodyCap)
		case rt.bodyCap > 0:
			r.Body = http.MaxBytesReader(w, r.Body, rt.bodyCap)
		}
		if rt.serve != nil {
			if err := rt.serve(w, r); err != nil {
				s.fail(w, r, err)
			}
			return
		}
		body, err := rt.call(r)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if rt.act.verb != "" {
			object, detail := changed(r, body)
			s.note(r.Context(), s.origin(r, givenToken(r)), rt.act, object, detail)
		}
		status := rt.status
		if status == 0 {
			status = http.StatusOK
		}
		s.write(w, status, body)
	})
}

func (s *Server) allowed(rt route, r *http.Request) error {
	if rt.auth != nil {
		return rt.auth(r)
	}
	if rt.role != "" {
		return s.permit(r, rt.role)
	}
	return s.authorise(r, rt.reads || rt.method == http.MethodGet)
}

func (s *Server) write(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		s.log.Error("encode reply", "error", err)
		http.Error(w, `{"error":{"code":"internal","message":"the reply could not be encoded"}}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the caller is gone; nobody to tell
}

// fail answers with the error envelope. What is no *api.Error is logged and
// not sent.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var e *api.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		e = api.Errorf(api.TooLarge, "the request's body is larger than %d bytes", tooLarge.Limit).With("limit", tooLarge.Limit)
	case refusal(err) != nil:
		e = refusal(err)
	case r.Context().Err() != nil:
		return
	default:
		s.log.ErrorContext(r.Context(), "request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		e = api.Errorf(api.Internal, "the control plane could not answer; its log says why")
	}
	s.write(w, e.Code.Status(), api.ErrorBody{Error: e})
}

// refusal is what a caller is told of an error that has a code, nil for others.
func refusal(err error) *api.Error {
	var e *api.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, store.ErrNotFound):
		return api.Errorf(api.NotFound, "%v", err)
	case errors.Is(err, store.ErrNotActive), errors.Is(err, store.ErrActive):
		return api.Errorf(api.Conflict, "%v", err)
	case errors.Is(err, store.ErrFull):
		return api.Errorf(api.StorageFull, "the disk of the control plane's data folder is full; free some space and try again")
	case errors.Is(err, store.ErrBusy):
		return api.Errorf(api.StorageBusy, "another program holds the control plane's database locked; try again when it has finished")
	}
	return nil
}

// decode reads a JSON body. An empty one leaves v as it is when optional.
func decode(r *http.Request, v any, optional bool) error {
	return decodeFrom(r, json.NewDecoder(r.Body), v, optional)
}

// decodeStrict is decode for a body whose unknown keys are refused.
func decodeStrict(r *http.Request, v any, optional bool) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	return decodeFrom(r, dec, v, optional)
}

func decodeFrom(r *http.Request, dec *json.Decoder, v any, optional bool) error {
	err := dec.Decode(v)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		if dec.More() {
			return api.Errorf(api.Unreadable, "the body holds more than one JSON document")
		}
		return nil
	case errors.As(err, &tooLarge):
		return err
	case optional && r.ContentLength == 0:
		return nil
	}
	return api.Errorf(api.Unreadable, "the body is not the JSON that this route takes: %v", err)
}
