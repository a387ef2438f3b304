package httpapi

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"cdui/internal/api"
	"cdui/internal/codeset"
	"cdui/internal/protocol"
	"cdui/internal/run"
)

// Files is what the API asks of the keeper of files.
type Files interface {
	AddCode(ctx context.Context, raw []byte) (api.CodeReply, error)
	Code(ctx context.Context, hash, program string) (api.CodeRef, error)
	PutContent(ctx context.Context, sum string, r io.Reader) error
	OpenContent(sum string) (*os.File, error)
	SaveArtifact(ctx context.Context, runID string, a api.ArtifactUpload, r io.Reader) (api.UploadReply, error)
	// Brought maps what a run's files were called on their worker to where they
	// are here.
	Brought(runID string) (map[string]string, error)
	SaveLog(ctx context.Context, runID string, r io.Reader) error
}

// Peers knows the workers that call.
type Peers interface {
	// Worker gives the worker that a token belongs to.
	Worker(ctx context.Context, token string) (name string, ok bool)
	// Holds tells whether a run is placed on a worker now.
	Holds(ctx context.Context, worker, runID string) bool
	// MayRead tells whether a run that is placed on a worker needs a content.
	MayRead(ctx context.Context, worker, sum string) bool
}

func (s *Server) codeRoutes() []route {
	if s.cfg.Files == nil {
		return nil
	}
	return []route{
		{method: "POST", path: api.PathCode, bodyCap: codeset.MaxManifestBytes, doc: "Announce the folder of a program: its list of files", response: api.CodeReply{}, call: s.addCode},
		{method: "PUT", path: api.PathBlob, bodyCap: -1, doc: "Send one content, by its SHA-256", response: api.UploadReply{}, call: s.putContent},
		{method: "GET", path: api.PathBlob, auth: s.mayReadContent, doc: "Read one content, whole or in part", serve: s.getContent},
		{
			method: "POST", path: api.PathRunArtifactUpload, bodyCap: -1, auth: s.mayUpload,
			doc: "Bring back a file of a run; for its worker", response: api.UploadReply{}, call: s.saveArtifact,
			params: []param{
				{"path", "string", "where it goes below the run's artifacts", false},
				{"source", "string", "the absolute path that the run reported it by", false},
			},
		},
		{method: "PUT", path: api.PathRunLog, bodyCap: 2*api.MaxLogBytes + 1<<20, auth: s.mayUpload, doc: "Bring back the console of a run, as a tar of its files; for its worker", response: api.RunState{}, call: s.saveLog},
	}
}

// peer gives the worker whose token a request bears.
func (s *Server) peer(r *http.Request) (string, bool) {
	if s.cfg.Peers == nil || r.Header.Get("Origin") != "" {
		return "", false
	}
	return s.cfg.Peers.Worker(r.Context(), givenToken(r))
}

// mayReadContent lets a worker read what its runs need, and others what they
// may read anyway.
func (s *Server) mayReadContent(r *http.Request) error {
	worker, ok := s.peer(r)
	if !ok {
		return s.authorise(r, true)
	}
	if !s.cfg.Peers.MayRead(r.Context(), worker, r.PathValue("sha256")) {
		// The same for what isn't here, so that nobody can ask what is.
		return api.Errorf(api.Unauthorized, "no run of worker %s needs this content", worker)
	}
	return nil
}

// mayUpload lets the worker in that holds the run, and whoever may do anything,
// such as an agent of this machine that has the control plane's own token.
func (s *Server) mayUpload(r *http.Request) error {
	worker, ok := s.peer(r)
	if !ok {
		return s.permit(r, api.RoleAdmin)
	}
	if !s.cfg.Peers.Holds(r.Context(), worker, r.PathValue("id")) {
		return api.Errorf(api.Unauthorized, "worker %s holds no run %.64q", worker, r.PathValue("id"))
	}
	return nil
}

func (s *Server) addCode(r *http.Request) (any, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unfinished(r, err)
	}
	return s.cfg.Files.AddCode(r.Context(), raw)
}

