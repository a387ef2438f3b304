package api

import (
	"encoding/json"

	"cdui/internal/graph/finding"
	"cdui/internal/graph/function"
)

// Paths of what is said of graphs, node types and presets.
const (
	PathGraphValidate = "/api/graph/validate"
	PathGraphRun      = "/api/graph/run/{name}"
	PathGraphContract = "/api/graph/contract/{name}"
	PathNodes         = "/api/nodes"
	PathPresets       = "/api/presets"
)

// ValidateReply is the reply to POST /api/graph/validate. Errors holds the
// messages of Issues, in their order.
type ValidateReply struct {
	Valid  bool     `json:"valid"`
	Errors []string `json:"errors"`
	Issues []Issue  `json:"issues"`
	// Warnings are what the graph runs in spite of.
	Warnings []Issue `json:"warnings"`
}

// Issue is one finding of a graph. NodeID is null where no single node is at
// fault.
type Issue struct {
	Message string         `json:"message"`
	Code    string         `json:"code"`
	NodeID  *string        `json:"node_id"`
	Params  map[string]any `json:"params"`
}

// IssuesOf translates findings.
func IssuesOf(findings []finding.Finding) []Issue {
	out := make([]Issue, len(findings))
	for i, f := range findings {
		out[i] = Issue{Message: f.Message, Code: f.Code, Params: f.Params}
		if f.Params == nil {
			out[i].Params = map[string]any{}
		}
		if f.NodeID != "" {
			id := f.NodeID
			out[i].NodeID = &id
		}
	}
	return out
}

// FunctionRequest calls a stored graph as a function.
type FunctionRequest struct {
	Inputs        map[string]json.RawMessage `json:"inputs"`
	TimeoutS      *float64                   `json:"timeout_s,omitempty"`
	Device        string                     `json:"device,omitempty"`
	RecordOutputs bool                       `json:"record_outputs,omitempty"`
}

// FunctionReply answers such a call; it always has all nine members.
type FunctionReply struct {
	Status  string                     `json:"status"`
	RunID   *string                    `json:"run_id"`
	Graph   string                     `json:"graph"`
	App     string                     `json:"app"`
	Version string                     `json:"version"`
	Device  *string                    `json:"device"`
	Outputs map[string]json.RawMessage `json:"outputs"`
	Error   *FunctionError             `json:"error"`
	Timing  FunctionTiming             `json:"timing"`
}

// FunctionError is why a call gave no outputs.
type FunctionError struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	NodeID  *string         `json:"node_id"`
	Details json.RawMessage `json:"details"`
}

// FunctionTiming is how long a call took.
type FunctionTiming struct {
	TotalS float64 `json:"total_s"`
}

// ContractReply is the reply to GET /api/graph/contract/{name}.
type ContractReply struct {
	Inputs   []function.Input   `json:"inputs"`
	Outputs  []function.Output  `json:"outputs"`
	Problems []function.Problem `json:"problems"`
}
