package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cdui/internal/api"
	"cdui/internal/graph/function"
	"cdui/internal/run"
)

// The codes of function calls beyond those of package function.
const (
	codeGraphNotFound     = "graph_not_found"
	codeGraphUnreadable   = "graph_unreadable"
	codeExecution         = "execution_error"
	codeTimeout           = "timeout"
	codeOutputNotProduced = "output_not_produced"
	codeOutputTooLarge    = "output_too_large"
	codeUnserializable    = "unserializable_output"
	codePayloadTooLarge   = "payload_too_large"
	functionTimeout       = 300 * time.Second
	functionLeast         = time.Second
	functionMost          = time.Hour
	functionCancelGrace   = 5 * time.Second
	functionAppName       = "cdui"
)

func functionStatus(code string) int {
	switch code {
	case "":
		return http.StatusOK
	case codeGraphNotFound:
		return http.StatusNotFound
	case function.CodeInvalidInput:
		return http.StatusUnprocessableEntity
	case codePayloadTooLarge:
		return http.StatusRequestEntityTooLarge
	case function.CodeInvalidContract, function.CodeNoEntryPoints, function.CodeUntriggeredInput,
		function.CodeUnreachableOutput, function.CodeInvalidGraph:
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// contractOf reads a stored graph and what it takes and gives.
func (s *Server) contractOf(r *http.Request) (json.RawMessage, function.Contract, []function.Problem, error) {
	raw, err := s.cfg.Host.Graph(r.PathValue("name"))
	if err != nil {
		return nil, function.Contract{}, nil, err
	}
	if !json.Valid(raw) {
		return nil, function.Contract{}, nil, api.Errorf(api.Internal, "graph %q can't be read: its file is not JSON", r.PathValue("name"))
	}
	contract, problems := function.Of(raw, s.cfg.Host.Catalog(r.Context()))
	return raw, contract, problems, nil
}

func (s *Server) graphContract(r *http.Request) (any, error) {
	_, contract, problems, err := s.contractOf(r)
	if err != nil {
		return nil, err
	}
	return api.ContractReply{Inputs: contract.Inputs, Outputs: contract.Outputs, Problems: append([]function.Problem{}, problems...)}, nil
}

// graphRun calls a stored graph as a function. Its answer always has the same
// members, whatever happened.
func (s *Server) graphRun(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	reply := api.FunctionReply{
		Status: "ok", Graph: r.PathValue("name"), App: functionAppName, Version: s.cfg.Host.Info().Version,
		Outputs: map[string]json.RawMessage{},
	}
	if e := s.callGraph(r, &reply); e != nil {
		reply.Status, reply.Outputs = "error", map[string]json.RawMessage{}
		reply.Error = &api.FunctionError{Code: e.code, Message: e.message, Details: json.RawMessage("null")}
		if e.nodeID != "" {
			reply.Error.NodeID = &e.nodeID
		}
		if e.refused != nil {
			return e.refused
		}
	}
	reply.Timing.TotalS = time.Since(began).Seconds()
	status := http.StatusOK
	if reply.Error != nil {
		status = functionStatus(reply.Error.Code)
	}
	s.write(w, status, reply)
	return nil
}

// callFault is why a call gave no outputs. refused is an answer of the API
// itself, such as a busy lane.
type callFault struct {
	code, message, nodeID string
	refused               error
}

func problem(p function.Problem) *callFault {
	return &callFault{code: p.Code, message: p.Message, nodeID: p.NodeID}
}

func (s *Server) callGraph(r *http.Request, reply *api.FunctionReply) *callFault {
	var req api.FunctionRequest
	var tooLarge *http.MaxBytesError
	switch err := decode(r, &req, true); {
	case errors.As(err, &tooLarge):
		return &callFault{code: codePayloadTooLarge, message: fmt.Sprintf("the request's body is larger than %d bytes", tooLarge.Limit)}
	case err != nil:
		return &callFault{code: function.CodeInvalidInput, message: err.Error()}
	}
	timeout := functionTimeout
	if req.TimeoutS != nil {
		timeout = time.Duration(*req.TimeoutS * float64(time.Second))
		if timeout < functionLeast || timeout > functionMost {
			return &callFault{code: function.CodeInvalidInput, message: "timeout_s must be 1 to 3600 seconds"}
		}
	}
	raw, contract, problems, err := s.contractOf(r)
	switch {
	case api.CodeOf(err) == api.NotFound && err != nil:
		return &callFault{code: codeGraphNotFound, message: err.Error()}
	case err != nil:
		return &callFault{code: codeGraphUnreadable, message: err.Error()}
	case len(problems) > 0:
		return problem(problems[0])
	}
	inputs, problems := contract.Arguments(req.Inputs)
	if len(problems) > 0 {
		return problem(problems[0])
	}
	options := map[string]any{"record_outputs": req.RecordOutputs}
	if req.Device != "" {
		options["device"] = req.Device
	}
	doc, err := json.Marshal(options)
	if err != nil {
		return &callFault{code: codeExecution, message: err.Error()}
	}
	name := reply.Graph
	submitted, err := s.cfg.Runs.Call(r.Context(), s.user(r), api.SubmitRequest{Graph: raw, Options: doc, Name: &name}, inputs)
	if err != nil {
		return &callFault{refused: err}
	}
	s.note(r.Context(), s.origin(r, givenToken(r)), act{"call", "graph"}, name, "run "+submitted.RunID)
	reply.RunID = &submitted.RunID
	row, fault := s.awaitCall(r.Context(), submitted.RunID, timeout)
	if fault != nil {
		return fault
	}
	reply.Device = &row.Options.Device
	return outputsOf(row, contract, reply)
}

// awaitCall waits for a call's end, and stops it when its time is over or its
// caller is gone.
func (s *Server) awaitCall(ctx context.Context, id string, timeout time.Duration) (run.Row, *callFault) {
	sub := s.cfg.Feed.Subscribe(id)
	defer sub.Close()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for {
		row, err := s.cfg.Store.Run(ctx, id)
		if err == nil && row.Status.Terminal() {
			return row, nil
		}
		var over *callFault
		select {
		case <-sub.C():
			continue
		case <-deadline.C:
			over = &callFault{code: codeTimeout, message: "the graph took longer than " + timeout.String()}
		case <-ctx.Done():
			over = &callFault{code: codeTimeout, message: "the caller went away"}
		case <-s.done:
			over = &callFault{code: codeExecution, message: "the control plane stops"}
		}
		stopping := context.WithoutCancel(ctx)
		if _, err := s.cfg.Runs.Cancel(stopping, id, functionCancelGrace, false); err != nil {
			s.log.Warn("stop a call", "run_id", id, "error", err)
		}
		return run.Row{}, over
	}
}

// outputsOf fills the reply with what the graph gave.
func outputsOf(row run.Row, contract function.Contract, reply *api.FunctionReply) *callFault {
	if row.Status != run.Succeeded {
		var f struct {
			ErrorType string `json:"error_type"`
		}
		_ = json.Unmarshal(row.Facts, &f) // without facts it is an ordinary error
		code := codeExecution
		switch f.ErrorType {
		case "OutputTooLarge":
			code = codeOutputTooLarge
		case "UnserializableOutput":
			code = codeUnserializable
		}
		text := row.Error
		if text == "" {
			text = "the run was " + string(row.Status)
		}
		return &callFault{code: code, message: text}
	}
	var f struct {
		Outputs map[string]json.RawMessage `json:"api_outputs"`
	}
	if len(row.Facts) > 0 {
		if err := json.Unmarshal(row.Facts, &f); err != nil {
			return &callFault{code: codeExecution, message: "the outputs can't be read: " + err.Error()}
		}
	}
	for _, out := range contract.Outputs {
		value, ok := f.Outputs[out.Name]
		if !ok {
			return &callFault{code: codeOutputNotProduced, message: "output \"" + out.Name + "\" was not produced", nodeID: out.NodeID}
		}
		reply.Outputs[out.Name] = value
	}
	return nil
}