func (s *Server) putContent(r *http.Request) (any, error) {
	sum := r.PathValue("sha256")
	if err := s.cfg.Files.PutContent(r.Context(), sum, r.Body); err != nil {
		return nil, unfinished(r, err)
	}
	return api.UploadReply{SHA256: sum, Size: max(0, r.ContentLength)}, nil
}

func (s *Server) getContent(w http.ResponseWriter, r *http.Request) error {
	sum := r.PathValue("sha256")
	f, err := s.cfg.Files.OpenContent(sum)
	if err != nil {
		return err
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("ETag", `"`+sum+`"`)
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}

// executing finds the run that a worker brings something of.
func (s *Server) executing(r *http.Request) (run.Row, error) {
	row, err := s.cfg.Store.Run(r.Context(), r.PathValue("id"))
	if err != nil {
		return row, err
	}
	if row.Status.Terminal() {
		return row, api.Errorf(api.Conflict, "run %s has ended; nothing more of it is taken", run.Short(row.ID)).With("status", row.Status)
	}
	return row, nil
}

func (s *Server) saveArtifact(r *http.Request) (any, error) {
	row, err := s.executing(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	reply, err := s.cfg.Files.SaveArtifact(r.Context(), row.ID, api.ArtifactUpload{
		Path: protocol.Path(q.Get("path")), Source: q.Get("source"),
		SHA256: r.Header.Get(api.HeaderSHA256), Size: r.ContentLength,
	}, r.Body)
	if err != nil {
		return nil, unfinished(r, err)
	}
	return reply, nil
}

// brought gives the rows of artifacts that came back from a worker the place
// where they are here.
func (s *Server) brought(runID string, artifacts []api.Artifact) error {
	if s.cfg.Files == nil || len(artifacts) == 0 {
		return nil
	}
	places, err := s.cfg.Files.Brought(runID)
	if err != nil || len(places) == 0 {
		return err
	}
	for i, a := range artifacts {
		if here, ok := placeOf(places, a.Path); ok {
			artifacts[i].Path, artifacts[i].Backend = here, string(protocol.BackendTransfer)
		}
	}
	return nil
}

// placeOf finds a file, or a folder by one of its files.
func placeOf(places map[string]string, source string) (string, bool) {
	if here, ok := places[source]; ok {
		return here, true
	}
	for from, here := range places {
		below, ok := strings.CutPrefix(from, source+"/")
		if !ok {
			continue
		}
		if dir, ok := strings.CutSuffix(here, "/"+below); ok {
			return dir, true
		}
	}
	return "", false
}

func (s *Server) saveLog(r *http.Request) (any, error) {
	row, err := s.executing(r)
	if err != nil {
		return nil, err
	}
	if err := s.cfg.Files.SaveLog(r.Context(), row.ID, r.Body); err != nil {
		return nil, unfinished(r, err)
	}
	return api.RunState{RunID: row.ID, Status: row.Status}, nil
}

// unfinished keeps quiet about a sender that went away in the middle.
func unfinished(r *http.Request, err error) error {
	if r.Context().Err() != nil {
		return context.Cause(r.Context())
	}
	return err
}

// code completes what a submission says of its folder: that must be here
// whole, and the script in it.
func (s *Server) code(r *http.Request, req *api.SubmitRequest) error {
	if req.Code == nil {
		return nil
	}
	if s.cfg.Files == nil {
		return api.Errorf(api.Unavailable, "this control plane takes no folders of programs")
	}
	o, err := run.ParseOptions(req.Options)
	if err != nil {
		return nil //nolint:nilerr // the submission is refused for it, in better words
	}
	program := ""
	if o.Script != nil {
		// A path that lies elsewhere is refused with the rest of the submission.
		program, _ = req.Code.Rel(o.Script.Path)
	}
	ref, err := s.cfg.Files.Code(r.Context(), req.Code.Hash, program)
	if err != nil {
		return err
	}
	ref.Root = req.Code.Root
	req.Code = &ref
	return nil
}
