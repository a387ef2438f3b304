package httpapi

import (
	"math"
	"net/http"
	"slices"

	"cdui/internal/api"
	"cdui/internal/catalog"
)

// routes is the whole REST API.
func (s *Server) routes() []route {
	return slices.Concat(s.actionRoutes(), s.hookRoutes(), s.codeRoutes(), s.workerRoutes(), s.tokenRoutes(), s.policyRoutes(), s.tunnelRoutes(), s.sweepRoutes(), s.studyRoutes(), s.provenanceRoutes(), []route{
		{method: "GET", path: api.PathHealth, doc: "Whether the control plane is well", response: api.Health{}, call: s.health},
		{method: "GET", path: api.PathStatus, doc: "The control plane, its devices and counts", response: api.ServerStatus{}, call: s.status},
		{method: "GET", path: api.PathMeasures, doc: "Control plane, queue, devices and runs, as text for Prometheus", serve: s.measures},
		{method: "GET", path: api.PathOpenAPI, doc: "This document", serve: s.openapi},
		{method: "POST", path: api.PathShutdown, role: api.RoleAdmin, doc: "Stop the control plane; runs go on", request: api.ShutdownRequest{}, response: api.ShutdownReply{}, act: act{"stop", "server"}, call: s.shutdown},
		{
			method: "GET", path: api.PathRuns, doc: "Runs, newest first", response: api.RunList{}, call: s.listRuns,
			params: []param{
				{"status", "string", "only runs in this status", true},
				{"tag", "string", "only runs with this tag", false},
				{"user", "string", "only runs of this user", false},
				{"limit", "integer", "1 to 500, 50 by default", false},
				{"offset", "integer", "how many to skip", false},
			},
		},
		{method: "POST", path: api.PathRuns, doc: "Submit a run", request: api.SubmitRequest{}, response: api.SubmitReply{}, act: act{"submit", "run"}, call: s.submit},
		{method: "POST", path: api.PathRunsBulk, doc: "Submit up to 1,000 runs, all or none", request: api.BulkRequest{}, response: api.BulkReply{}, act: act{"submit", "run"}, call: s.submitBulk},
		{method: "GET", path: api.PathRun, doc: "One run; the id may be any unique prefix", response: api.Run{}, call: s.showRun},
		{method: "DELETE", path: api.PathRun, doc: "Remove an ended run with all that is recorded of it", status: http.StatusOK, response: api.RunState{}, act: act{"remove", "run"}, call: s.deleteRun},
		{method: "GET", path: api.PathRunGraph, doc: "The graph that was submitted", serve: s.runGraph},
		{
			method: "GET", path: api.PathRunEvents, doc: "Events after a cursor, as a long poll when wait is given", response: api.Events{}, call: s.events,
			params: []param{
				{"cursor", "integer", "the last cursor that the reader has; 0 is none", false},
				{"wait", "number", "seconds to wait for a first event, up to 60", false},
				{"limit", "integer", "1 to 2000, 500 by default", false},
			},
		},
		{
			method: "GET", path: api.PathRunMetrics, doc: "All metrics of a run, as JSON or CSV", response: api.Metrics{}, serve: s.metrics,
			params: []param{{"name", "string", "only this series", false}, {"format", "string", "json or csv", false}},
		},
		{
			method: "GET", path: api.PathRunArtifacts, doc: "Files that a run produced, oldest first", response: api.Artifacts{}, call: s.artifacts,
			params: []param{{"kind", "string", "only this kind", false}},
		},
		{
			method: "GET", path: api.PathRunLog, doc: "Console output, byte for byte, from an offset", serve: s.runLog,
			params: []param{
				{"offset", "integer", "where to start", false},
				{"limit", "integer", "most bytes; without it all that is there", false},
				{"wait", "number", "seconds to wait for a first byte, up to 60", false},
			},
		},
		{method: "GET", path: api.PathRunLogIndex, doc: "When which part of the console output was written", response: api.LogIndex{}, call: s.runLogIndex},
		{method: "POST", path: api.PathRunCancel, doc: "Ask a run to stop", request: api.CancelRequest{}, response: api.CancelReply{}, act: act{"cancel", "run"}, call: s.cancelRun},
		{method: "POST", path: api.PathRunHold, doc: "Keep a waiting run from starting", response: api.RunState{}, act: act{"hold", "run"}, call: s.holdRun},
		{method: "POST", path: api.PathRunRelease, doc: "Let a held run queue again", response: api.RunState{}, act: act{"release", "run"}, call: s.releaseRun},
		{method: "POST", path: api.PathRunPin, doc: "Keep a run's logs and outputs from being pruned", response: api.RunState{}, act: act{"pin", "run"}, call: s.pinRun},
		{method: "DELETE", path: api.PathRunPin, doc: "Let them be pruned again", response: api.RunState{}, act: act{"unpin", "run"}, call: s.unpinRun},
		{method: "POST", path: api.PathRunRerun, doc: "Submit a copy of a run", request: api.RerunRequest{}, response: api.SubmitReply{}, act: act{"rerun", "run"}, call: s.rerun},
		{method: "GET", path: api.PathQueue, doc: "Every queue key with its order and reasons", response: api.Queue{}, call: s.queue},
		{method: "POST", path: api.PathGraphValidate, reads: true, doc: "All findings of a graph", response: api.ValidateReply{}, call: s.validateGraph},
		{method: "GET", path: api.PathGraphContract, doc: "What a stored graph takes and gives", response: api.ContractReply{}, call: s.graphContract},
		{method: "POST", path: api.PathGraphRun, doc: "Call a stored graph as a function", request: api.FunctionRequest{}, response: api.FunctionReply{}, serve: s.graphRun},
		{method: "GET", path: api.PathNodes, doc: "The node types", response: []catalog.Definition{}, call: s.nodes},
		{method: "GET", path: api.PathPresets, doc: "The presets", response: []catalog.Preset{}, call: s.presets},
		{method: "GET", path: api.PathDBCheck, doc: "Check the database", response: api.DBCheck{}, call: s.dbCheck},
		{method: "POST", path: api.PathDBBackup, role: api.RoleAdmin, doc: "Copy the database to a file on the server's machine", request: api.BackupRequest{}, response: api.BackupReply{}, act: act{"backup", "database"}, call: s.dbBackup},
	})
}

func (s *Server) health(r *http.Request) (any, error) {
	info := s.cfg.Host.Info()
	cat := s.cfg.Host.Catalog(r.Context())
	h := api.Health{Status: "ok", Version: info.Version, BootID: info.BootID, NodesLoaded: len(cat.NodeNames()), PresetsLoaded: len(cat.PresetNames()), Problems: s.cfg.Host.Problems(r.Context())}
	if len(h.Problems) > 0 {
		h.Status = "degraded"
	}
	return h, nil
}

func (s *Server) status(r *http.Request) (any, error) { return s.cfg.Host.Status(r.Context()), nil }

func (s *Server) queue(*http.Request) (any, error) {
	lines := s.cfg.Runs.Lines(math.MaxInt)
	out := api.Queue{Keys: make([]api.QueueKey, len(lines))}
	for i, l := range lines {
		out.Keys[i] = l.QueueKey
	}
	return out, nil
}

func (s *Server) shutdown(r *http.Request) (any, error) {
	var req api.ShutdownRequest
	if err := decode(r, &req, true); err != nil {
		return nil, err
	}
	return api.ShutdownReply{Left: s.cfg.Host.Shutdown(req.CancelRuns)}, nil
}
